/* group_leader.h — leader of the consumer group: proposes its state, and sends the decided state to members.
 *
 * Members repeat their state and wishes: that they are alive, and for which steps they need batches of the data. The
 * group leader makes the next consumer group from these messages, has it decided, and sends the newest to members that
 * have an older one:
 *
 *   group consumer ── ATTEND: id, role, wishes ──► group leader ── compare-and-swap, one at a time ──► metadata store
 *      ▲                                                │
 *      └──────────── GROUP, decided, if newer ──────────┘
 *
 * Messages that arrive while a consumer group is being decided are kept, the last of each member, for the next one. So
 * a decision has many wishes in it, and the claims of one hundred members cost a write or two. The group leader keeps
 * no durable state: it may die and start at any time, and two of them do no harm. A member that is silent for
 * GROUP_LEADER_SUSPECT_US is removed; if it is alive it learns of the removal and returns with another incarnation.
 *
 * Invariants (group_leader_check)
 *  1  The consumer group that was decided and the next one are sound (consumer_group.h).
 *  2  At most one message of each of CONSUMER_GROUP_MEMBERS_MAX members waits, and their wishes fit into its table.
 *
 * Pure: control messages, answers of the metadata store and ticks. */
#pragma once
#include "cluster/consumer_group.h"
#include "cluster/control_message.h"
#include "cluster/metadata_store.h"

#define GROUP_LEADER_TICK_US    INT64_C(100000)
#define GROUP_LEADER_SUSPECT_US INT64_C(600000)
#define GROUP_LEADER_POLL_US    INT64_C(1000000)
/* stamp.view: the newest consumer group that the sender knows */
enum { MESSAGE_ATTEND = CONTROL_MESSAGE_USER, MESSAGE_GROUP };

typedef struct group_leader_options {
    metadata_store store;
    const uint64_t *sizes; /* sizes of the parts of the data, borrowed for the leader's life */
    size_t part_count;
    void (*send)(void *context, const char *address, const control_message *message);
    void (*on_decided)(void *context, const consumer_group *group); /* a newer consumer group is decided; may be NULL */
    void *context;
} group_leader_options;

typedef struct group_leader group_leader;

group_leader *group_leader_create(const group_leader_options *options, int64_t now_us); /* copies the options */
/* the caller ensures that no answer of the metadata store is pending */
void group_leader_destroy(group_leader *leader);
/* false: the message is not for a group leader */
bool group_leader_take(group_leader *leader, const control_message *message, int64_t now_us);
/* restarts the data (consumer_group_restart) with the next decision */
void group_leader_restart(group_leader *leader, uint64_t birth);
int64_t group_leader_next_us(const group_leader *leader);
void group_leader_tick(group_leader *leader, int64_t now_us);
const consumer_group *group_leader_group(const group_leader *leader);

void group_leader_check(const group_leader *leader); /* asserts the invariants above (base/invariants.h) */
