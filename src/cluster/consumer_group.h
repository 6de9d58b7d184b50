/* consumer_group.h — consumer group state: members with their roles, and the shards of the data assigned to them.
 *
 * A numbered value, decided by compare-and-swap at the metadata store (group_leader.h); the next one is a function of
 * the last one and of the members' messages. Everything a member does follows from the newest consumer group that it
 * knows, so a restarted process, the group leader included, goes on from there.
 *
 * Roles     a member is the scheduler, a server or a worker; a group is a sum of roles, as in ps-lite.
 * Parts     of the data, all of them once in an epoch. A part has a holder, one of the workers, and a position: how far
 *           it is claimed. A claim begins at that position and moves it; so the claims of an epoch are a row of
 *           pieces without a gap and without a repeat, whichever member claimed them. A holder that leaves gives its
 *           parts, at their positions, to others; a worker that comes gets some of those that have more. When all are
 *           claimed the next epoch begins.
 * Claims    of pieces for the steps of ranks, before they are done (batch_claims.h): a worker names the steps, and
 *           their pieces are decided with the consumer group, so any number of claims go into one. Returned pieces come
 *           first, then the worker's own parts; a worker that has none left takes pieces of others, and claims go on
 *           into the next epoch: no worker waits for the end of one. Every process of the rank, now or later, does the
 *           step with that piece.
 * Restart   Steps count from where the tables began. If the tables begin from nothing once more, so does the data:
 *           `birth` is the cluster map in which they began, and a wish with another value is ignored.
 *
 * Invariants (consumer_group_check)
 *   1  Members are sorted by id, each once, and each has one role.
 *   2  No part is claimed further than it goes; a part without a holder has no incarnation.
 *   3  The claims are sound (batch_claims.h).
 *
 *   bytes    what (v: varint, f: folded distance from the number, base/varint.h)
 *   -------  ------------------------------------------------------------------------------
 *   1 8 8    CONSUMER_GROUP_LAYOUT, number, birth
 *   v        members, sorted by id; each: v ids left out before it, f incarnation, 1 role, 1 zero,
 *              1 how much of its address is that of the one before it, 1 + n the rest
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
    CONSUMER_GROUP_PIECES_MAX = 64,  /* that a wish is given at once */
    CONSUMER_GROUP_ADDRESS_MAX = 64, /* with its NUL */
};
enum { CONSUMER_GROUP_SCHEDULER = 1, CONSUMER_GROUP_SERVER = 2, CONSUMER_GROUP_WORKER = 4 };
#define CONSUMER_GROUP_NOBODY UINT32_MAX
static inline bool consumer_group_is_role(uint8_t role) { /* one, and no sum of several */
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
    uint32_t holder; /* CONSUMER_GROUP_NOBODY */
    uint64_t incarnation;
} consumer_group_part;

typedef struct consumer_group { /* zero-initialized it is "none yet" */
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

const consumer_group_member *consumer_group_find(const consumer_group *group, uint32_t id); /* NULL: it is not here */
size_t consumer_group_group(const consumer_group *consumer_group, uint8_t group);           /* how many are here */

/* ---- The next consumer group. All are no-ops if they have been done, or come too late. */

/* Cuts the data. Once: there are no parts yet. */
void consumer_group_cut(consumer_group *group, const uint64_t *sizes, size_t count);

/* It is here, with this role. An earlier process of it goes first. MR_STALE: a later one is here. MR_TOO_LARGE. */
MR_MUST mr_status consumer_group_put(consumer_group *group, const consumer_group_member *member);
void consumer_group_remove(consumer_group *group, uint32_t id);

/* Message of a rank's process about its data: for which steps it wants pieces, and which ones are over. */
typedef struct consumer_group_wish {
    uint32_t rank, count; /* so many steps at most, from this one on, of so many items each; 0: none */
    uint64_t step, batch;
    batch_claims_past past;
    uint64_t birth;   /* of the consumer group that it knows */
    bool leaves;      /* it has not begun the steps from `step` on, and hands back their pieces; count is 0 */
    uint64_t granted; /* claims of the rank that it knows of, of one that leaves */
} consumer_group_wish;

/* The tables have begun from nothing, in this cluster map: so does the data, unless it has. True: something has
 * changed. */
bool consumer_group_restart(consumer_group *group, uint64_t birth);

/* Steps of the rank are over, or it leaves: pieces that were not spent are handed back. True: something has changed. */
bool consumer_group_pass(consumer_group *group, const consumer_group_wish *wish);

/* A process claims pieces for steps of a rank: as many as there are, in a row, until one that has a piece. MR_STALE:
 * the first of them has one, or is over; it is no worker that is here; there is no data. MR_INVALID, MR_TOO_LARGE. */
MR_MUST mr_status consumer_group_claim(consumer_group *group, uint32_t id, uint64_t incarnation,
                                       const consumer_group_wish *wish);

bool consumer_group_is_full(const consumer_group *group); /* no claim is possible before members report steps as over */

/* There is nothing left to do for this wish. */
bool consumer_group_grants(const consumer_group *group, const consumer_group_wish *wish);

/* The part that this process should claim of: the first of its own that is not done, else of any member's; part_count:
 * there is none. */
size_t consumer_group_source(const consumer_group *group, uint32_t id, uint64_t incarnation);

/* Every part that is not done gets a holder; no worker has two more of them than another. */
void consumer_group_deal(consumer_group *group);

size_t consumer_group_size(const consumer_group *group);
void consumer_group_encode(const consumer_group *group, writer *writer);
/* MR_CORRUPT, *out is unchanged; it is initialized */
MR_MUST mr_status consumer_group_decode(span bytes, consumer_group *out);

void consumer_group_check(const consumer_group *group); /* asserts the invariants above (base/invariants.h) */
