/* load_tracker.h — load of slots as their heads report it, and the moves that the balancer wishes for.
 *
 * Heads count the requests for each slot and report them (SLOT_MESSAGE_LOAD); the load tracker smooths the counts,
 * interval by interval. When all slots are where they should be, and `decide_us` after the last time, the balancer
 * (balancer.h) looks for slots of an overloaded server that another server should lead. The result is a wish, which the
 * next cluster map records (map_planner.h); the slot then moves as all slots do, by a join, a gate and a cluster map.
 * At most one copy moves for each wish.
 *
 *   a slot that is pinned, or has moved lately    stays
 *   a slot that no server can carry alone,        gets LOAD_TRACKER_MORE copies for reading, until the slot is much
 *   and with more pulls than pushes               cooler, or has much fewer pulls: each copy makes pushes dearer
 *   too few requests to tell load from chance     nothing follows
 *   a server that is gone, or drains              is no slot's home: the ring says where its slots go
 *
 * The load tracker keeps no durable state: the next controller measures anew, and the wishes are in the cluster map.
 *
 * Pure. */
#pragma once
#include "ps/balancer.h"
#include "ps/map_planner.h"

enum {
    LOAD_TRACKER_WISHES_MAX = 16,
    LOAD_TRACKER_MORE = 1,
    LOAD_TRACKER_INTERVALS = 4, /* that are measured between two decisions */
    LOAD_TRACKER_RESTS = 4      /* decisions that leave a moved slot alone */
};

typedef struct load_tracker_terms {
    int64_t decide_us; /* least time between two decisions; 0: never */
    double least;      /* average requests for a server in an interval, below which nothing is decided */
    double reads;      /* a slot gets copies for reading if more than this part of its requests are pulls */
} load_tracker_terms;

typedef struct load_tracker_slot {
    double rate, pull_rate; /* smoothed: all requests, and pulls among them */
    uint64_t count, pulls;  /* in this interval */
    int64_t rest_us;        /* it does not move before */
} load_tracker_slot;

typedef struct load_tracker { /* zero-initialized, with its terms, it has no reports */
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
