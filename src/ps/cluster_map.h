/* cluster_map.h — cluster map of the parameter server: the chain of every slot, the process of every rank, the round
 * policy.
 *
 * Cluster maps are decided one after the other by compare-and-swap at the metadata store under CLUSTER_MAP_KEY; the
 * version is the cluster map's number. A slot has a chain: an ordered list of complete replicas. `since` is the number
 * of the cluster map that added the replica to the chain: a server whose replica has another `since` has no valid
 * replica. `epoch` is the number of the cluster map that last changed the chain (chain_epoch), so a cluster map that
 * moves one slot does not affect the others. A process with an older cluster map receives only the slots with newer
 * epochs and the servers that are new since: a cluster map that changes 1/n of the slots costs 1/n of its bytes, for
 * each receiver.
 *
 * A deployment may be mixed: the first half of its slots with values has rounds, for tables of BSP, the other half has
 * none, for tables of ASP and SSP. All ranks take part in both, with the same steps.
 *
 * A rank is held by a process (rank_assignment.h). `since` is the number of the cluster map that gave it the rank: its
 * **term**. Terms of a rank only grow, and each belongs to one process; every message of a rank carries the term, and
 * servers accept only the term of the newest cluster map that they know (slot_server.h).
 *
 * A **reader** is a process that pulls and holds no rank. `ranks` has a place for each, behind the ranks, with a term;
 * what is said of all ranks (rounds, vector clocks, quiesces) is not said of readers. Numbers of their processes begin
 * at CLUSTER_MAP_READER, so that no rank's process has one of them.
 *
 * Invariants (cluster_map_check)
 *   1  Counts are within their bounds; a table with rounds has at most RANK_SET_MAX ranks; a mixed deployment has an
 *      odd number of slots, at least 3.
 *   2  The epoch of a slot is the number of this cluster map or of an earlier one; a chain has each server once.
 *   3  Servers are sorted by id, each once; the `since` of servers and of ranks is the number of this cluster map or
 *      of an earlier one.
 *
 * Bytes that violate one of these are not a cluster map. Bytes of CLUSTER_MAP_LAYOUT_BEFORE are read: they have no
 * readers and no `reported`, and the process that held the first rank has reported. Nor have they `empty_since`: it is
 * unknown in a generation from a checkpoint.
 *
 * Numbers of cluster maps and incarnations are written as varints (base/varint.h), as distances from the cluster map's
 * own number (d) or folded ones (f): a complete cluster map of 1,000 servers, 2,048 slots and 4,000 ranks is smaller
 * than the largest value of the metadata store.
 *
 *   bytes    what
 *   -------  -------------------------------------------------------------------------------
 *   1        CLUSTER_MAP_LAYOUT
 *   8 8      number, generation
 *   8        birth: the number of the generation's first cluster map, in which all copies are full: empty, or
 *   8        origin: as the checkpoint of this number has them (checkpoint_store.h); 0: none
 *   1 1 8    lost: acknowledged pushes of the generation before are not in them; reported; first_term
 *   8        base: the rest has the changes after the cluster map of this number; 0: everything
 *   1 1 4 1  consistency of tables that name none, copies wanted, staleness; mixed
 *   4 4 4    of BSP: members of the first round, backup workers, deadline of a round (µs)
 *   4 4      ranks, slots (where there are rounds the last one is the round state)
 *   4 8      readers, empty_since
 *   4        runs of slots, in order; each: 4 4 the first, how many (a complete cluster map is one run); each slot:
 *     d v 1    epoch, 1 + home (0: none), more;
 *     1        members of its chain; each: v server, f incarnation, d since
 *   4        servers, sorted by id; each: v id, f incarnation, d since, 1 + n address
 *   4        ranks and readers that are assigned, in order; each: v places left out before it, v worker,
 *            f incarnation, d since */
#pragma once
#include "base/bytes.h"
#include "ps/consistency.h"
#include "ps/rank_set.h"
#include "ps/slot_message.h"

#define CLUSTER_MAP_KEY "chart"
enum {
    CLUSTER_MAP_LAYOUT = 8,
    CLUSTER_MAP_LAYOUT_BEFORE = 7,
    CLUSTER_MAP_COPIES_MAX = 4,
    CLUSTER_MAP_SLOTS_MAX = 4096,
    CLUSTER_MAP_RANKS_MAX = 8192, /* with readers; RANK_SET_MAX ranks if there are rounds */
    CLUSTER_MAP_READER = 1 << 16, /* number of the first reader's process */
    CLUSTER_MAP_SERVERS_MAX = 2048
};

typedef struct cluster_map_member {
    uint32_t server;
    uint64_t incarnation, since;
} cluster_map_member;

typedef struct cluster_map_slot {
    uint64_t epoch;
    /* 1 + the server that the balancer wants as head (load_tracker.h); 0: the hash ring decides */
    uint32_t home;
    uint8_t more; /* additional replicas for reading */
    uint8_t count;
    cluster_map_member chain[CLUSTER_MAP_COPIES_MAX];
} cluster_map_slot;

typedef struct cluster_map_server {
    uint32_t id;
    uint64_t incarnation, since; /* since: number of the cluster map that added this incarnation */
    char address[SLOT_MESSAGE_ADDRESS_MAX];
} cluster_map_server;

typedef struct cluster_map_rank { /* the process that holds a rank, or a reader */
    uint32_t worker;
    uint64_t incarnation, since; /* since 0: no process yet */
} cluster_map_rank;

/* A process as the controller knows it. Lists of processes are sorted by id. */
typedef struct cluster_map_process {
    uint32_t id;
    uint64_t incarnation;
    const char *address; /* "": unknown */
    bool alive;
    bool leaves;  /* the server drains: its slots move elsewhere, and it keeps each until the move is done */
    bool doubted; /* presumed alive, but a link to it broke and no message has arrived since */
} cluster_map_process;

typedef struct cluster_map_rounds { /* round policy of BSP */
    uint32_t first_count;           /* members of the first round are the ranks below this; 0: all */
    uint32_t backup;                /* number of ranks without which a round may close */
    uint32_t deadline_us;           /* time after which a round closes without late ranks; 0: no deadline */
} cluster_map_rounds;

typedef struct cluster_map { /* a zero-initialized map means "none yet" */
    uint64_t number, generation, birth, origin;
    /* number of the cluster map in which the tables began empty: `birth` without an origin, otherwise as in the
     * generation before; 0: unknown */
    uint64_t empty_since;
    bool lost;     /* the previous generation had assigned ranks and ended because all replicas of a slot were lost */
    bool reported; /* a process has reported `lost` to its program; each that connects before reports it, too */
    uint64_t first_term;     /* number of the cluster map that first assigned a rank in this generation; 0: none */
    consistency consistency; /* consistency of tables that name none */
    bool mixed;
    uint8_t copies;
    cluster_map_rounds rounds;
    uint32_t rank_count, reader_count, slot_count, server_count;
    cluster_map_slot *slots;     /* owned */
    cluster_map_server *servers; /* owned */
    cluster_map_rank *ranks;     /* by rank, then the readers, owned; NULL: none */
} cluster_map;

/* Number of ranks and readers. */
static inline uint32_t cluster_map_clients(const cluster_map *map) { return map->rank_count + map->reader_count; }

/* The place in `ranks` of the process with this number; CLUSTER_MAP_NO_CLIENT: neither a rank nor a reader has it. */
#define CLUSTER_MAP_NO_CLIENT UINT32_MAX
static inline uint32_t cluster_map_client(const cluster_map *map, uint32_t worker) {
    if (worker < map->rank_count) return worker;
    bool reads = worker >= CLUSTER_MAP_READER && worker - CLUSTER_MAP_READER < map->reader_count;
    return reads ? map->rank_count + (worker - CLUSTER_MAP_READER) : CLUSTER_MAP_NO_CLIENT;
}

void cluster_map_fini(cluster_map *map);
void cluster_map_copy(cluster_map *to, const cluster_map *from); /* `to` is initialized; its content is replaced */

/* NULL: the server is not in the map */
const cluster_map_server *cluster_map_find(const cluster_map *map, uint32_t server);

/* Adds the server or replaces its incarnation; `since` is the number of this cluster map, which is set. */
void cluster_map_put_server(cluster_map *map, uint32_t id, uint64_t incarnation, const char *address);

/* Assigns the rank, or a reader's place, to this process, with this cluster map's number as its term. */
void cluster_map_put_rank(cluster_map *map, uint32_t rank, uint32_t worker, uint64_t incarnation);

/* If there are rounds, the last slot is the round state; otherwise there is none: NO_ROUND_STATE. The other slots have
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

/* Number of slots that a table is spread over; they begin at `cluster_map_first`, and all have rounds or none has. */
static inline uint32_t cluster_map_table_slots(const cluster_map *map) {
    return cluster_map_value_slots(map) / (map->mixed ? 2 : 1);
}
static inline uint32_t cluster_map_first(const cluster_map *map, bool rounds) {
    return map->mixed && !rounds ? cluster_map_table_slots(map) : 0;
}
/* slots with rounds and values: the first ones */
static inline uint32_t cluster_map_round_slots(const cluster_map *map) {
    return cluster_map_has_rounds(map) ? cluster_map_table_slots(map) : 0;
}
static inline bool cluster_map_in_rounds(const cluster_map *map, uint32_t slot) {
    return slot < cluster_map_round_slots(map) || slot == cluster_map_round_state(map);
}
/* Consistency, in this slot, of tables that name none. */
static inline consistency cluster_map_consistency(const cluster_map *map, uint32_t slot) {
    if (cluster_map_in_rounds(map, slot)) return (consistency){CONSISTENCY_BSP, 0};
    return map->consistency.kind == CONSISTENCY_BSP ? (consistency){CONSISTENCY_ASP, 0} : map->consistency;
}

/* Index of the process with this incarnation in the slot's chain; -1: not in the chain. */
int cluster_map_place(const cluster_map_slot *slot, uint32_t server, uint64_t incarnation);

/* Encoding of the changes after the cluster map of number `base`; 0: the complete map. */
size_t cluster_map_size(const cluster_map *map, uint64_t base);
void cluster_map_encode(const cluster_map *map, uint64_t base, writer *writer);
uint8_t *cluster_map_write(const cluster_map *map, uint64_t base, size_t *size); /* free with free() */

/* Number and generation of an encoded cluster map. False: the bytes do not begin with the head of a cluster map. */
bool cluster_map_peek(span bytes, uint64_t *number, uint64_t *generation);

/* Replaces the cluster map by a newer one: a complete map of any generation, or the changes after this map or an
 * earlier one. MR_STALE: not newer, or changes are missing. MR_CORRUPT: malformed bytes. After an error the map is
 * unchanged. */
MR_MUST mr_status cluster_map_follow(cluster_map *map, span bytes);

void cluster_map_check(const cluster_map *map); /* asserts the invariants above (base/invariants.h) */
