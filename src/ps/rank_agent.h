/* rank_agent.h — rank agent of a worker: sends heartbeats, and learns which ranks it holds.
 *
 *             a cluster map gives it the rank: a term begins
 *   not held ──────────────────────────────────────────────► held, as (rank, term)
 *       ▲                                                             │
 *       └──── a cluster map gives it to another, or to it once more ──┘
 *
 * The host creates a rank (rank.h) at on_begin, begun with the term, and destroys it at on_end. Messages of a term that
 * is over have no effect: servers have the cluster map that ended the term, or refuse a process with a later one.
 *
 * For a checkpoint all ranks may have to stand still between two steps (quiesce.h). The host asks whether a rank may
 * begin a step, and is asked for the steps of its ranks.
 *
 * Invariants (rank_agent_check)
 *   1  A rank is held in the term that the newest cluster map gives it; there are as many ranks as in that cluster map.
 *   2  A pause that holds is later than all that are over (quiesce_client.h).
 *
 * Pure: bytes in, bytes out, ticks. */
#pragma once
#include "ps/batcher.h"

#define RANK_AGENT_BEAT_US INT64_C(100000)

typedef struct rank_agent_options {
    uint32_t worker;
    const char *address, *controller; /* address: copied; controller: borrowed for its life */
    void (*send)(void *context, const char *address, span bytes);
    void (*on_begin)(void *context, uint32_t rank, uint64_t term);
    void (*on_end)(void *context, uint32_t rank);
    /* The controller ignores this process: it knows one of this worker with a higher incarnation, of a later generation
     * of the metadata store. So the metadata store had lost its disk when this process enrolled: the host enrols once
     * more, above that incarnation (cluster/incarnation.h), and begins again. Not called for a process that was
     * accepted, and replaced since. May be NULL. */
    void (*on_replaced)(void *context, uint64_t incarnation);
    /* True: this rank has ended *step, from 1, and all of it is acknowledged; false: it is in that step. May be NULL:
     * this worker ignores pauses. */
    bool (*stands)(void *context, uint32_t rank, uint64_t *step);
    void *context;
    map_cache *cache; /* shared; NULL: one of its own */
} rank_agent_options;

typedef struct rank_agent rank_agent;

/* The agent does nothing before it has its incarnation from the metadata store. */
rank_agent *rank_agent_create(const rank_agent_options *options);
void rank_agent_destroy(rank_agent *agent); /* without on_end */
void rank_agent_begin(rank_agent *agent, uint64_t incarnation, int64_t now_us);

void rank_agent_take(rank_agent *agent, span bytes);
int64_t rank_agent_next_us(const rank_agent *agent);
void rank_agent_tick(rank_agent *agent, int64_t now_us);

/* A rank that has ended this step must not begin another now. A pause ends by itself: ask again at the next tick or
 * packet. */
bool rank_agent_rests(const rank_agent *agent, uint64_t ended);
/* a push was acknowledged: reports to the controller if a pause holds and all ranks stand still */
void rank_agent_say(rank_agent *agent);

const cluster_map *rank_agent_map(const rank_agent *agent);
void rank_agent_check(const rank_agent *agent); /* asserts the invariants above (base/invariants.h) */
