/* rank_assignment.h — assignment of ranks to processes, as a function of the current assignment and of the connected
 * processes.
 *
 * A rank is a role; a worker is a process that can hold several. Every rank has a worker as long as one is connected:
 *
 *   its worker is gone, or was never there   the worker of the same number, if connected and without a rank; else the
 *                                            one with the fewest ranks
 *   one has two more than another            the other one gets one of them: its own number first, else the last
 *   all are gone                             nothing changes: a silent worker may be heard again
 *
 * So a worker that starts again gets its rank back, fewer workers than ranks hold several each, and surplus workers
 * wait for another to go. A rank that changes its worker resumes from its last acknowledged point (rank.h): nothing is
 * lost with the process, and the cluster map's term keeps the two apart (cluster_map.h).
 *
 * Pure: the same facts give the same assignment. */
#pragma once
#include "ps/cluster_map.h"

/* A worker that is not alive, or doubted, is not connected. */

/* Changes the workers of ranks in the cluster map, whose number is that of the one to decide. False: nothing changed.
 */
bool rank_assignment_next(cluster_map *map, const cluster_map_process *workers, size_t count);

/* The same where the program of a worker computes one rank: each rank is held by the worker of its number only; a
 * missing worker is waited for. */
bool rank_assignment_own(cluster_map *map, const cluster_map_process *workers, size_t count);
