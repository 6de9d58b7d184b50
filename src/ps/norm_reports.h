/* norm_reports.h — norm reports of slots (state_machine.h), collected at the head of the round state until all are
 * there.
 *
 *     slot 0 ── part ──┐
 *     slot 1 ── part ──┼──► norms ── all are there, for one set ──► combined in the order of slots: an entry
 *     (round_state.h) slot 2 ── none ──┘
 *
 * One phase of one round at a time; a later one takes the place of the former. A report names the set of ranks whose
 * contributions are in the slot's sum. A sum may yet be dropped, and made again of another set; so reports count if
 * they are for the set with which the round is over. A slot whose sum needs no norms reports nothing by itself, unless
 * it had a part of that phase the last time: it is asked at once if it had none then, or none of the phase before.
 *
 * What is here may be forgotten whenever that is convenient: it is reported again. A part is a function of the round,
 * the set and the slot, so it does not matter which head of a slot has reported it.
 *
 * Bounds  one part of each slot, of STATE_MACHINE_NORMS_MAX bytes at most.
 * Ownership   it owns copies of the parts. Pure. */
#pragma once
#include "ps/rank_set.h"
#include "ps/state_machine.h"

typedef struct norm_reports_report {
    bool there;
    bool asked;                           /* for this phase */
    bool speaks;                          /* it need not be asked */
    bool spoke[STATE_MACHINE_PHASES_MAX]; /* it had a part of this phase the last time */
    uint32_t order;                       /* in which it came */
    rank_set set;
    shared_bytes *bytes; /* owned; of no bytes: it has nothing to tell */
} norm_reports_report;

typedef struct norm_reports { /* zero-initialized there are none */
    bool open;                /* somebody has reported */
    uint64_t round;
    uint32_t phase, slot_count, count;
    norm_reports_report *reports; /* by slot, owned */
} norm_reports;

void norm_reports_clear(norm_reports *reports); /* nothing is left in it */

/* Of a slot below `slot_count`, which stays as it is. An earlier phase than the last one is not heard. True: it is the
 * first of its phase. */
bool norm_reports_take(norm_reports *reports, uint32_t slot_count, uint64_t round, uint32_t phase, uint32_t slot,
                       const rank_set *set, span part);

/* Should this slot be asked? `all`: whether it speaks by itself or not. It counts as asked then. */
bool norm_reports_ask(norm_reports *reports, uint32_t slot, bool all);

/* All slots have reported, for this set (NULL: for whatever sets), and there is something to combine. */
bool norm_reports_are_whole(const norm_reports *reports, const rank_set *set);
span norm_reports_part(const norm_reports *reports, uint32_t slot);
