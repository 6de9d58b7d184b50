/* chaos_load.h — a mixed load for a runtime whose processes die: every result is right, or its error names a cause.
 *
 * Acts, drawn at random: tasks with and without retries, chains, several returns, nested tasks, cancellations (of
 * bodies that ask and of bodies that do not), failures on purpose, groups, joins, large values that stay for a while
 * (more than a small store has room for), references inside values, actors with restarts and call retries, handles
 * inside values, and an actor with a name that all threads of all programs call.
 *
 * Order is checked where calls run: an actor remembers the number of the last call of each caller.
 *
 * One load is one thread's. Workers have the bodies if their program is linked with this. */
#pragma once
#include <stdatomic.h>

#include "base/rng.h"
#include "miniray/runtime.h"

enum { CHAOS_KEPT = 6 };

typedef enum chaos_end {
    CHAOS_WRONG,     /* a result is wrong, or an error names no cause; said on stderr */
    CHAOS_DONE,      /* all acts were right */
    CHAOS_NODE_GONE, /* an error says that the node is gone, and the node may die here */
} chaos_end;

typedef struct chaos_load {
    mr_context *mr;    /* borrowed */
    uint64_t caller;   /* of the shared actor: nobody else has this number */
    bool node_may_die; /* then an error that names the node ends the load */
    bool node_gone;
    rng rng;
    struct chaos_kept {
        mr_ref ref;
        float start;
        size_t count; /* 0: nothing is kept here */
    } kept[CHAOS_KEPT];
    mr_actor shared; /* zero: not found yet */
    int64_t said;    /* to it */
    uint64_t right, lost, cancelled, acts;
} chaos_load;

void chaos_load_init(chaos_load *load, mr_context *mr, uint64_t seed);
/* One act after the other until *over. Releases everything at its end. */
chaos_end chaos_load_run(chaos_load *load, const _Atomic bool *over);
