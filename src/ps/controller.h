/* controller.h — controller of the parameter server: watches servers and workers, proposes cluster maps.
 *
 * It keeps nothing that matters: cluster maps lie with the metadata store, gates are told again and again by the tails,
 * lives by heartbeats. So it may die and start at any time, and two of them do no harm: each cluster map is decided
 * once.
 *
 *   every CONTROLLER_TICK_US  what is known ── map_planner_next,
 *                             rank_assignment_next ──► a cluster map to decide: one compare-and-swap
 *                                                    ├────► nothing to decide: orders to join, to tails
 *                                                    └──► nothing to join either: does load lie well? (load_tracker.h)
 *
 * A server or worker that is heard with a newer incarnation is another process: the one before is dead. One with an
 * older incarnation is told so, and not heard; it may be a process that began just when the metadata store had lost its
 * disk, and then takes another (cluster/incarnation.h). One that is
 * silent for too long is suspected, which is an opinion (cluster/detector.h); where that was wrong, it is given more
 * time.
 *
 * With a checkpoint store (checkpoint_store.h) there are checkpoints. A generation begins from the newest that is
 * whole, the first one, too:
 *
 *  no cluster map, a loss, a metadata store that has
 *  forgotten, or controller_restore ── the checkpoint store is sealed (checkpointer.h) ──► the first cluster map of a
 *  generation
 *
 * Invariants (controller_check)
 *   1  Servers and workers are sorted by id, each once, and the detector watches each of them.
 *  2  Gates are known once there is a cluster map; what a tail said is of the epoch of its slot, or of an earlier one.
 *   3  The ring is of servers that are known, and their ids are sorted.
 *  4  The cluster map that it knows is sound (cluster_map.h), and so are the orders for checkpoints (checkpointer.h).
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
    const char *checkpoints; /* borrowed; NULL: there are no checkpoints */
    /* Outside BSP: all slots of a checkpoint are cut at the same step of each rank, and ranks stand still meanwhile, at
     * most so long (checkpointer.h); 0: they do not, and slots are cut at different steps. The checkpoint store has to
     * know it, too. */
    int64_t pause_us;
    bool restores; /* what is lost is begun anew, from the last checkpoint, all of it; else it is named and waits */
    metadata_store store;
    rng *rng;
    /* Of the table, for its first cluster map. */
    consistency consistency;
    bool mixed; /* the slots are 2n + 1: see cluster_map.h */
    uint8_t copies;
    cluster_map_rounds rounds;
    uint32_t rank_count, slot_count, first_servers; /* it waits until so many are here */
    /* a worker plays the rank of its number only: rank_assignment_own */
    bool own_ranks;
    /* The number of the cluster map with which everything was stopped on purpose: that it is not there any more is no
     * loss to tell of. 0: none. */
    uint64_t stopped;
    void (*send)(void *context, const char *address, span bytes);
    void (*on_propose)(void *context, const cluster_map *map); /* may be NULL */
    void (*on_decided)(void *context, const cluster_map *map); /* may be NULL */
    void (*on_checkpoint)(void *context, uint64_t checkpoint); /* that was asked for is whole; may be NULL */
    void *context;
    /* So often slots move to where load is small, and hot ones get copies for reading (load_tracker.h). It should be
     * long enough that what is measured meanwhile is not chance. */
    load_tracker_terms balance;
} controller_options;

typedef struct controller controller;

controller *controller_create(const controller_options *options, int64_t now_us);
void controller_destroy(controller *controller); /* the metadata store owes it no answer any more */

void controller_take(controller *controller, span bytes, int64_t now_us);
int64_t controller_next_us(const controller *controller);
void controller_tick(controller *controller, int64_t now_us);

/* The link to this address broke. Perhaps whoever is there is dead: nothing is built on it before it is heard again,
 * and it is suspected sooner. */
void controller_broken(controller *controller, const char *address, int64_t now_us);

void controller_pin(controller *controller, const slot_placement_pin *pins, size_t count); /* borrowed for its life */
/* These leave: their slots move to others, and they may go when the cluster map has them in no chain. Sorted, borrowed
 * for its life. */
void controller_retire(controller *controller, const uint32_t *servers, size_t count);
const cluster_map *controller_map(const controller *controller);

/* Gives a rank of a BSP table up, as it is played in this term: said to the round state until it answers
 * (round_state.h). A later term of the rank may join again. */
void controller_drop(controller *controller, uint32_t rank, uint64_t term);
/* One that is whole later than now; several that are asked for at once are one. */
void controller_checkpoint(controller *controller);
bool controller_marks(const controller *controller); /* one was asked for, and is not whole yet */
/* checkpointer_bound; true if there is no checkpoint store */
bool controller_bound(const controller *controller, uint64_t *number);

/* All of it begins anew, from the last checkpoint, with the servers that are here and the terms of the options. */
void controller_restore(controller *controller);

/* every copy of it is known to be lost; there is a cluster map */
bool controller_lost(controller *controller, uint32_t slot);

void controller_check(const controller *controller); /* asserts the invariants above (base/invariants.h) */
