/* misses.h — steps of a rank that ended without it: their batches go to other ranks.
 *
 * What a process knows of its steps it says in portions, since a claims_past (cluster/claims.h) has 64 of them: up to a
 * step before which nothing was missed, or to 64 behind the first that was. Beyond MISSES_MAX runs of such steps the
 * oldest are forgotten, and count as done. Pure. */
#pragma once
#include "cluster/claims.h"

enum { MISSES_MAX = 256 };

typedef struct misses_run {
    uint64_t from, to;
} misses_run;

typedef struct misses { /* zero-initialized nothing was missed */
    uint64_t since;     /* nothing is known of steps before this one */
    uint32_t count;
    misses_run runs[MISSES_MAX]; /* apart, in order */
} misses;

void misses_begin(misses *misses, uint64_t since);           /* anew */
void misses_rewind(misses *misses, uint64_t step);           /* those from this one on are played again */
void misses_add(misses *misses, uint64_t from, uint64_t to); /* steps from … to - 1; not before the last that it has */

/* The next portion of what is to be said of steps between these two. */
claims_past misses_past(const misses *misses, uint64_t said, uint64_t over);
/* Is there a missed step among those between these two? */
bool misses_any(const misses *misses, uint64_t said, uint64_t over);
