/* director.h — controller of the parameter server: watches servers and workers, proposes cluster maps.
 *
 * It keeps nothing that matters: charts lie with the coordinator, gates are told again and again by the tails, lives by
 * heartbeats. So it may die and start at any time, and two of them do no harm: each chart is decided once.
 *
 *   every DIRECTOR_TICK_US   what is known ── plan_next,
 *                                              cast_next ──► a chart to decide: one compare-and-swap
 *                                                    ├────► nothing to decide: orders to join, to tails
 *                                                    └────► nothing to join either: does load lie well? (load.h)
 *
 * A server or worker that is heard with a newer incarnation is another process: the one before is dead. One with an
 * older incarnation is told so, and not heard; it may be a process that began just when the coordinator had lost its
 * disk, and then takes another (cluster/enrol.h). One that is
 * silent for too long is suspected, which is an opinion (cluster/detector.h); where that was wrong, it is given more
 * time.
 *
 * With a depot (depot.h) there are checkpoints. A generation begins from the newest that is whole, the first one, too:
 *
 *   no chart, a loss, a coordinator that has
 *   forgotten, or director_restore ── the depot is sealed (marker.h) ──► the first chart of a generation
 *
 * Invariants (director_check)
 *   1  Servers and workers are sorted by id, each once, and the detector watches each of them.
 *   2  Gates are known once there is a chart; what a tail said is of the epoch of its slot, or of an earlier one.
 *   3  The ring is of servers that are known, and their ids are sorted.
 *   4  The chart that it knows is sound (chart.h), and so are the orders for checkpoints (marker.h).
 *
 * Pure: bytes, answers of the coordinator and ticks. */
#pragma once
#include "base/rng.h"
#include "cluster/coordinator.h"
#include "ps/load.h"
#include "ps/marker.h"
#include "ps/plan.h"
#include "ps/post.h"

#define DIRECTOR_TICK_US    INT64_C(100000)
#define DIRECTOR_SUSPECT_US INT64_C(600000)
#define DIRECTOR_POLL_US    INT64_C(1000000)

typedef struct director_options {
    const char *address; /* copied */
    const char *depot;   /* borrowed; NULL: there are no checkpoints */
    /* Outside BSP: all slots of a checkpoint are cut at the same step of each rank, and ranks stand still meanwhile, at
     * most so long (marker.h); 0: they do not, and slots are cut at different steps. The depot has to know it, too. */
    int64_t pause_us;
    bool restores; /* what is lost is begun anew, from the last checkpoint, all of it; else it is named and waits */
    coordinator coordinator;
    rng *rng;
    /* Of the table, for its first chart. */
    consistency consistency;
    bool mixed; /* the slots are 2n + 1: see chart.h */
    uint8_t copies;
    chart_rounds rounds;
    uint32_t rank_count, slot_count, first_servers; /* it waits until so many are here */
    bool own_ranks;                                 /* a worker plays the rank of its number only: cast_own */
    /* The number of the chart with which everything was stopped on purpose: that it is not there any more is no loss to
     * tell of. 0: none. */
    uint64_t stopped;
    void (*send)(void *context, const char *address, span bytes);
    void (*on_propose)(void *context, const chart *chart);     /* may be NULL */
    void (*on_decided)(void *context, const chart *chart);     /* may be NULL */
    void (*on_checkpoint)(void *context, uint64_t checkpoint); /* that was asked for is whole; may be NULL */
    void *context;
    /* So often slots move to where load is small, and hot ones get copies for reading (load.h). It should be
     * long enough that what is measured meanwhile is not chance. */
    load_terms balance;
} director_options;

typedef struct director director;

director *director_create(const director_options *options, int64_t now_us);
void director_destroy(director *director); /* the coordinator owes it no answer any more */

void director_take(director *director, span bytes, int64_t now_us);
int64_t director_next_us(const director *director);
void director_tick(director *director, int64_t now_us);

/* The link to this address broke. Perhaps whoever is there is dead: nothing is built on it before it is heard again,
 * and it is suspected sooner. */
void director_broken(director *director, const char *address, int64_t now_us);

void director_pin(director *director, const placement_pin *pins, size_t count); /* borrowed for its life */
/* These leave: their slots move to others, and they may go when the chart has them in no chain. Sorted, borrowed for
 * its life. */
void director_retire(director *director, const uint32_t *servers, size_t count);
const chart *director_chart(const director *director);

/* Gives a rank of a BSP table up, as it is played in this stint: said to the ledger until it answers (ledger.h). A
 * later stint of the rank may join again. */
void director_drop(director *director, uint32_t rank, uint64_t stint);
/* One that is whole later than now; several that are asked for at once are one. */
void director_checkpoint(director *director);
bool director_marks(const director *director);                   /* one was asked for, and is not whole yet */
bool director_bound(const director *director, uint64_t *number); /* marker_bound; true if there is no depot */

/* All of it begins anew, from the last checkpoint, with the servers that are here and the terms of the options. */
void director_restore(director *director);

bool director_lost(director *director, uint32_t slot); /* every copy of it is known to be lost; there is a chart */

void director_check(const director *director); /* asserts the invariants above (base/invariants.h) */
