/* map_planner.h — next cluster map, as a function of the last one and of known facts.
 *
 * Legal changes of a chain, and no others: remove members, but never the last live one; add one whose gate is ready in
 * exactly this epoch; change the order. A gate whose joiner is gone is ended by an epoch with an unchanged chain. The
 * ring and the pins define the target of each slot (slot_placement.h); a slot moves there by joins, one at a time, and
 * a server enters a chain only when it has the complete state.
 *
 *   state of a chain                   next action
 *   --------------------------------   ------------------------------------------------------
 *   a member is not alive              a cluster map without it, while one lives
 *   a ready joiner                     a cluster map with it, without the members that the target does not name
 *   members in another order           a cluster map with the target's order: its first is the head
 *   a server of the target is missing  an order to the tail: fill that server
 *
 * No plan relies on a doubted server: it does not become a full member, and no member leaves a chain that would have
 * doubted members only. A doubted server soon sends a message, or is dead.
 *
 * A wish of the balancer is written into the cluster map, in an epoch of its own: that epoch ends a join to the former
 * target of the slot, and the next controller continues with the wish. A pin takes precedence.
 *
 * A draining server is in no target: its slots move away by joins, like all others. Nothing waits for a draining
 * server to end.
 *
 * Pure. */
#pragma once
#include "ps/cluster_map.h"
#include "ps/slot_placement.h"

typedef struct map_planner_gate { /* last report of a slot's tail; epoch 0: none */
    uint64_t epoch, incarnation;
    uint32_t server;
    bool ready;
} map_planner_gate;

typedef struct map_planner_wish { /* a wish of the balancer for a slot */
    uint32_t slot;
    uint32_t home; /* home, more: as in the cluster map */
    uint8_t more;
} map_planner_wish;

typedef struct map_planner_facts { /* everything is borrowed */
    const cluster_map_process *servers;
    size_t server_count;
    const uint64_t *staying; /* ids of the servers that are alive and not draining, sorted */
    size_t staying_count;
    const map_planner_gate *gates; /* by slot */
    const hash_ring *ring;         /* ring of the servers in `staying` */
    const slot_placement_pin *pins;
    size_t pin_count;
    const map_planner_wish *wishes; /* slots that should lie on other servers from now on */
    size_t wish_count;
} map_planner_facts;

typedef struct map_planner_join { /* an order to the tail of a slot */
    uint32_t slot, tail, server;
    uint64_t epoch, incarnation;
} map_planner_join;

/* The number of replicas that a slot should have. Replicas for reading leave one place in the chain free for a server
 * that joins before another leaves. */
static inline size_t map_planner_copies(uint8_t copies, uint8_t more) {
    size_t most = copies < CLUSTER_MAP_COPIES_MAX ? CLUSTER_MAP_COPIES_MAX - 1 : copies, all = (size_t)copies + more;
    return all < most ? all : most;
}

/* Makes the first cluster map of a generation: chains on the target, with empty, complete replicas. At least one
 * server must be alive. */
/* *out has the consistency, rank count and slot count */
void map_planner_first(const map_planner_facts *facts, uint64_t number, uint64_t generation, cluster_map *out);

/* All replicas of this slot are lost: each was held by an earlier incarnation of a server that has restarted. */
bool map_planner_is_lost(const cluster_map *map, const map_planner_facts *facts, uint32_t slot);

/* True: *out is the cluster map to propose. False: no change; *joins, with room for every slot, has the orders to
 * send. */
bool map_planner_next(const cluster_map *map, const map_planner_facts *facts, struct cluster_map *out,
                      map_planner_join *joins, size_t *join_count);
