/* group_consumer.h — member's side of the consumer group: its role, and the batches it claims (group_leader.h).
 *
 * The member repeats both every GROUP_CONSUMER_BEAT_US, until the newest consumer group shows them. Pure: control
 * messages and ticks.
 *
 * Invariants (group_consumer_check)
 *  1  Of each rank there is one wish; GROUP_CONSUMER_WISHES_MAX at most.
 *  2  No wish is open that the newest consumer group grants. */
#pragma once
#include "cluster/consumer_group.h"
#include "cluster/control_message.h"

#define GROUP_CONSUMER_BEAT_US INT64_C(100000)
enum { GROUP_CONSUMER_WISHES_MAX = 16 };

typedef struct group_consumer_options {
    uint32_t id;
    uint8_t role;
    const char *address, *leader; /* where it is reached, and where the group leader is; borrowed for its life */
    void (*send)(void *context, const char *address, const control_message *message);
    void (*on_group)(void *context, const consumer_group *group); /* it knows a newer one */
    void *context;
} group_consumer_options;

typedef struct group_consumer group_consumer;

group_consumer *group_consumer_create(const group_consumer_options *options); /* copies the options */
void group_consumer_destroy(group_consumer *consumer);

/* It has an incarnation, which the metadata store gives, and begins; or goes on as another, having been taken out. */
void group_consumer_begin(group_consumer *consumer, uint64_t incarnation, int64_t now_us);
/* it was in a consumer group, and the newest is without it */
bool group_consumer_is_out(const group_consumer *consumer);

/* false: not for a group consumer */
bool group_consumer_take(group_consumer *consumer, const control_message *message);
int64_t group_consumer_next_us(const group_consumer *consumer);
void group_consumer_tick(group_consumer *consumer, int64_t now_us);

const consumer_group *group_consumer_group(const group_consumer *consumer);

/* Wants pieces for steps of a rank, or reports that some are over (consumer_group.h), until the consumer group has it.
 * Another wish for the same rank takes the place of the last one. False: it has GROUP_CONSUMER_WISHES_MAX others. */
bool group_consumer_wish(group_consumer *consumer, const consumer_group_wish *wish);
/* that is open; NULL: none */
const consumer_group_wish *group_consumer_wish_of(const group_consumer *consumer, uint32_t rank);
/* it holds this rank no more */
void group_consumer_withdraw(group_consumer *consumer, uint32_t rank);

/* ---- Its message, for the group leader. */

typedef struct group_consumer_word {
    consumer_group_member member;
    uint8_t wish_count;
    consumer_group_wish wishes[GROUP_CONSUMER_WISHES_MAX];
} group_consumer_word;
MR_MUST mr_status group_consumer_read(const control_message *message, group_consumer_word *word); /* MR_CORRUPT */

void group_consumer_check(const group_consumer *consumer); /* asserts the invariants above (base/invariants.h) */
