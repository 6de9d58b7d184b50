/* rank_agent.c — see rank_agent.h. */
#include "ps/rank_agent.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/invariants.h"
#include "cluster/metadata_store.h"
#include "ps/quiesce_client.h"

struct rank_agent {
    rank_agent_options options;
    batcher *batcher;
    uint64_t incarnation;    /* 0: none yet */
    int64_t next_us, now_us; /* now_us: time of the last tick */
    quiesce_client quiesce;
    bool said; /* the controller has the report that all ranks stand still in this pause */
    uint64_t generation;
    uint64_t reported;   /* generation whose loss the program has learned of; 0: none */
    uint32_t rank_count; /* with readers (cluster_map_clients) */
    uint64_t *terms;     /* by rank, owned; 0: not held by this process */
};

static bool is_mine(const rank_agent *agent, const cluster_map_rank *part) {
    return part->since != 0 && part->worker == agent->options.worker && part->incarnation == agent->incarnation;
}

/* Another generation may have another number of ranks. */
static void count_ranks(rank_agent *agent, uint32_t rank_count) {
    if (agent->rank_count == rank_count) return;
    agent->terms = xrealloc(agent->terms, (rank_count + 1) * sizeof *agent->terms);
    for (uint32_t i = agent->rank_count; i < rank_count; i++) agent->terms[i] = 0;
    agent->rank_count = rank_count;
}

/* Ends all terms that are over, then begins the new ones. */
static void on_map(void *context, const cluster_map *map) {
    rank_agent *agent = context;
    const rank_agent_options *options = &agent->options;
    if (agent->generation != map->generation) quiesce_client_forget(&agent->quiesce);
    agent->generation = map->generation;
    for (uint32_t i = 0; i < agent->rank_count; i++) {
        bool goes_on = i < cluster_map_clients(map) && agent->terms[i] == map->ranks[i].since;
        if (agent->terms[i] == 0 || goes_on) continue;
        agent->terms[i] = 0;
        options->on_end(options->context, i);
    }
    count_ranks(agent, cluster_map_clients(map));
    for (uint32_t i = 0; i < agent->rank_count; i++) {
        if (agent->terms[i] != 0 || !is_mine(agent, &map->ranks[i])) continue;
        agent->terms[i] = map->ranks[i].since;
        options->on_begin(options->context, i, agent->terms[i]);
    }
}

static bool plays(const rank_agent *agent) {
    for (uint32_t i = 0; i < agent->rank_count; i++)
        if (agent->terms[i] != 0) return true;
    return false;
}

/* ---- Pauses. */

/* Reports the state of all ranks to the controller. True: all stand still. */
static bool tell_ranks(rank_agent *agent) {
    bool all = true;
    MR_ASSERT(agent->options.stands != NULL && agent->quiesce.number != 0);
    for (uint32_t i = 0; i < agent->rank_count; i++) {
        uint64_t step = 0;
        if (agent->terms[i] == 0) continue;
        bool still = agent->options.stands(agent->options.context, i, &step);
        all = all && still && quiesce_client_holds(&agent->quiesce, step);
        batcher_add(agent->batcher, agent->options.controller,
                    &(slot_message){.kind = SLOT_MESSAGE_PAUSED,
                                    .status = still ? SLOT_MESSAGE_OK : SLOT_MESSAGE_LATER,
                                    .rank = i,
                                    .lsn = step,
                                    .commit = agent->terms[i],
                                    .name = agent->quiesce.number});
    }
    return all;
}

static void take_pause(rank_agent *agent, const slot_message *message) {
    if (agent->options.stands == NULL) return;
    if (message->status == SLOT_MESSAGE_GONE)
        quiesce_client_end(&agent->quiesce, message->name);
    else if (quiesce_client_take(&agent->quiesce, message->name, message->lsn, agent->now_us))
        agent->said = tell_ranks(agent);
    else
        batcher_add(agent->batcher, agent->options.controller,
                    &(struct slot_message){.kind = SLOT_MESSAGE_PAUSED,
                                           .status = SLOT_MESSAGE_GONE,
                                           .name = message->name,
                                           .prev = agent->quiesce.number > agent->quiesce.over ? agent->quiesce.number
                                                                                               : agent->quiesce.over});
}

bool rank_agent_rests(const rank_agent *agent, uint64_t ended) { return quiesce_client_holds(&agent->quiesce, ended); }

/* Reports once all ranks stand still; until then the controller repeats its question. Each call asks the host, which
 * is cheap. */
void rank_agent_say(rank_agent *agent) {
    if (agent->quiesce.number == 0 || agent->said) return;
    for (uint32_t i = 0; i < agent->rank_count; i++) {
        uint64_t step = 0;
        if (agent->terms[i] == 0) continue;
        if (!agent->options.stands(agent->options.context, i, &step) || !quiesce_client_holds(&agent->quiesce, step))
            return;
    }
    agent->said = tell_ranks(agent);
    batcher_flush(agent->batcher);
}

/* ---- Losses. */

static void say_reported(rank_agent *agent) {
    const cluster_map *map = rank_agent_map(agent);
    if (!map->lost || map->reported || agent->reported != map->generation) return;
    batcher_add(agent->batcher, agent->options.controller,
                &(slot_message){.kind = SLOT_MESSAGE_REPORTED, .name = agent->reported});
}

void rank_agent_report(rank_agent *agent, uint64_t generation) {
    agent->reported = generation;
    say_reported(agent);
    batcher_flush(agent->batcher);
}

/* ---- Messages. */

static void on_part(void *context, const slot_message_head *from, const slot_message *message, shared_bytes *bytes) {
    rank_agent *agent = context;
    const rank_agent_options *options = &agent->options;
    bool later = metadata_store_generation(message->name) > metadata_store_generation(agent->incarnation);
    if (message->kind == SLOT_MESSAGE_PAUSE && from->who == SLOT_MESSAGE_CONTROLLER) take_pause(agent, message);
    if (message->kind == SLOT_MESSAGE_REPLACED && from->who == SLOT_MESSAGE_CONTROLLER && later && !plays(agent) &&
        options->on_replaced != NULL)
        options->on_replaced(options->context, message->name);
}

rank_agent *rank_agent_create(const rank_agent_options *options) {
    MR_ASSERT(options->worker < SLOT_MESSAGE_RANK && options->on_begin != NULL && options->on_end != NULL);
    MR_ASSERT(strlen(options->controller) < SLOT_MESSAGE_ADDRESS_MAX);
    rank_agent *agent = XNEW(rank_agent, .options = *options, .next_us = CLOCK_NEVER_US);
    batcher_host host = {.send = options->send,
                         .send_context = options->context,
                         .on_map = on_map,
                         .on_part = on_part,
                         .context = agent,
                         .controller = options->controller,
                         .cache = options->cache};
    agent->batcher = batcher_create(&host, SLOT_MESSAGE_WORKER | options->worker, options->address);
    return agent;
}

void rank_agent_destroy(rank_agent *agent) {
    batcher_destroy(agent->batcher);
    free(agent->terms);
    free(agent);
}

void rank_agent_begin(rank_agent *agent, uint64_t incarnation, int64_t now_us) {
    MR_ASSERT(incarnation > agent->incarnation);
    agent->incarnation = incarnation;
    batcher_set_incarnation(agent->batcher, incarnation);
    agent->next_us = agent->now_us = now_us;
}

void rank_agent_take(rank_agent *agent, span bytes) {
    if (agent->incarnation != 0) batcher_take(agent->batcher, bytes);
    CHECK_INVARIANTS(agent->rank_count, rank_agent_check(agent));
}

int64_t rank_agent_next_us(const rank_agent *agent) { return agent->next_us; }

void rank_agent_tick(rank_agent *agent, int64_t now_us) {
    agent->next_us = now_us + RANK_AGENT_BEAT_US;
    agent->now_us = now_us;
    quiesce_client_tick(&agent->quiesce, now_us);
    rank_agent_say(agent);
    say_reported(agent);
    batcher_add(agent->batcher, agent->options.controller, NULL);
    batcher_flush(agent->batcher);
    CHECK_INVARIANTS(agent->rank_count, rank_agent_check(agent));
}

const cluster_map *rank_agent_map(const rank_agent *agent) { return batcher_map(agent->batcher); }

void rank_agent_check(const rank_agent *agent) {
    const cluster_map *map = rank_agent_map(agent);
    MR_ASSERT(agent->rank_count == cluster_map_clients(map)); /* 1 */
    for (uint32_t i = 0; i < agent->rank_count; i++)
        MR_ASSERT(agent->terms[i] == 0 || agent->terms[i] == map->ranks[i].since);        /* 1 */
    MR_ASSERT(agent->quiesce.number == 0 || agent->quiesce.number > agent->quiesce.over); /* 2 */
}
