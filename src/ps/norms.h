/* norms.h — norm reports of slots (values.h), collected at the head of the round state until all are there.
 *
 *     slot 0 ── part ──┐
 *     slot 1 ── part ──┼──► norms ── all are there, for one set ──► combined in the order of slots: an entry (ledger.h)
 *     slot 2 ── none ──┘
 *
 * One phase of one round at a time; a later one takes the place of the former. A report names the set of ranks whose
 * contributions are in the slot's sum. A sum may yet be dropped, and made again of another set; so reports count if
 * they are for the set with which the round is over. A slot whose sum needs no norms reports nothing by itself, unless
 * it had a part of that phase the last time: it is asked at once if it had none then, or none of the phase before.
 *
 * What is here may be forgotten whenever that is convenient: it is reported again. A part is a function of the round,
 * the set and the slot, so it does not matter which head of a slot has reported it.
 *
 * Bounds      one part of each slot, of VALUES_NORMS_MAX bytes at most.
 * Ownership   it owns copies of the parts. Pure. */
#pragma once
#include "ps/crowd.h"
#include "ps/values.h"

typedef struct norms_report {
    bool there;
    bool asked;                    /* for this phase */
    bool speaks;                   /* it need not be asked */
    bool spoke[VALUES_PHASES_MAX]; /* it had a part of this phase the last time */
    uint32_t order;                /* in which it came */
    crowd set;
    bale *bale; /* owned; of no bytes: it has nothing to tell */
} norms_report;

typedef struct norms { /* zero-initialized there are none */
    bool open;         /* somebody has reported */
    uint64_t round;
    uint32_t phase, slot_count, count;
    norms_report *reports; /* by slot, owned */
} norms;

void norms_clear(norms *norms); /* nothing is left in it */

/* Of a slot below `slot_count`, which stays as it is. An earlier phase than the last one is not heard. True: it is the
 * first of its phase. */
bool norms_take(norms *norms, uint32_t slot_count, uint64_t round, uint32_t phase, uint32_t slot, const crowd *set,
                span part);

/* Should this slot be asked? `all`: whether it speaks by itself or not. It counts as asked then. */
bool norms_ask(norms *norms, uint32_t slot, bool all);

/* All slots have reported, for this set (NULL: for whatever sets), and there is something to combine. */
bool norms_are_whole(const norms *norms, const crowd *set);
span norms_part(const norms *norms, uint32_t slot);
