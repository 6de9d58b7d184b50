/* skipped_steps.h — steps of a rank that ended without it: their batches go to other ranks.
 *
 * What a process knows of its steps it says in portions, since a batch_claims_past (cluster/batch_claims.h) has 64 of
 * them: up to a step before which nothing was missed, or to 64 behind the first that was. Beyond SKIPPED_STEPS_MAX runs
 * of such steps the oldest are forgotten, and count as done. Pure. */
#pragma once
#include "cluster/batch_claims.h"

enum { SKIPPED_STEPS_MAX = 256 };

typedef struct skipped_steps_run {
    uint64_t from, to;
} skipped_steps_run;

typedef struct skipped_steps { /* zero-initialized nothing was missed */
    uint64_t since;            /* nothing is known of steps before this one */
    uint32_t count;
    skipped_steps_run runs[SKIPPED_STEPS_MAX]; /* apart, in order */
} skipped_steps;

void skipped_steps_begin(skipped_steps *skipped, uint64_t since); /* anew */
/* those from this one on are played again */
void skipped_steps_rewind(skipped_steps *skipped, uint64_t step);
/* steps from … to - 1; not before the last that it has */
void skipped_steps_add(skipped_steps *skipped, uint64_t from, uint64_t to);

/* The next portion of what is to be said of steps between these two. */
batch_claims_past skipped_steps_past(const skipped_steps *skipped, uint64_t said, uint64_t over);
/* Is there a missed step among those between these two? */
bool skipped_steps_any(const skipped_steps *skipped, uint64_t said, uint64_t over);
