/* group_consumer.h — member's side of the consumer group: its role, and the batches it claims (group_leader.h).
 *
 * The member repeats both every GROUP_CONSUMER_BEAT_US, until the newest consumer group shows them. Pure: control
 * messages and ticks.
 *
 * Invariants (group_consumer_check)
 *  1  Each rank has at most one wish, and there are at most GROUP_CONSUMER_WISHES_MAX.
 *  2  No wish is open that the newest consumer group grants. */
#pragma once
#include "cluster/consumer_group.h"
#include "cluster/control_message.h"

#define GROUP_CONSUMER_BEAT_US INT64_C(100000)
enum { GROUP_CONSUMER_WISHES_MAX = 16 };

typedef struct group_consumer_options {
    uint32_t id;
    uint8_t role;
    /* addresses of this process and of the group leader, borrowed for the consumer's life */
    const char *address, *leader;
    void (*send)(void *context, const char *address, const control_message *message);
    void (*on_group)(void *context, const consumer_group *group); /* a newer consumer group is known */
    void *context;
} group_consumer_options;

typedef struct group_consumer group_consumer;

group_consumer *group_consumer_create(const group_consumer_options *options); /* copies the options */
void group_consumer_destroy(group_consumer *consumer);

/* Begins with an incarnation from the metadata store, or begins again with another after a removal. */
void group_consumer_begin(group_consumer *consumer, uint64_t incarnation, int64_t now_us);
/* this incarnation was a member, and is not one in the newest consumer group */
bool group_consumer_is_out(const group_consumer *consumer);

/* false: the message is not for a group consumer */
bool group_consumer_take(group_consumer *consumer, const control_message *message);
int64_t group_consumer_next_us(const group_consumer *consumer);
void group_consumer_tick(group_consumer *consumer, int64_t now_us);

const consumer_group *group_consumer_group(const group_consumer *consumer);

/* Requests batches for steps of a rank, or reports steps that are over (consumer_group.h), until the consumer group
 * shows it. Replaces the last wish of the same rank. False: there are GROUP_CONSUMER_WISHES_MAX other wishes. */
bool group_consumer_wish(group_consumer *consumer, const consumer_group_wish *wish);
/* the open wish of a rank; NULL: none */
const consumer_group_wish *group_consumer_wish_of(const group_consumer *consumer, uint32_t rank);
/* the process does not hold this rank any more */
void group_consumer_withdraw(group_consumer *consumer, uint32_t rank);

/* ---- Messages of members, as the group leader reads them. */

typedef struct group_consumer_word {
    consumer_group_member member;
    uint8_t wish_count;
    consumer_group_wish wishes[GROUP_CONSUMER_WISHES_MAX];
} group_consumer_word;
/* MR_CORRUPT: malformed */
MR_MUST mr_status group_consumer_read(const control_message *message, group_consumer_word *word);

void group_consumer_check(const group_consumer *consumer); /* asserts the invariants above (base/invariants.h) */
