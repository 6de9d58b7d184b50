/* load_tracker.h — load of slots as their heads report it, and the moves that the balancer wishes for.
 *
 * Heads count the requests for each slot and report them (SLOT_MESSAGE_LOAD); the load tracker smooths the counts,
 * interval by interval. When all slots are where they should be, and `decide_us` after the last time, the balancer
 * (balancer.h) looks for slots of an overloaded server that another server should lead. The result is a wish, which
 * the next cluster map records (map_planner.h); the slot then moves as all slots do, by a join, a gate and a cluster
 * map. At most one replica moves for each wish.
 *
 *   a slot that is pinned, or has moved lately    stays
 *   a slot that no server can carry alone,        gets LOAD_TRACKER_MORE replicas for reading, until the slot is much
 *   and with more pulls than pushes               cooler, or has much fewer pulls: each replica makes pushes dearer
 *   too few requests to be significant            nothing changes
 *   a server that is gone, or drains              is no slot's home: the ring assigns its slots
 *
 * The load tracker keeps no durable state: the next controller measures again, and the wishes are in the cluster map.
 *
 * Pure. */
#pragma once
#include "ps/balancer.h"
#include "ps/map_planner.h"

enum {
    LOAD_TRACKER_WISHES_MAX = 16,
    LOAD_TRACKER_MORE = 1,
    LOAD_TRACKER_INTERVALS = 4, /* measured intervals between two decisions */
    LOAD_TRACKER_RESTS = 4      /* decision intervals for which a moved slot does not move again */
};

typedef struct load_tracker_terms {
    int64_t decide_us; /* least time between two decisions; 0: never */
    double least;      /* least average number of requests per server and interval for a decision */
    double reads;      /* a slot gets replicas for reading if pulls are more than this fraction of its requests */
} load_tracker_terms;

typedef struct load_tracker_slot {
    double rate, pull_rate; /* smoothed counts: all requests, and the pulls among them */
    uint64_t count, pulls;  /* counts in the current interval */
    int64_t rest_us;        /* the slot does not move before this time */
} load_tracker_slot;

typedef struct load_tracker { /* has no reports when zero-initialized apart from its terms */
    load_tracker_terms terms;
    load_tracker_slot *slots; /* owned */
    uint32_t slot_count;
    int64_t next_interval_us, next_decide_us;
} load_tracker;

void load_tracker_fini(load_tracker *tracker);
/* takes a SLOT_MESSAGE_LOAD; a report of an earlier epoch is ignored */
void load_tracker_take(load_tracker *tracker, const cluster_map *map, const slot_message *message);

void load_tracker_tick(load_tracker *tracker, int64_t now_us); /* ends intervals that are due */

/* Writes the wishes that are due; returns their number, at most LOAD_TRACKER_WISHES_MAX. */
size_t load_tracker_wishes(load_tracker *tracker, const cluster_map *map, const map_planner_facts *facts,
                           int64_t now_us, map_planner_wish *wishes);
