/* load_tracker.h — load of slots as their heads report it, and the moves that the balancer wishes for.
 *
 * Heads count the requests for each slot and say so (SLOT_MESSAGE_LOAD); here that is smoothed, interval by interval.
 * When all slots are where they should be, and `decide_us` after the last time, the balancer looks (balancer.h): slots
 * of a server that carries too much should be led by another. That is a wish, which the next cluster map writes down
 * (map_planner.h); the slot then moves as all slots do, by a join, a gate and a cluster map. One copy moves for each
 * wish, at most.
 *
 *   a slot that is pinned, or has moved lately    stays
 *   a slot that no server can carry alone,  gets LOAD_TRACKER_MORE copies for reading, until it is much cooler, or much
 *   and that is pulled from more than pushed to   less of it is pulls: each copy more makes pushes dearer
 *   too few requests to tell load from chance     nothing follows
 *   a server that is gone, or leaves              is nobody's home: the ring says where its slots go
 *
 * It keeps nothing that matters: the next controller measures anew, and the wishes are in the cluster map.
 *
 * Pure. */
#pragma once
#include "ps/balancer.h"
#include "ps/map_planner.h"

enum {
    LOAD_TRACKER_WISHES_MAX = 16,
    LOAD_TRACKER_MORE = 1,
    LOAD_TRACKER_INTERVALS = 4, /* that are measured between two decisions */
    LOAD_TRACKER_RESTS = 4      /* a slot that has moved is left alone by so many */
};

typedef struct load_tracker_terms {
    int64_t decide_us; /* so often it may decide; 0: never */
    double least;      /* requests for a server in an interval, on average, without which it does not */
    double reads;      /* a slot gets copies for reading if more than this part of its requests are pulls */
} load_tracker_terms;

typedef struct load_tracker_slot {
    double rate, pull_rate; /* smoothed: all requests, and pulls among them */
    uint64_t count, pulls;  /* in this interval */
    int64_t rest_us;        /* it does not move before */
} load_tracker_slot;

typedef struct load_tracker { /* zero-initialized, with its terms, it has heard of nothing */
    load_tracker_terms terms;
    load_tracker_slot *slots; /* owned */
    uint32_t slot_count;
    int64_t next_interval_us, next_decide_us;
} load_tracker;

void load_tracker_fini(load_tracker *tracker);
/* a SLOT_MESSAGE_LOAD; none of an earlier epoch counts */
void load_tracker_take(load_tracker *tracker, const cluster_map *map, const slot_message *message);

void load_tracker_tick(load_tracker *tracker, int64_t now_us); /* intervals end */

/* How many wishes there are now, at most LOAD_TRACKER_WISHES_MAX. */
size_t load_tracker_wishes(load_tracker *tracker, const cluster_map *map, const map_planner_facts *facts,
                           int64_t now_us, map_planner_wish *wishes);
