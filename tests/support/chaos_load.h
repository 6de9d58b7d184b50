/* chaos_load.h — a mixed load for a runtime whose processes die: every result is right, or its error names a cause.
 *
 * Acts, drawn at random: tasks with and without retries, chains, several returns, nested tasks, cancellations (of
 * bodies that check for it and of bodies that do not), deliberate failures, batches, joins, large values that stay for
 * a while (more than fits a small store), references inside values, actors with restarts and call retries, handles
 * inside values, and a named actor that all threads of all drivers call. Actors check the order of calls: an actor
 * remembers the number of the last call of each caller.
 *
 * One load belongs to one thread. Workers have the bodies if their program is linked with this file. */
#pragma once
#include <stdatomic.h>

#include "base/rng.h"
#include "miniray/runtime.h"

enum { CHAOS_KEPT = 6 };

typedef enum chaos_end {
    CHAOS_WRONG,     /* a result is wrong, or an error names no cause; printed on stderr */
    CHAOS_DONE,      /* all acts were right */
    CHAOS_NODE_GONE, /* an error reports the death of the node, and node_may_die is set */
} chaos_end;

typedef struct chaos_load {
    mr_context *mr;    /* borrowed */
    uint64_t caller;   /* number of this caller at the shared actor; unique */
    bool node_may_die; /* an error that reports the death of the node ends the load */
    bool node_gone;
    rng rng;
    struct chaos_kept {
        mr_ref ref;
        float start;
        size_t count; /* 0: no value is kept at this index */
    } kept[CHAOS_KEPT];
    mr_actor shared; /* zero: not found yet */
    int64_t said;    /* number of calls to the shared actor */
    uint64_t right, lost, cancelled, acts;
} chaos_load;

void chaos_load_init(chaos_load *load, mr_context *mr, uint64_t seed);
/* Runs one act after the other until *over, then releases everything. */
chaos_end chaos_load_run(chaos_load *load, const _Atomic bool *over);
