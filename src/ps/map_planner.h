/* map_planner.h — next cluster map, as a function of the last one and of known facts.
 *
 * Legal changes of a chain, and no others: take members out, but never the last that lives; add one whose gate is ready
 * in this very epoch; change the order. A gate whose joiner is gone is ended by an epoch with the chain as it is. The
 * ring and the pins say where slots should lie (slot_placement.h); a slot moves there by joins, one at a time, and
 * nobody is in a chain before it has everything.
 *
 *   a chain, with what it lacks        what follows
 *   --------------------------------   ------------------------------------------------------
 *   somebody in it is not alive  a cluster map without it, while one lives
 *   a ready joiner               a cluster map with it, without whom the target does not name
 *   members in another order     a cluster map with the target's order: its first is the head
 *   somebody of the target is missing  an order to the tail: fill that one
 *
 * On somebody who is doubted nothing is built: it is not made full, and nobody leaves a chain that would be left with
 * such members only. It is heard again soon, or dead.
 *
 * What the balancer wishes is written into the cluster map, in an epoch of its own: it ends a join to where the slot
 * should no longer go, and whoever directs next goes on with it. A pin comes before it.
 *
 * A server that leaves is in no target: its slots move away by joins, like all others. Nothing waits for it to be gone.
 *
 * Pure. */
#pragma once
#include "ps/cluster_map.h"
#include "ps/slot_placement.h"

typedef struct map_planner_server { /* sorted by id */
    uint32_t id;
    uint64_t incarnation;
    const char *address;
    bool alive;
    bool leaves;  /* its slots are to lie elsewhere; it keeps what it has until they do */
    bool doubted; /* alive, for all one knows; but a link to it broke, and it was not heard since */
} map_planner_server;

typedef struct map_planner_gate { /* what the tail of a slot said last; epoch 0: nothing */
    uint64_t epoch, incarnation;
    uint32_t server;
    bool ready;
} map_planner_gate;

typedef struct map_planner_wish { /* of the balancer */
    uint32_t slot;
    uint32_t home; /* as in the cluster map */
    uint8_t more;
} map_planner_wish;

typedef struct map_planner_facts { /* all borrowed */
    const map_planner_server *servers;
    size_t server_count;
    const map_planner_gate *gates; /* by slot */
    const hash_ring *ring;         /* of those that are alive and stay */
    const slot_placement_pin *pins;
    size_t pin_count;
    const map_planner_wish *wishes; /* slots that should lie elsewhere from now on */
    size_t wish_count;
} map_planner_facts;

typedef struct map_planner_join { /* an order to the tail of a slot */
    uint32_t slot, tail, server;
    uint64_t epoch, incarnation;
} map_planner_join;

/* How many copies a slot should have. Those for reading leave room in the chain: for somebody who joins before another
 * leaves. */
static inline size_t map_planner_copies(uint8_t copies, uint8_t more) {
    size_t most = copies < CLUSTER_MAP_COPIES_MAX ? CLUSTER_MAP_COPIES_MAX - 1 : copies, all = (size_t)copies + more;
    return all < most ? all : most;
}

/* The first cluster map of a generation: copies on the target, empty and full. Servers that are alive: at least one. */
/* has the table's terms */
void map_planner_first(const map_planner_facts *facts, uint64_t number, uint64_t generation, cluster_map *out);

/* All copies of this slot are lost: each was another process of a server that has come back since. */
bool map_planner_is_lost(const cluster_map *map, const map_planner_facts *facts, uint32_t slot);

/* True: *out is to be decided next. False: nothing changes; *joins (room for each slot) are the orders to give. */
bool map_planner_next(const cluster_map *map, const map_planner_facts *facts, struct cluster_map *out,
                      map_planner_join *joins, size_t *join_count);
