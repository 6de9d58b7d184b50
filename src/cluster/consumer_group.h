/* consumer_group.h — consumer group state: members with their roles, and the shards of the data assigned to them.
 *
 * A numbered value, decided by compare-and-swap at the metadata store (group_leader.h); the next one is a function of
 * the last one and of the members' messages. Everything a member does follows from the newest consumer group that it
 * knows, so a restarted process, the group leader included, continues from there.
 *
 * Roles     a member is the scheduler, a server or a worker; a group is a sum of roles, as in ps-lite.
 * Parts     the shards of the data, all of them once in an epoch. A part has a holder, one of the workers, and a
 *           position up to which it is claimed. A claim begins at that position and moves it; so the claims of an epoch
 *           are a sequence of ranges without a gap and without a repeat, whichever member claimed them. When a holder
 *           leaves, its parts are assigned to others, at their positions; a worker that joins gets some of those that
 *           have more. When all parts are claimed the next epoch begins.
 * Claims    batches for the steps of ranks, before they are done (batch_claims.h): a worker names the steps, and their
 *           batches are decided with the consumer group, so any number of claims go into one decision. Batches that
 *           were handed back come first, then the worker's own parts; a worker that has none left claims from the parts
 *           of others, and claims continue into the next epoch: no worker waits for the end of one. Every process of
 *           the rank, now or later, does the step with that batch.
 * Restart   Steps count from the beginning of the tables. If the tables begin empty again, so does the data: `birth` is
 *           the cluster map in which they began, and a wish with another value is ignored.
 *
 * Invariants (consumer_group_check)
 *   1  Members are sorted by id, each once, and each has one role.
 *   2  No part is claimed beyond its size; a part without a holder has no incarnation.
 *   3  The claims are sound (batch_claims.h).
 *
 *   bytes    what (v: varint, f: folded distance from the number, base/varint.h)
 *   -------  ------------------------------------------------------------------------------
 *   1 8 8    CONSUMER_GROUP_LAYOUT, number, birth
 *   v        members, sorted by id; each: v ids left out before it, f incarnation, 1 role, 1 zero,
 *              1 length of the prefix that its address shares with the one before it, 1 + n the rest
 *   1        zero
 *   v v      epoch, parts; each: v size, v position, v 1 + holder (0: none), and of a holder f its incarnation
 *   …        claims (batch_claims.h)
 *
 * The zeros were for barriers, which layout 4 has room for and nothing ever wrote: other values are corrupt.
 *
 * Pure. */
#pragma once
#include "base/bytes.h"
#include "cluster/batch_claims.h"
#include "miniray/status.h"

#define CONSUMER_GROUP_KEY "roster"
enum {
    CONSUMER_GROUP_LAYOUT = 4,
    CONSUMER_GROUP_MEMBERS_MAX = 3072,
    CONSUMER_GROUP_PARTS_MAX = 2048,
    CONSUMER_GROUP_PIECES_MAX = 64,  /* most ranges that one wish gets in one decision */
    CONSUMER_GROUP_ADDRESS_MAX = 64, /* bytes, NUL included */
};
enum { CONSUMER_GROUP_SCHEDULER = 1, CONSUMER_GROUP_SERVER = 2, CONSUMER_GROUP_WORKER = 4 };
#define CONSUMER_GROUP_NOBODY UINT32_MAX
static inline bool consumer_group_is_role(uint8_t role) { /* a single role, not a sum of several */
    return role == CONSUMER_GROUP_SCHEDULER || role == CONSUMER_GROUP_SERVER || role == CONSUMER_GROUP_WORKER;
}

typedef struct consumer_group_member {
    uint32_t id;
    uint64_t incarnation;
    uint8_t role;
    char address[CONSUMER_GROUP_ADDRESS_MAX];
} consumer_group_member;

typedef struct consumer_group_part {
    uint64_t size, position;
    uint32_t holder; /* a worker's id, or CONSUMER_GROUP_NOBODY */
    uint64_t incarnation;
} consumer_group_part;

typedef struct consumer_group { /* a zero-initialized group means "none yet" */
    uint64_t number, birth, epoch;
    consumer_group_member *members; /* owned */
    size_t member_count;
    consumer_group_part *parts; /* owned */
    size_t part_count;
    batch_claims claims;
} consumer_group;

void consumer_group_fini(consumer_group *group);
/* `to` is initialized; its content is replaced */
void consumer_group_copy(consumer_group *to, const consumer_group *from);

const consumer_group_member *consumer_group_find(const consumer_group *group, uint32_t id); /* NULL: not a member */
/* number of members whose role is in `group` */
size_t consumer_group_group(const consumer_group *consumer_group, uint8_t group);

/* ---- Changes for the next consumer group. A change that is already made, or comes too late, is a no-op. */

/* Sets the parts of the data, once: a no-op if there are parts. */
void consumer_group_cut(consumer_group *group, const uint64_t *sizes, size_t count);

/* Adds a member; an earlier process of the same id is removed first. MR_STALE: a later process is a member.
 * MR_TOO_LARGE: too many members. */
MR_MUST mr_status consumer_group_put(consumer_group *group, const consumer_group_member *member);
void consumer_group_remove(consumer_group *group, uint32_t id);

/* Message of a rank's process about its data: steps that need batches, and steps that are over. */
typedef struct consumer_group_wish {
    uint32_t rank, count; /* count: most steps that need batches, from `step` on, of `batch` items each; 0: none */
    uint64_t step, batch;
    batch_claims_past past;
    uint64_t birth;   /* birth in the consumer group that the sender knows */
    bool leaves;      /* the rank leaves; batches from `step` on, none of them begun, are handed back; count is 0 */
    uint64_t granted; /* if `leaves`: number of the rank's claims that the sender knows */
} consumer_group_wish;

/* Begins the data again if the tables have begun empty in this later cluster map. True: something changed. */
bool consumer_group_restart(consumer_group *group, uint64_t birth);

/* Ends steps of the rank, or lets it leave: unused batches are handed back. True: something changed. */
bool consumer_group_pass(consumer_group *group, const consumer_group_wish *wish);

/* Claims batches for steps of a rank, in order, until a step that is claimed or the end of the data. MR_STALE: the
 * first step is claimed or over, the process is not a worker of the group, or the group has no data. MR_INVALID:
 * malformed wish. MR_TOO_LARGE: the group is full. */
MR_MUST mr_status consumer_group_claim(consumer_group *group, uint32_t id, uint64_t incarnation,
                                       const consumer_group_wish *wish);

bool consumer_group_is_full(const consumer_group *group); /* no claim is possible before members report steps as over */

/* Whether the wish is fulfilled or can never be. */
bool consumer_group_grants(const consumer_group *group, const consumer_group_wish *wish);

/* Index of the part from which this process claims: the first unfinished one of its own, otherwise of any member;
 * part_count: none. */
size_t consumer_group_source(const consumer_group *group, uint32_t id, uint64_t incarnation);

/* Assigns every unfinished part to a worker; no worker has two more of them than another. */
void consumer_group_deal(consumer_group *group);

size_t consumer_group_size(const consumer_group *group);
void consumer_group_encode(const consumer_group *group, writer *writer);
/* MR_CORRUPT: malformed, and *out, which is initialized, is unchanged */
MR_MUST mr_status consumer_group_decode(span bytes, consumer_group *out);

void consumer_group_check(const consumer_group *group); /* asserts the invariants above (base/invariants.h) */
