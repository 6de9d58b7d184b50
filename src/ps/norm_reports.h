/* norm_reports.h — norm reports of slots (state_machine.h), collected at the head of the round state until all are
 * there.
 *
 *     slot 0 ── part ──┐
 *     slot 1 ── part ──┼──► norms ── all are there, for one set ──► combined in the order of slots: an entry
 *     slot 2 ── none ──┘                                            (round_state.h)
 *
 * One phase of one round at a time; a later phase replaces the former. A report names the set of ranks whose
 * contributions are in the slot's sum. A sum may still be dropped and made again of another set; so a report counts
 * only if its set is the one with which the round ends. A slot whose sum needs no norms does not report without a
 * request, unless it had a part in that phase of the last round. A slot that had none then, or none in the phase
 * before, is asked at once.
 *
 * Reports may be lost at any time: heads repeat them. A part is a function of the round, the set and the slot, so
 * reports of different heads of a slot are equal.
 *
 * Bounds      one part of each slot, of STATE_MACHINE_NORMS_MAX bytes at most.
 * Ownership   norm_reports owns copies of the parts. Pure. */
#pragma once
#include "ps/rank_set.h"
#include "ps/state_machine.h"

typedef struct norm_reports_report {
    bool there;
    bool asked;                           /* the slot was asked in this phase */
    bool speaks;                          /* the slot reports without being asked */
    bool spoke[STATE_MACHINE_PHASES_MAX]; /* the slot had a part when this phase was reported last */
    uint32_t order;                       /* order of arrival */
    rank_set set;
    shared_bytes *bytes; /* the part, owned; empty: the slot has no part */
} norm_reports_report;

typedef struct norm_reports { /* a zero-initialized struct has no reports */
    bool open;                /* a report has arrived */
    uint64_t round;
    uint32_t phase, slot_count, count;
    norm_reports_report *reports; /* by slot, owned */
} norm_reports;

void norm_reports_clear(norm_reports *reports); /* drops all reports */

/* Takes a report of a slot below `slot_count`, which never changes. A phase before the last one is ignored. True: the
 * report is the first of its phase. */
bool norm_reports_take(norm_reports *reports, uint32_t slot_count, uint64_t round, uint32_t phase, uint32_t slot,
                       const rank_set *set, span part);

/* True: the caller asks this slot, which counts as asked from now on. `all`: also slots that report without being
 * asked. */
bool norm_reports_ask(norm_reports *reports, uint32_t slot, bool all);

/* True: all slots have reported for this set (NULL: for any sets), and at least one has a part. */
bool norm_reports_are_whole(const norm_reports *reports, const rank_set *set);
span norm_reports_part(const norm_reports *reports, uint32_t slot);
