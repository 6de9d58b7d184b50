/* controller.h — controller of the parameter server: watches servers and workers, proposes cluster maps.
 *
 * The controller keeps no durable state: cluster maps are in the metadata store, tails report gates repeatedly,
 * heartbeats show which processes are alive. So the controller may die and restart at any time, and two of them do no
 * harm: each cluster map is decided once.
 *
 *   every CONTROLLER_TICK_US   known facts ── map_planner_next, rank_assignment_next
 *                                            ├────► a cluster map to decide: one compare-and-swap
 *                                            ├────► nothing to decide: orders to join, to tails
 *                                            └────► nothing to join either: the balance of load (load_tracker.h)
 *
 * A server or worker with a newer incarnation is another process: the one before is dead. A process with an older
 * incarnation receives REPLACED, and its messages are ignored; if it enrolled after the metadata store had lost its
 * disk, it acquires another incarnation (cluster/incarnation.h). A process that is silent for too long is suspected
 * (cluster/detector.h); after a wrong suspicion the process gets more time.
 *
 * A server whose link broke is taken out at once, as many as there are; a link that ends with a timeout is one more
 * sign of silence. A server that is only silent may be alive on an overloaded machine: silence.h says when it is given
 * up. Until then it is doubted, and keeps its places (map_planner.h).
 *
 * A controller that has restarted sends packets to the servers that it knows from the cluster map only: a link to a
 * dead one breaks.
 *
 * With a checkpoint store (checkpoint_store.h) every generation, the first one included, begins from the newest
 * complete checkpoint:
 *
 *   no cluster map, a loss, a metadata store
 *   that lost its disk, or controller_restore ── the checkpoint store is sealed (checkpointer.h) ──► the first cluster
 *                                                                                                  map of a generation
 *
 * Invariants (controller_check)
 *   1  Servers and workers are sorted by id, each once, and the detector watches each of them.
 *   2  Gates are known once there is a cluster map; a tail's report is of the epoch of its slot, or of an earlier one.
 *   3  The ring is of servers that are known, and their ids are sorted.
 *   4  The known cluster map is sound (cluster_map.h), and so are the orders for checkpoints (checkpointer.h).
 *
 * Pure: bytes, answers of the metadata store and ticks. */
#pragma once
#include "base/rng.h"
#include "cluster/metadata_store.h"
#include "ps/batcher.h"
#include "ps/checkpointer.h"
#include "ps/load_tracker.h"
#include "ps/map_planner.h"

#define CONTROLLER_TICK_US    INT64_C(100000)
#define CONTROLLER_SUSPECT_US INT64_C(600000)
#define CONTROLLER_POLL_US    INT64_C(1000000)

typedef struct controller_options {
    const char *address;     /* copied */
    const char *checkpoints; /* address of the checkpoint store, borrowed; NULL: no checkpoints */
    /* Outside BSP: longest pause of the ranks, in which all slots are cut at the same step of each rank
     * (checkpointer.h); 0: no pauses, and slots are cut at different steps. The checkpoint store needs the same
     * setting (`exact`). */
    int64_t pause_us;
    /* SILENCE_HOLD_US: time for which a server is spared that is only silent (silence.h). The simulator has less, too:
     * a server may be taken out of the chains too soon, which costs replicas, and nothing else goes wrong. */
    int64_t hold_us;
    bool restores; /* a loss begins a new generation from the last checkpoint; otherwise it is only reported */
    metadata_store store;
    rng *rng;
    /* Consistency in the first cluster map. */
    consistency consistency;
    bool mixed; /* the slots are 2n + 1 (cluster_map.h) */
    uint8_t copies;
    cluster_map_rounds rounds;
    uint32_t rank_count, slot_count, first_servers; /* first_servers: number of servers to wait for */
    uint32_t reader_count;
    /* A worker holds only the rank of its own number (rank_assignment_own). */
    bool own_ranks;
    /* The number of the cluster map with which the deployment was stopped on purpose: a restart from it is not
     * reported as a loss. 0: none. */
    uint64_t stopped;
    void (*send)(void *context, const char *address, span bytes);
    void (*on_propose)(void *context, const cluster_map *map); /* may be NULL */
    void (*on_decided)(void *context, const cluster_map *map); /* may be NULL */
    void (*on_checkpoint)(void *context, uint64_t checkpoint); /* a requested checkpoint is complete; may be NULL */
    void *context;
    /* Interval at which slots move to servers with less load, and hot slots get replicas for reading
     * (load_tracker.h). The interval should be long enough for a significant measurement. */
    load_tracker_terms balance;
} controller_options;

typedef struct controller controller;

controller *controller_create(const controller_options *options, int64_t now_us);
/* the caller ensures that no answer of the metadata store is pending */
void controller_destroy(controller *controller);

void controller_take(controller *controller, span bytes, int64_t now_us);
int64_t controller_next_us(const controller *controller);
void controller_tick(controller *controller, int64_t now_us);

/* Reports that the link to this address broke. The process there may be dead: no plan relies on that process until a
 * message of it arrives, and it is suspected sooner. `silent`: the link ended with a timeout, which proves nothing. */
void controller_broken(controller *controller, const char *address, bool silent, int64_t now_us);

/* borrowed for the controller's life */
void controller_pin(controller *controller, const slot_placement_pin *pins, size_t count);
/* Drains these servers: their slots move to others, and a server may end when the cluster map has it in no chain.
 * Sorted, borrowed for the controller's life. */
void controller_retire(controller *controller, const uint32_t *servers, size_t count);
const cluster_map *controller_map(const controller *controller);

/* Drops a rank of a BSP table in this term: the order is repeated to the round state until it answers (round_state.h).
 * A later term of the rank may join again. */
void controller_drop(controller *controller, uint32_t rank, uint64_t term);
/* Requests a checkpoint that is completed later than now; several simultaneous requests make one checkpoint. */
void controller_checkpoint(controller *controller);
bool controller_marks(const controller *controller); /* a requested checkpoint is not complete yet */
/* Number of saved slots of the checkpoint in the making (*making; 0: none), as the checkpoint store has reported it. */
uint64_t controller_saved(const controller *controller, uint64_t *making);
/* As checkpointer_bound; also true without a checkpoint store. */
bool controller_bound(const controller *controller, uint64_t *number);

/* Begins another generation from the last checkpoint, with the connected servers and the settings of the options. */
void controller_restore(controller *controller);

/* Whether every replica of the slot is known to be lost. A cluster map exists. */
bool controller_lost(controller *controller, uint32_t slot);

void controller_check(const controller *controller); /* asserts the invariants above (base/invariants.h) */
