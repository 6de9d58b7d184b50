/* round_state.h — state of BSP rounds: their ranks, norms and terms, kept in the last slot.
 *
 * The round state is replicated by a chain like any other slot, and is changed by committed entries only; so all
 * readers see the same state, and it survives the same failures as a slot. Its version k has the ranks of round k (the
 * members) and the other terms of the round. A rank pulls the round state with the weights, and every contribution to
 * round k carries its terms: no head needs a view of its own to know when a round is complete.
 *
 *   JOIN, LEAVE   of a rank, hold from the next round on
 *   DROP          removes a rank from the next round on, and this round should not wait for it. But a slot may have
 *                 counted it already. So the head of the round state asks the heads of all slots to freeze it:
 *
 *                        all have frozen it, none has closed ──► VOID: this round closes without it, everywhere
 *       DROP ── freeze ──┤
 *                        one has closed the round with it ─────► REDO: it counts after all, and must be repeated
 *
 *   MARK          the next round ends with a cut of every slot: a checkpoint (its name is the version that is cut)
 *   ROUND         the round is over, with this set: the members that were counted
 *   NORMS         norms of the round before, measured in all slots with that set (norm_reports.h); in phases, if the
 *                 result of one is needed to measure the next. Slots that need them close that round with exactly these
 *
 * Under a policy of backup workers or deadlines the set is not known before the round state decides it: a rank whose
 * contributions have been taken by all slots sends its end-of-step to the round state, and with enough of those, or at
 * the deadline, the round state closes first, with those ranks; the slots follow (`waits`). There a dropped rank needs
 * no freezing.
 *
 * Otherwise a slot closes with the members less those that are void, and the round state closes as any slot does.
 *
 *   bytes     answer to a rank; the state is the answer, that of the round before, and its norms if there are any
 *   --------  --------------------------------------------------------------------
 *   8 4 4     round, ranks of the table, backup
 *   1 1 1 1   waits; cut of this round, the next, the one before;
 *   1         the one before was decided here
 *   n × 6  rank sets: members, next, dropping, voided, redo, past set
 *
 *   bytes     norms
 *   --------  --------------------------------------------------------------------
 *   8 4       round, phases
 *   4 + n     the combined norms of each phase, one after the other
 *
 * Invariants (round_state_check)
 *   1  Sets have ranks of the table only.
 *   2  A rank that is being dropped is a member; a rank that is void or to be repeated is being dropped; no rank is
 *      both.
 *   3  The page before has the same ranks, or is empty; norms are of at most STATE_MACHINE_PHASES_MAX phases, and have
 *      bytes.
 *
 * Bytes that break 1 or 2 are not a round state.
 *
 * Pure; the same entries give the same bytes. */
#pragma once
#include "ps/rank_set.h"
#include "ps/replica_log.h"
#include "ps/state_machine.h"

typedef struct round_state {
    uint64_t round;
    uint32_t rank_count, backup;
    bool waits; /* slots wait until the round state decides the set */
    bool cuts, cuts_next, past_cuts;
    bool past_decided; /* the round before was closed with a set that contributions do not carry */
    rank_set members, next;
    rank_set dropping, voided, redo; /* members: being dropped; not waited for; to be repeated */
    rank_set past_set;               /* set of the round before */
} round_state;

typedef struct round_state_norms {
    uint64_t round;
    uint32_t phases;     /* 0: no norms */
    shared_bytes *bytes; /* norms of all phases; shared; NULL: none */
} round_state_norms;

typedef struct round_state_pages { /* values of the round state's slot; `now` must be first */
    round_state now;
    round_state before; /* state at the end of the round before; rank_count 0: none */
    round_state_norms norms;
} round_state_pages;

/* `self` is a round_state_pages; changed by entries (round_state_turn), not by `apply` */
extern const state_machine_ops round_state_ops;

void round_state_begin(round_state *state, uint32_t rank_count, uint32_t first, uint32_t backup, bool waits);
void round_state_apply(round_state *state, const replica_log_entry *entry);
/* ends a round, and keeps the state before */
void round_state_turn(round_state_pages *pages, const replica_log_entry *entry);
void round_state_measure(round_state_pages *pages, const replica_log_entry *entry); /* adds the norms of a phase */
/* Number of known phases of a round. */
uint32_t round_state_phases(const round_state_pages *pages, uint64_t round);

/* Continues from the bytes of a checkpoint, of a table of `rank_count` ranks. `state` was begun and keeps its policy;
 * if the number of ranks differs, it also keeps its members. */
bool round_state_resume(round_state *state, span bytes, uint32_t rank_count);

/* *out: the members whose contributions this round needs. True: the round can be closed with exactly those. */
bool round_state_needs(const round_state *state, rank_set *out);
/* True: a round that waits may be closed with the ranks *set, given the ranks that have ended the step. `late`: the
 * deadline has passed. */
bool round_state_enough(const round_state *state, const rank_set *ticked, bool late, rank_set *set);

/* The first member that is being dropped and not decided; RANK_SET_MAX: none. */
uint32_t round_state_undecided(const round_state *state);

/* ---- Terms that a contribution carries. */

typedef struct round_state_terms {
    uint64_t round;
    bool waits, cuts;
    rank_set members;
    bool normed; /* the entry of the round has norms */
} round_state_terms;

/* Sets that slots need from the round state because contributions lack them: of this round, and of the one before.
 * False: not needed. */
bool round_state_decided(const round_state *state, round_state_terms *out);
bool round_state_decided_before(const round_state *state, round_state_terms *out);
/* terms of the round before, needed or not */
round_state_terms round_state_terms_before(const round_state *state);

enum { ROUND_STATE_TERMS_MAX = 1 + RANK_SET_MAX / 8 };

round_state_terms round_state_terms_of(const round_state *state);
size_t round_state_write_terms(const round_state_terms *terms, uint32_t rank_count, uint8_t out[ROUND_STATE_TERMS_MAX]);
/* does not set out->round */
bool round_state_read_terms(span bytes, uint32_t rank_count, round_state_terms *out);

/* ---- The entry of a round.
 *
 *   bytes  what
 *   1 n    flags, and the set of counted ranks (terms, as above); zeros up to a multiple of 8
 *   …      the sum of their contributions, in the order of ranks
 *   … 4    if the flags say so: norms of the round, all phases, and how many bytes they are */

typedef struct round_state_round {
    round_state_terms terms; /* without `round` */
    span sum, norms;         /* borrowed */
} round_state_round;

/* size of the bytes before the sum */
size_t round_state_round_head(uint32_t rank_count);
/* writes the head of the entry */
void round_state_write_round(const round_state_terms *terms, uint32_t rank_count, uint8_t *out);
/* false: malformed */
bool round_state_read_round(span bytes, uint32_t rank_count, round_state_round *out);

/* Encoding of a round state, as in the answer to a rank. False: malformed, or of another number of ranks. */
size_t round_state_size(uint32_t rank_count);
void round_state_write(const round_state *state, void *out);
bool round_state_read(span bytes, uint32_t rank_count, round_state *out);

void round_state_check(const round_state_pages *pages); /* asserts the invariants above */
