/* rank_assignment.h — assignment of ranks to processes, as a function of the current assignment and of the connected
 * processes.
 *
 * A rank is a role; a worker is a process that can hold several. Every rank has a worker as long as one is connected:
 *
 *   its worker is gone, or was never there   the worker of the same number, if connected and without a rank; else the
 *                                            one with the fewest ranks
 *   one has two more than another            the other one gets one of them: its own number first, else the last
 *   all are gone                             nothing changes: a silent worker may return
 *
 * So a worker that restarts gets its rank back, fewer workers than ranks hold several each, and surplus workers wait
 * until another leaves. A rank that changes its worker resumes after its last acknowledged push (rank.h): nothing is
 * lost with the process, and the term in the cluster map fences the former worker (cluster_map.h).
 *
 * A reader's place is held by the process of its number, in either way (cluster_map.h); a reader holds no rank.
 *
 * Pure: the same facts give the same assignment. */
#pragma once
#include "ps/cluster_map.h"

/* Both functions treat a worker that is dead or doubted as not connected. */

/* Changes the workers of ranks in the cluster map, which has the number of the proposal. False: no change. */
bool rank_assignment_next(cluster_map *map, const cluster_map_process *workers, size_t count);

/* The same for programs whose workers compute one rank each: a rank is held only by the worker of its number; a
 * missing worker is waited for. */
bool rank_assignment_own(cluster_map *map, const cluster_map_process *workers, size_t count);
