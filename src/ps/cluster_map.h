/* cluster_map.h — cluster map of the parameter server: the chain of every slot, the process of every rank, the round
 * policy.
 *
 * Cluster maps are decided one after the other by compare-and-swap at the metadata store under CLUSTER_MAP_KEY; the
 * version is the cluster map's number. A slot has a chain, written out: an ordered list of full copies. `since` is the
 * number of the cluster map that made the copy full: a server whose copy has another `since` has no copy. `epoch` is
 * the number of the cluster map that last changed the chain, so a cluster map that moves one slot disturbs no other;
 * and whoever has an older cluster map is told the slots with newer epochs and the servers that are new since, not
 * everything: a cluster map that changes a share of 1/n costs that share of its bytes, for each of those who are told.
 *
 * A deployment may be mixed: the first half of its slots with values has rounds, for tables of BSP, the other half has
 * none, for tables of ASP and SSP. All ranks take part in both, with one count of steps.
 *
 * A rank has a player, the process that acts for it (rank_assignment.h). `since` is the number of the cluster map that
 * gave it the rank: its **term**. Terms of a rank only grow, and each belongs to one process; whatever is said in a
 * rank's name carries the term, and servers listen to the term of the newest cluster map that they know and to no other
 * (slot_server.h).
 *
 * Invariants (cluster_map_check)
 *  1  Counts are within their bounds; a table with rounds has at most RANK_SET_MAX ranks; a mixed deployment has an odd
 *      number of slots, at least 3.
 *  2  The epoch of a slot is the number of this cluster map or of an earlier one; a chain has each server once.
 *  3  Servers are sorted by id, each once, and came with this cluster map or an earlier one; so did players.
 *
 * Bytes that break one of these are not a cluster map.
 *
 * Numbers of cluster maps and incarnations are written as varints (base/varint.h), as distances from the cluster map's
 * own number (d) or folded ones (f): a whole cluster map of 1,000 servers, 2,048 slots and 4,000 ranks is less than the
 * metadata store takes.
 *
 *   bytes    what
 *   -------  -------------------------------------------------------------------------------
 *   1  CLUSTER_MAP_LAYOUT
 *   8 8      number, generation
 *   8  birth: the number of the generation's first cluster map, in which all copies are full: empty, or
 *   8        origin: as the checkpoint of this number has them (checkpoint_store.h); 0: none
 *   1 8      lost: acknowledged pushes of the generation before are not in them; first_term
 *   8  base: what follows is what changed after the cluster map of this number; 0: it is everything
 *   1 1 4 1  consistency of tables that name none, copies wanted, staleness; mixed
 *   4 4 4    of BSP: members of the first round, backup workers, deadline of a round (µs)
 *   4 4  ranks, slots (where there are rounds the last one is the round state)
 *   4  runs of slots, in order; each: 4 4 the first, how many (a whole cluster map is one run); each slot:
 *     d v 1    epoch, 1 + home (0: none), more;
 *     1        members of its chain; each: v server, f incarnation, d since
 *   4        servers, sorted by id; each: v id, f incarnation, d since, 1 + n address
 *   4        ranks that have a player, in order; each: v ranks left out before it, v worker, f incarnation, d since */
#pragma once
#include "base/bytes.h"
#include "ps/consistency.h"
#include "ps/rank_set.h"
#include "ps/slot_message.h"

#define CLUSTER_MAP_KEY "chart"
enum {
    CLUSTER_MAP_LAYOUT = 7,
    CLUSTER_MAP_COPIES_MAX = 4,
    CLUSTER_MAP_SLOTS_MAX = 4096,
    CLUSTER_MAP_RANKS_MAX = 8192, /* where there are rounds: RANK_SET_MAX */
    CLUSTER_MAP_SERVERS_MAX = 2048
};

typedef struct cluster_map_member {
    uint32_t server;
    uint64_t incarnation, since;
} cluster_map_member;

typedef struct cluster_map_slot {
    uint64_t epoch;
    /* 1 + the server that should lead it, as the balancer has decided (load_tracker.h); 0: as the ring says */
    uint32_t home;
    uint8_t more; /* copies besides those of the table, for reading */
    uint8_t count;
    cluster_map_member chain[CLUSTER_MAP_COPIES_MAX];
} cluster_map_slot;

typedef struct cluster_map_server {
    uint32_t id;
    uint64_t incarnation, since; /* the number of the cluster map that put it there, as it is */
    char address[SLOT_MESSAGE_ADDRESS_MAX];
} cluster_map_server;

typedef struct cluster_map_rank { /* of a rank */
    uint32_t worker;
    uint64_t incarnation, since; /* since 0: nobody has played it yet */
} cluster_map_rank;

typedef struct cluster_map_rounds { /* of BSP */
    uint32_t first_count;           /* members of the first round: the ranks below; 0: all */
    uint32_t backup;                /* a round closes without so many */
    uint32_t deadline_us;           /* and without those that are late; 0: no deadline */
} cluster_map_rounds;

typedef struct cluster_map { /* zero-initialized it is "none yet" */
    uint64_t number, generation, birth, origin;
    bool lost; /* the generation before had players and ended because all copies of a slot were lost */
    /* the cluster map in which this generation's first player appears, who learns of `lost`; 0: none */
    uint64_t first_term;
    consistency consistency; /* of tables that name none */
    bool mixed;
    uint8_t copies;
    cluster_map_rounds rounds;
    uint32_t rank_count, slot_count, server_count;
    cluster_map_slot *slots;     /* owned */
    cluster_map_server *servers; /* owned */
    cluster_map_rank *ranks;     /* by rank, owned; NULL: there are no ranks */
} cluster_map;

void cluster_map_fini(cluster_map *map);
void cluster_map_copy(cluster_map *to, const cluster_map *from); /* `to` is initialized; its content is replaced */

const cluster_map_server *cluster_map_find(const cluster_map *map, uint32_t server); /* NULL: not in it */

/* Adds or replaces, in this cluster map: its number is set. */
void cluster_map_put_server(cluster_map *map, uint32_t id, uint64_t incarnation, const char *address);

/* This process plays the rank from this cluster map on. */
void cluster_map_put_rank(cluster_map *map, uint32_t rank, uint32_t worker, uint64_t incarnation);

/* Where there are rounds the last slot is their round state, else there is none: NO_ROUND_STATE. The others have
 * values. */
#define NO_ROUND_STATE UINT32_MAX
static inline bool cluster_map_has_rounds(const cluster_map *map) {
    return map->mixed || map->consistency.kind == CONSISTENCY_BSP;
}
static inline uint32_t cluster_map_round_state(const cluster_map *map) {
    return cluster_map_has_rounds(map) && map->slot_count != 0 ? map->slot_count - 1 : NO_ROUND_STATE;
}
static inline uint32_t cluster_map_value_slots(const cluster_map *map) {
    return cluster_map_round_state(map) == NO_ROUND_STATE ? map->slot_count : map->slot_count - 1;
}

/* So many slots a table is spread over: those from `cluster_map_first` on, that have rounds or that have none. */
static inline uint32_t cluster_map_table_slots(const cluster_map *map) {
    return cluster_map_value_slots(map) / (map->mixed ? 2 : 1);
}
static inline uint32_t cluster_map_first(const cluster_map *map, bool rounds) {
    return map->mixed && !rounds ? cluster_map_table_slots(map) : 0;
}
static inline uint32_t cluster_map_round_slots(const cluster_map *map) { /* with values: the first ones */
    return cluster_map_has_rounds(map) ? cluster_map_table_slots(map) : 0;
}
static inline bool cluster_map_in_rounds(const cluster_map *map, uint32_t slot) {
    return slot < cluster_map_round_slots(map) || slot == cluster_map_round_state(map);
}
/* What holds in a slot for those who say nothing else. */
static inline consistency cluster_map_consistency(const cluster_map *map, uint32_t slot) {
    if (cluster_map_in_rounds(map, slot)) return (consistency){CONSISTENCY_BSP, 0};
    return map->consistency.kind == CONSISTENCY_BSP ? (consistency){CONSISTENCY_ASP, 0} : map->consistency;
}

/* The place of this very process in the slot's chain; -1: it has none. */
int cluster_map_place(const cluster_map_slot *slot, uint32_t server, uint64_t incarnation);

/* What changed after the cluster map of number `base`; 0: everything. */
size_t cluster_map_size(const cluster_map *map, uint64_t base);
void cluster_map_encode(const cluster_map *map, uint64_t base, writer *writer);

/* Which cluster map these bytes tell. False: none, as far as that shows. */
bool cluster_map_peek(span bytes, uint64_t *number, uint64_t *generation);

/* The cluster map becomes a newer one: a whole one, of its generation or of another, or what changed after it or after
 * one before it. MR_STALE: that is no newer one, or tells too little. MR_CORRUPT. It is then unchanged. */
MR_MUST mr_status cluster_map_follow(cluster_map *map, span bytes);

void cluster_map_check(const cluster_map *map); /* asserts the invariants above (base/invariants.h) */
