/* roster.h — consumer group state: members with their roles, and the shards of the data assigned to them.
 *
 * A numbered value, decided by compare-and-swap at the coordinator (marshal.h); the next one is a function of the last
 * one and of what members say. Everything a member does follows from the newest roster that it knows, so a restarted
 * process, the marshal included, goes on from there.
 *
 * Roles     a member is the scheduler, a server or a worker; a group is a sum of roles, as in ps-lite.
 * Parts     of the data, all of them once in an epoch. A part has a holder, one of the workers, and a position: how far
 *           it is claimed. A claim begins at that position and moves it; so what is claimed in an epoch is a row of
 *           pieces without a gap and without a repeat, whoever claimed them. A holder that goes leaves its parts, at
 *           their positions, to others; a worker that comes gets some of those who have more. When all are claimed the
 *           next epoch begins.
 * Claims    of pieces for the steps of ranks, before they are done (claims.h): a worker says for which steps, and which
 *           pieces they get is decided with the roster, so any number of claims go into one. Returned pieces come
 *           first, then the worker's own parts; a worker that has none left helps others with theirs, and claims go on
 *           into the next epoch: nobody waits for the end of one. Every process of the rank, now or later, does the
 *           step with that piece.
 * Birth     Steps count from where the tables began. If those begin from nothing once more, so does the data: `birth`
 *           says with which of the tables' beginnings this one came, and a wish that speaks of another is not heard.
 *
 * Invariants (roster_check)
 *   1  Members are sorted by id, each once, and each has one role.
 *   2  No part is claimed further than it goes; a part that nobody holds has no incarnation.
 *   3  The claims are sound (claims.h).
 *
 *   bytes    what (v: varint, f: folded distance from the number, base/varint.h)
 *   -------  ------------------------------------------------------------------------------
 *   1 8 8    ROSTER_LAYOUT, number, birth
 *   v        members, sorted by id; each: v ids left out before it, f incarnation, 1 role, 1 zero,
 *              1 how much of its address is that of the one before it, 1 + n the rest
 *   1        zero
 *   v v      epoch, parts; each: v size, v position, v 1 + holder (0: nobody), and of a holder f its incarnation
 *   …        claims (claims.h)
 *
 * The zeros were for barriers, which layout 4 has room for and nothing ever wrote: other values are corrupt.
 *
 * Pure. */
#pragma once
#include "base/bytes.h"
#include "cluster/claims.h"
#include "miniray/status.h"

#define ROSTER_KEY "roster"
enum {
    ROSTER_LAYOUT = 4,
    ROSTER_MEMBERS_MAX = 3072,
    ROSTER_PARTS_MAX = 2048,
    ROSTER_PIECES_MAX = 64,  /* that a wish is given at once */
    ROSTER_ADDRESS_MAX = 64, /* with its NUL */
};
enum { ROSTER_SCHEDULER = 1, ROSTER_SERVER = 2, ROSTER_WORKER = 4 };
#define ROSTER_NOBODY UINT32_MAX

typedef struct roster_member {
    uint32_t id;
    uint64_t incarnation;
    uint8_t role;
    char address[ROSTER_ADDRESS_MAX];
} roster_member;

typedef struct roster_part {
    uint64_t size, position;
    uint32_t holder; /* ROSTER_NOBODY */
    uint64_t incarnation;
} roster_part;

typedef struct roster { /* zero-initialized it is "none yet" */
    uint64_t number, birth, epoch;
    roster_member *members; /* owned */
    size_t member_count;
    roster_part *parts; /* owned */
    size_t part_count;
    claims claims;
} roster;

void roster_fini(roster *roster);
void roster_copy(roster *to, const roster *from); /* `to` is initialized; its content is replaced */

const roster_member *roster_find(const roster *roster, uint32_t id); /* NULL: it is not here */
size_t roster_group(const roster *roster, uint8_t group);            /* how many are here */

/* ---- The next roster. All are no-ops if they have been done, or come too late. */

/* Cuts the data. Once: there are no parts yet. */
void roster_cut(roster *roster, const uint64_t *sizes, size_t count);

/* It is here, with this role. An earlier process of it goes first. MR_STALE: a later one is here. MR_TOO_LARGE. */
MR_MUST mr_status roster_put(roster *roster, const roster_member *member);
void roster_remove(roster *roster, uint32_t id);

/* What the player of a rank says of its data: for which steps it wants pieces, and which ones are over. */
typedef struct roster_wish {
    uint32_t rank, count; /* so many steps at most, from this one on, of so many items each; 0: none */
    uint64_t step, batch;
    claims_past past;
    uint64_t birth;   /* of the roster that it knows */
    bool leaves;      /* it has not begun the steps from `step` on, and hands back what they have; count is 0 */
    uint64_t granted; /* claims of the rank that it knows of, of one that leaves */
} roster_wish;

/* The tables have begun from nothing, in this chart: so does the data, unless it has. True: something has changed. */
bool roster_restart(roster *roster, uint64_t birth);

/* Steps of the rank are over, or it leaves: what was not spent is handed back. True: something has changed. */
bool roster_pass(roster *roster, const roster_wish *wish);

/* A process claims pieces for steps of a rank: as many as there are, in a row, until one that has a piece. MR_STALE:
 * the first of them has one, or is over; it is no worker that is here; there is no data. MR_INVALID, MR_TOO_LARGE. */
MR_MUST mr_status roster_claim(roster *roster, uint32_t id, uint64_t incarnation, const roster_wish *wish);

bool roster_is_full(const roster *roster); /* nobody can claim anything before others say what is over */

/* There is nothing left to do for this wish. */
bool roster_grants(const roster *roster, const roster_wish *wish);

/* The part that this process should claim of: the first of its own that is not done, else of anybody's; part_count:
 * there is none. */
size_t roster_source(const roster *roster, uint32_t id, uint64_t incarnation);

/* Every part that is not done gets a holder; nobody has two more of them than another. */
void roster_deal(roster *roster);

size_t roster_size(const roster *roster);
void roster_encode(const roster *roster, writer *writer);
MR_MUST mr_status roster_decode(span bytes, roster *out); /* MR_CORRUPT, *out is unchanged; it is initialized */

void roster_check(const roster *roster); /* asserts the invariants above (base/invariants.h) */
