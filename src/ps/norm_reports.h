/* norm_reports.h — norm reports of slots (state_machine.h), collected at the head of the round state until all are
 * there.
 *
 *     slot 0 ── part ──┐
 *     slot 1 ── part ──┼──► norms ── all are there, for one set ──► combined in the order of slots: an entry
 *     slot 2 ── none ──┘                                            (round_state.h)
 *
 * One phase of one round at a time; a later phase replaces the former. A report names the set of ranks whose
 * contributions are in the slot's sum. A sum may still be dropped and made again of another set; so a report counts
 * only if its set is the one with which the round ends. A slot whose sum needs no norms reports nothing by itself,
 * unless it had a part of that phase the last time: a slot that had none then, or none of the phase before, is asked at
 * once.
 *
 * Reports may be forgotten at any time: heads report again. A part is a function of the round, the set and the slot, so
 * reports of different heads of a slot are equal.
 *
 * Bounds      one part of each slot, of STATE_MACHINE_NORMS_MAX bytes at most.
 * Ownership   norm_reports owns copies of the parts. Pure. */
#pragma once
#include "ps/rank_set.h"
#include "ps/state_machine.h"

typedef struct norm_reports_report {
    bool there;
    bool asked;                           /* for this phase */
    bool speaks;                          /* it reports without being asked */
    bool spoke[STATE_MACHINE_PHASES_MAX]; /* it had a part of this phase the last time */
    uint32_t order;                       /* in which it came */
    rank_set set;
    shared_bytes *bytes; /* owned; of no bytes: it has no part */
} norm_reports_report;

typedef struct norm_reports { /* zero-initialized there are none */
    bool open;                /* there is a report */
    uint64_t round;
    uint32_t phase, slot_count, count;
    norm_reports_report *reports; /* by slot, owned */
} norm_reports;

void norm_reports_clear(norm_reports *reports); /* nothing is left in it */

/* A report of a slot below `slot_count`, which never changes. A phase before the last one is ignored. True: it is the
 * first report of its phase. */
bool norm_reports_take(norm_reports *reports, uint32_t slot_count, uint64_t round, uint32_t phase, uint32_t slot,
                       const rank_set *set, span part);

/* True: this slot should be asked, and counts as asked from now on. `all`: also slots that report by themselves. */
bool norm_reports_ask(norm_reports *reports, uint32_t slot, bool all);

/* All slots have reported, for this set (NULL: for any sets), and there is a part to combine. */
bool norm_reports_are_whole(const norm_reports *reports, const rank_set *set);
span norm_reports_part(const norm_reports *reports, uint32_t slot);
