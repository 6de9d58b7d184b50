/* balancer.h — choice of the slots to move or replicate so that no server is overloaded.
 *
 * Load is measured per slot in a unit that all servers share (requests, bytes, microseconds in an interval), smoothed
 * here so that no single interval decides, and carried by the head of the slot's chain. A server's fair load is the
 * total load in proportion to its weight. The balancer takes the server that is furthest above its fair load, relative
 * to that load, and moves the slot that brings this server and the least loaded one closest together. Each move
 * improves the pair, so the sequence of moves ends by itself.
 *
 *   moves only if   the fullest server exceeds its fair load by more than BALANCER_TOLERANCE, and the move lowers the
 *                   larger of the two loads by at least BALANCER_GAIN of a fair load
 *   hot slots       a slot that alone exceeds the tolerance of a fair load gains nothing from a move: the balancer
 *                   reports it, for read replicas
 *   bounds          `most` moves a call, each slot once; a slot that is pinned or has moved lately is not movable
 *
 * Pure: the same numbers give the same moves, in the same order. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BALANCER_TOLERANCE 0.2
#define BALANCER_GAIN      0.01
#define BALANCER_SMOOTHING 0.3 /* weight of the new interval in the average */

typedef struct balancer_slot {
    uint32_t slot;
    uint32_t server; /* index of the head's server in the array of servers */
    double load;     /* not negative */
    bool movable;
} balancer_slot;

typedef struct balancer_server {
    uint64_t id;
    double weight; /* above 0 */
} balancer_server;

typedef struct balancer_move {
    uint32_t slot, from, to; /* indexes of servers */
} balancer_move;

/* The new smoothed load of a slot, from the smoothed load before and the load measured in this interval. */
static inline double balancer_smooth(double before, double measured) {
    return before + BALANCER_SMOOTHING * (measured - before);
}

/* Chooses the moves, and updates `server` of the slots that move. Returns the number of moves. */
size_t balancer_decide(balancer_slot *slots, size_t slot_count, const balancer_server *servers, size_t server_count,
                       balancer_move *moves, size_t most);

/* The slots that are too hot for any server, hottest first. Returns their number. */
size_t balancer_hot(const balancer_slot *slots, size_t slot_count, const balancer_server *servers, size_t server_count,
                    uint32_t *hot, size_t most);
