/* skipped_steps.h — steps of a rank that ended without it: their batches go to other ranks.
 *
 * A process reports its steps in portions, since a batch_claims_past (cluster/batch_claims.h) has 64 of them: up to a
 * step before which none was missed, or to 64 behind the first missed one. Beyond SKIPPED_STEPS_MAX runs of such steps
 * the oldest runs are dropped, and their steps count as done. Pure. */
#pragma once
#include "cluster/batch_claims.h"

enum { SKIPPED_STEPS_MAX = 256 };

typedef struct skipped_steps_run {
    uint64_t from, to;
} skipped_steps_run;

typedef struct skipped_steps { /* zero-initialized: no step missed */
    uint64_t since;            /* the state of steps before this one is unknown */
    uint32_t count;
    skipped_steps_run runs[SKIPPED_STEPS_MAX]; /* disjoint, in ascending order */
} skipped_steps;

/* Steps from this one on are replayed. */
void skipped_steps_rewind(skipped_steps *skipped, uint64_t step);
/* Records the steps from … to - 1, which are not before the last recorded one. */
void skipped_steps_add(skipped_steps *skipped, uint64_t from, uint64_t to);

/* Next portion to be reported of the steps said … over - 1. */
batch_claims_past skipped_steps_past(const skipped_steps *skipped, uint64_t said, uint64_t over);
/* Whether a step between `said` and `over` was missed. */
bool skipped_steps_any(const skipped_steps *skipped, uint64_t said, uint64_t over);
