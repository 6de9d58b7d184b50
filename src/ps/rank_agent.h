/* rank_agent.h — rank agent of a worker: sends heartbeats, and learns which ranks it holds.
 *
 *             a cluster map assigns the rank: a term begins
 *   not held ──────────────────────────────────────────────► held, as (rank, term)
 *       ▲                                                             │
 *       └──── a cluster map assigns it to another, or once more ──────┘
 *
 * A reader (cluster_map.h) holds its place like a rank, as the rank of that number; it ignores pauses.
 *
 * The host creates a rank (rank.h) at on_begin, begun with the term, and destroys it at on_end. Messages of a term that
 * is over have no effect: servers have the cluster map that ended the term, or refuse a process with a later one.
 *
 * The program of some process must learn of a loss: until a cluster map says that one has (cluster_map.h, `reported`),
 * the agent repeats what rank_agent_report was told.
 *
 * For a checkpoint all ranks may have to stop between two steps (quiesce.h). The host asks the agent whether a rank may
 * begin a step (rank_agent_rests), and the agent asks the host for the steps of its ranks (`stands`).
 *
 * Invariants (rank_agent_check)
 *   1  A rank is held in the term that the newest cluster map gives it; there are as many ranks and readers as in that
 *      cluster map.
 *   2  The current pause is later than all pauses that are over (quiesce_client.h).
 *
 * Pure: bytes in, bytes out, ticks. */
#pragma once
#include "ps/batcher.h"

#define RANK_AGENT_BEAT_US INT64_C(100000)

typedef struct rank_agent_options {
    uint32_t worker;
    const char *address, *controller; /* address: copied; controller: borrowed for the agent's life */
    void (*send)(void *context, const char *address, span bytes);
    void (*on_begin)(void *context, uint32_t rank, uint64_t term);
    void (*on_end)(void *context, uint32_t rank);
    /* The controller ignores this process: it knows one of this worker with a higher incarnation, of a later
     * generation of the metadata store. So the metadata store had lost its disk when this process enrolled: the host
     * enrols once more, above that incarnation (cluster/incarnation.h), and begins again. Not called for a process
     * that was accepted and then replaced. May be NULL. */
    void (*on_replaced)(void *context, uint64_t incarnation);
    /* True: this rank has ended *step (steps count from 1; QUIESCE_CLIENT_LEFT: the rank has left), and all of the step
     * is acknowledged. False: the rank is
     * in *step. NULL: this worker ignores pauses. */
    bool (*stands)(void *context, uint32_t rank, uint64_t *step);
    void *context;
    map_cache *cache; /* shared; NULL: a private one */
} rank_agent_options;

typedef struct rank_agent rank_agent;

/* The agent does nothing before rank_agent_begin gives it an incarnation from the metadata store. */
rank_agent *rank_agent_create(const rank_agent_options *options);
void rank_agent_destroy(rank_agent *agent); /* does not call on_end */
void rank_agent_begin(rank_agent *agent, uint64_t incarnation, int64_t now_us);

void rank_agent_take(rank_agent *agent, span bytes);
int64_t rank_agent_next_us(const rank_agent *agent);
void rank_agent_tick(rank_agent *agent, int64_t now_us);

/* True: a rank that has ended this step must not begin another now. A pause may end without a message: ask again at
 * the next tick or packet. */
bool rank_agent_rests(const rank_agent *agent, uint64_t ended);
/* Called after a push was acknowledged: reports to the controller if a pause holds and all ranks stand still. */
void rank_agent_say(rank_agent *agent);

/* The program has learned of the loss with which this generation began. */
void rank_agent_report(rank_agent *agent, uint64_t generation);

const cluster_map *rank_agent_map(const rank_agent *agent);
void rank_agent_check(const rank_agent *agent); /* asserts the invariants above (base/invariants.h) */
