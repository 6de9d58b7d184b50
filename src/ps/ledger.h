/* ledger.h — state of BSP rounds: their ranks, norms and terms, kept in the last slot.
 *
 * The ledger lies in a chain like any other slot, and is changed by committed entries only; so it says one thing to
 * everybody, and survives what slots survive. Its version k says who is in round k (the members) and what else holds
 * for the round. A rank pulls it with the weights, and every contribution to round k carries it: no head needs a view
 * of its own to know when a round is complete.
 *
 *   JOIN, LEAVE   of a rank, hold from the next round on
 *   DROP          somebody gives a rank up: it leaves with the next round, and this round should not wait for it. But a
 *                 slot may have counted it already. So the head of the ledger asks the heads of all slots to freeze it:
 *
 *                        all have frozen it, none has closed ──► VOID: this round closes without it, everywhere
 *       DROP ── freeze ──┤
 *                        one has closed the round with it ─────► REDO: it counts after all, and must be played
 *
 *   MARK          the next round ends with a cut of every slot: a checkpoint (its name is the version that is cut)
 *   ROUND         the round is over, with this set: the members who were counted
 *   NORMS         what was measured of the round before in all slots, with that set (norms.h); in phases, if what comes
 *                 of one is needed to measure the next. Slots that need them close that round with exactly these
 *
 * Under a policy of backup workers or deadlines the set is not known before the ledger decides it: a rank whose
 * contributions have been taken by all slots ticks the ledger, and with enough ticks, or at the deadline, the ledger
 * closes first, with those; the slots follow (`waits`). There a rank that is given up needs no freezing.
 *
 * Otherwise a slot closes with the members less those who are void, and the ledger does as any slot does.
 *
 *   bytes     what a rank is shown, and the state: that, that of the round before, and its norms if there are any
 *   --------  --------------------------------------------------------------------
 *   8 4 4     round, ranks of the table, backup
 *   1 1 1 1   waits; cut of this round, the next, the one before;
 *   1         the one before was decided here
 *   n × 6     crowds: members, next, dropping, voided, redo, past set
 *
 *   bytes     norms
 *   --------  --------------------------------------------------------------------
 *   8 4       round, phases
 *   4 + n     what was made of each phase, one behind the other
 *
 * Invariants (ledger_check)
 *   1  Sets have ranks of the table only.
 *   2  Who is given up is a member; who is void or to be played once more is given up; nobody is both.
 *   3  The page before has the same ranks, or is empty; norms are of at most VALUES_PHASES_MAX phases, and have bytes.
 *
 * Bytes that break 1 or 2 are not a ledger.
 *
 * Pure; the same entries give the same bytes. */
#pragma once
#include "ps/crowd.h"
#include "ps/tape.h"
#include "ps/values.h"

typedef struct ledger {
    uint64_t round;
    uint32_t rank_count, backup;
    bool waits; /* for the ledger: the set is not known before it is decided */
    bool cuts, cuts_next, past_cuts;
    bool past_decided; /* the round before was closed with a set that contributions do not tell */
    crowd members, next;
    crowd dropping, voided, redo; /* of the members: given up; not waited for; to be played once more */
    crowd past_set;               /* of the round before */
} ledger;

typedef struct ledger_norms {
    uint64_t round;
    uint32_t phases; /* 0: there are none */
    bale *bale;      /* of all phases; shared; NULL: there are none */
} ledger_norms;

typedef struct ledger_pages { /* the values of its slot; a pointer to them is one to the ledger */
    ledger now;
    ledger before; /* as it was when the round before ended; of no ranks: there was none */
    ledger_norms norms;
} ledger_pages;

extern const values_ops ledger_ops; /* `self` is ledger_pages; what it applies are no payloads: see ledger_turn */

void ledger_begin(ledger *ledger, uint32_t rank_count, uint32_t first, uint32_t backup, bool waits);
void ledger_apply(ledger *ledger, const tape_entry *entry);
void ledger_turn(ledger_pages *pages, const tape_entry *entry);    /* the end of a round: what was before is kept */
void ledger_measure(ledger_pages *pages, const tape_entry *entry); /* norms of a round */
/* How many phases of a round are known. */
uint32_t ledger_phases(const ledger_pages *pages, uint64_t round);

/* Goes on from the bytes of a checkpoint, of a table of so many ranks, as a ledger that was begun: its policy holds,
 * and if the ranks are others, its members. */
bool ledger_resume(ledger *ledger, span bytes, uint32_t rank_count);

/* The members whose contributions this round needs, and whether it is known that it can be closed with those. */
bool ledger_needs(const ledger *ledger, crowd *out);
/* With these ticks, may a round that waits be closed, and with whom? `late`: the deadline has passed. */
bool ledger_enough(const ledger *ledger, const crowd *ticked, bool late, crowd *set);

/* The first of the members that are given up and not decided; CROWD_MAX: none. */
uint32_t ledger_undecided(const ledger *ledger);

/* ---- What a contribution carries. */

typedef struct ledger_terms {
    uint64_t round;
    bool waits, cuts;
    crowd members;
    bool normed; /* of the entry of a round: there are norms in it */
} ledger_terms;

/* What slots need to be told, because contributions do not say it: the set of this round, of the one before. */
bool ledger_decided(const ledger *ledger, ledger_terms *out);
bool ledger_decided_before(const ledger *ledger, ledger_terms *out);
ledger_terms ledger_terms_before(const ledger *ledger); /* of the round before, whether they need to be told or not */

enum { LEDGER_TERMS_MAX = 1 + CROWD_MAX / 8 };

ledger_terms ledger_terms_of(const ledger *ledger);
size_t ledger_write_terms(const ledger_terms *terms, uint32_t rank_count, uint8_t out[LEDGER_TERMS_MAX]);
bool ledger_read_terms(span bytes, uint32_t rank_count, ledger_terms *out); /* the round is the caller's to set */

/* ---- The entry of a round.
 *
 *   bytes  what
 *   1 n    flags, and the set: who is counted (terms, as above); zeros up to a multiple of 8
 *   …      the sum of their contributions, in the order of ranks
 *   … 4    if the flags say so: norms of the round, all phases, and how many bytes they are */

typedef struct ledger_round {
    ledger_terms terms; /* but for the round */
    span sum, norms;    /* borrowed */
} ledger_round;

size_t ledger_round_head(uint32_t rank_count);                                         /* bytes in front of the sum */
void ledger_write_round(const ledger_terms *terms, uint32_t rank_count, uint8_t *out); /* these */
bool ledger_read_round(span bytes, uint32_t rank_count, ledger_round *out);            /* false: it is no such entry */

/* What a rank is shown. False: these are not the bytes of a ledger of so many ranks. */
size_t ledger_size(uint32_t rank_count);
void ledger_write(const ledger *ledger, void *out);
bool ledger_read(span bytes, uint32_t rank_count, ledger *out);

void ledger_check(const ledger_pages *pages); /* asserts the invariants above */
