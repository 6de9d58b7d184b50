/* rank_assignment.h — assignment of ranks to processes, as a function of the current assignment and of the connected
 * processes.
 *
 * A rank is a role; a worker is a process that can play some. Every rank has a player as long as a worker is here:
 *
 *   its player is gone, or was never there   the worker of the same number, if that is here and plays nothing;
 *                                            else the one that plays the fewest
 *   one plays two more than another          that other one gets one of them: its own number first, else the last
 *   all are gone                             nothing changes: who is silent may be heard again
 *
 * So a worker that starts again gets its rank back, fewer workers than ranks play several each, and more wait for
 * somebody to go. A rank that changes hands is played on from its last acknowledged point (rank.h): nothing is lost
 * with the process, and the cluster map's term keeps the two apart (cluster_map.h).
 *
 * Pure: the same facts give the same cast. */
#pragma once
#include "ps/cluster_map.h"

typedef struct rank_assignment_worker { /* sorted by id */
    uint32_t id;
    uint64_t incarnation;
    bool alive;
} rank_assignment_worker;

/* Changes the players of the cluster map, whose number is that of the one to decide. False: there was nothing to
 * change. */
bool rank_assignment_next(cluster_map *map, const rank_assignment_worker *workers, size_t count);

/* The same where the program of a worker computes one rank: each is played by the worker of its number, and by no
 * other; one that is gone is waited for. */
bool rank_assignment_own(cluster_map *map, const rank_assignment_worker *workers, size_t count);
