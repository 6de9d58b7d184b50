/* ps_cluster.c — see ps_cluster.h. */
#include "sim/ps/ps_cluster.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mutation.h"
#include "cluster/incarnation.h"
#include "sim/ps/ps_data_client.h"
#include "sim/ps/ps_rank.h"

typedef struct process {
    sim_process process;
    ps_process *ps_process;
    slot_server *server; /* exactly one of these three is used */
    rank_agent *agent;
    controller *controller;
    ps_rank *ranks[PS_RANKS_MAX]; /* ranks of a rank agent, owned; NULL: it does not hold that rank */
    ps_data_client *client;       /* of a worker; NULL: its ranks use no data */
    incarnation_acquire *acquire; /* of a server or a worker */
} process;

static int64_t now_of(const process *process) { return sim_process_now_us(&process->process); }

/* ---- Common to all processes. */

static void send_bytes(void *context, const char *address, span bytes) {
    messenger_send(((process *)context)->process.messenger, address, bytes);
}

static void take_bytes(void *context, link_id link, span bytes) {
    process *process = context;
    uint32_t magic = 0;
    if (bytes.size >= sizeof magic) memcpy(&magic, bytes.data, sizeof magic);
    if (magic != SLOT_MESSAGE_MAGIC) {
        control_message message;
        if (sim_process_take(&process->process, bytes, &message) && process->client != NULL)
            ps_data_client_take(process->client, &message);
        return;
    }
    ps_coverage_batch(&process->ps_process->cluster->coverage, bytes);
    if (process->server != NULL) slot_server_take_bytes(process->server, bytes, NULL);
    if (process->server != NULL)
        ps_checker_holds(&process->ps_process->cluster->ps_checker, process->ps_process->node, process->server);
    if (process->controller != NULL) controller_take(process->controller, bytes, now_of(process));
    if (process->agent != NULL) rank_agent_take(process->agent, bytes);
    for (uint32_t i = 0; i < PS_RANKS_MAX; i++)
        if (process->ranks[i] != NULL) ps_rank_take(process->ranks[i], bytes);
    if (process->agent != NULL) rank_agent_say(process->agent);
}

static void on_broken(void *context, const char *address, const cause *why) {
    process *process = context;
    if (process->controller != NULL)
        controller_broken(process->controller, address, why->status == MR_TIMEOUT, now_of(process));
}

static void on_enrolled(void *context, uint64_t incarnation) {
    process *process = context;
    if (process->server != NULL) slot_server_begin(process->server, incarnation, now_of(process));
    if (process->agent != NULL) rank_agent_begin(process->agent, incarnation, now_of(process));
    if (process->client != NULL) ps_data_client_begin(process->client, incarnation);
}

static void begin_acquire(process *process) {
    process->acquire = incarnation_acquire_create(sim_process_metadata(&process->process), process->process.env->rng,
                                                  process->ps_process->id, now_of(process), on_enrolled, process);
}

static void on_replaced(void *context, uint64_t incarnation) {
    process *process = context;
    if (MUTATED("no-above")) return;
    sim_note(process->ps_process->cluster->sim, process->ps_process->node, "enrols once more");
    sim_count(process->ps_process->cluster->sim, "enrolled again", 1);
    incarnation_acquire_again(process->acquire, incarnation, now_of(process));
}

static process *start(sim_node *node, const env *env, void *argument) {
    static const messenger_handlers handlers = {.on_message = take_bytes, .on_broken = on_broken};
    process *process = xcalloc(1, sizeof *process);
    process->ps_process = argument;
    sim_process_open(&process->process, node, env, &handlers, process, true, &process->ps_process->cluster->book);
    return process;
}

static void stop(void *state) {
    process *process = state;
    sim_process_hush(&process->process);
    if (process->server != NULL) slot_server_destroy(process->server);
    for (uint32_t i = 0; i < PS_RANKS_MAX; i++)
        if (process->ranks[i] != NULL) ps_rank_end(process->ranks[i]);
    if (process->agent != NULL) rank_agent_destroy(process->agent);
    if (process->controller != NULL) controller_destroy(process->controller);
    if (process->acquire != NULL) incarnation_acquire_destroy(process->acquire);
    if (process->client != NULL) ps_data_client_destroy(process->client);
    sim_process_close(&process->process);
    free(process);
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t next_us(void *state) {
    process *process = state;
    int64_t next_us = metadata_remote_next_us(process->process.remote);
    if (process->acquire != NULL) next_us = earlier(next_us, incarnation_acquire_next_us(process->acquire));
    if (process->server != NULL) next_us = earlier(next_us, slot_server_next_us(process->server));
    if (process->controller != NULL) next_us = earlier(next_us, controller_next_us(process->controller));
    if (process->agent != NULL) next_us = earlier(next_us, rank_agent_next_us(process->agent));
    if (process->client != NULL) next_us = earlier(next_us, ps_data_client_next_us(process->client));
    for (uint32_t i = 0; i < PS_RANKS_MAX; i++)
        if (process->ranks[i] != NULL) next_us = earlier(next_us, ps_rank_next_us(process->ranks[i]));
    return next_us;
}

static void tick(void *state, int64_t now_us) {
    process *process = state;
    metadata_remote_tick(process->process.remote, now_us);
    if (process->acquire != NULL) incarnation_acquire_tick(process->acquire, now_us);
    if (process->server != NULL && now_us >= slot_server_next_us(process->server))
        slot_server_tick(process->server, now_us);
    if (process->controller != NULL && now_us >= controller_next_us(process->controller))
        controller_tick(process->controller, now_us);
    if (process->agent != NULL && now_us >= rank_agent_next_us(process->agent)) rank_agent_tick(process->agent, now_us);
    if (process->client != NULL && now_us >= ps_data_client_next_us(process->client))
        ps_data_client_tick(process->client, now_us);
    for (uint32_t i = 0; i < PS_RANKS_MAX; i++)
        if (process->ranks[i] != NULL) ps_rank_tick(process->ranks[i], now_us);
}

/* ---- A server. */

static void on_applied(void *context, const replica *replica, const replica_log_entry *entry) {
    process *process = context;
    process->ps_process->cluster->coverage.entries[entry->kind]++;
    ps_checker_applied(&process->ps_process->cluster->ps_checker, process->ps_process->node, replica, entry);
}

static void on_loaded(void *context, const replica *replica) {
    process *process = context;
    ps_checker_loaded(&process->ps_process->cluster->ps_checker, process->ps_process->node, replica);
}

static void *server_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument);
    slot_server_options options = {.id = process->ps_process->id,
                                   .address = sim_node_name(node),
                                   .controller = "director",
                                   .checkpoints = process->ps_process->cluster->keeps ? "depot" : NULL,
                                   .values = &float_machine_ops,
                                   .values_context = &process->ps_process->cluster->machine,
                                   .rank_bytes = process->ps_process->cluster->rank_bytes,
                                   .link_bytes = process->ps_process->cluster->link_bytes,
                                   .piece = process->ps_process->cluster->piece,
                                   .send = send_bytes,
                                   .on_applied = on_applied,
                                   .on_loaded = on_loaded,
                                   .on_replaced = on_replaced,
                                   .context = process};
    process->server = slot_server_create(&options);
    if (process->ps_process->id < process->ps_process->cluster->server_count) begin_acquire(process);
    return process;
}

const sim_program ps_server_program = {"server", server_start, stop, next_us, tick};

const slot_server *ps_server_of(const ps_process *site) {
    const process *process = sim_node_state(site->node);
    return process == NULL ? NULL : process->server;
}

/* ---- The controller. */

/* Records cluster maps that may yet be decided: ps_may_crash considers them, too. */
static void on_propose(void *context, const cluster_map *map) {
    ps_cluster *cluster = ((process *)context)->ps_process->cluster;
    size_t kept = 0;
    for (size_t i = 0; i < cluster->proposal_count; i++) {
        if (cluster->proposals[i].number <= cluster->newest.number)
            cluster_map_fini(&cluster->proposals[i]);
        else
            cluster->proposals[kept++] = cluster->proposals[i];
    }
    for (size_t i = kept; i < cluster->proposal_count; i++) cluster->proposals[i] = (struct cluster_map){0};
    cluster->proposal_count = kept;
    MR_ASSERT(kept < PS_PROPOSALS_MAX);
    cluster_map_copy(&cluster->proposals[cluster->proposal_count++], map);
}

static void check_map(ps_cluster *cluster, const cluster_map *map) {
    for (uint32_t i = 0; i < map->slot_count; i++)
        for (size_t k = 0; k < map->slots[i].count; k++) {
            const cluster_map_member *member = &map->slots[i].chain[k];
            const ps_process *process = &cluster->servers[member->server];
            const slot_server *server = ps_server_of(process);
            if (server == NULL || slot_server_incarnation(server) != member->incarnation) continue;
            if (slot_server_map(server)->number > map->number) continue;
            ps_checker_member(&cluster->ps_checker, process->node, &map->slots[i], i, member, map->birth,
                              slot_server_replica(server, i));
        }
}

static void on_decided(void *context, const cluster_map *map) {
    process *process = context;
    ps_cluster *cluster = process->ps_process->cluster;
    if (map->number <= cluster->newest.number) return;
    cluster_map_copy(&cluster->newest, map);
    ps_checker_decided(&cluster->ps_checker, map);
    sim_count(cluster->sim, "charts", 1);
    sim_note(cluster->sim, process->ps_process->node, "knows chart %d", (int)(map->number & 0xffffff));
    check_map(cluster, map);
}

static void on_checkpoint(void *context, uint64_t checkpoint) {
    process *process = context;
    sim_note(process->ps_process->cluster->sim, process->ps_process->node, "checkpoint %d is whole", (int)checkpoint);
    sim_count(process->ps_process->cluster->sim, "checkpoints", 1);
    ps_checker_whole(&process->ps_process->cluster->ps_checker, checkpoint);
}

static void *controller_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument);
    ps_cluster *cluster = process->ps_process->cluster;
    controller_options options = {.address = sim_node_name(node),
                                  .checkpoints = cluster->keeps ? "depot" : NULL,
                                  .restores = cluster->keeps,
                                  .pause_us = cluster->pause_us,
                                  .hold_us = cluster->hold_us,
                                  .on_checkpoint = on_checkpoint,
                                  .store = sim_process_metadata(&process->process),
                                  .rng = env->rng,
                                  .consistency = cluster->consistency,
                                  .mixed = cluster->mixed,
                                  .copies = cluster->copies,
                                  .rounds = cluster->rounds,
                                  .rank_count = cluster->rank_count,
                                  .slot_count = cluster->slot_count,
                                  .balance = {.decide_us = cluster->balance_us},
                                  .first_servers = cluster->server_count > 1 ? cluster->server_count - 1 : 1,
                                  .send = send_bytes,
                                  .on_propose = on_propose,
                                  .on_decided = on_decided,
                                  .context = process};
    process->controller = controller_create(&options, clock_now_us(env->clock));
    controller_pin(process->controller, cluster->pins, cluster->pin_count);
    return process;
}

const sim_program ps_controller_program = {"director", controller_start, stop, next_us, tick};

controller *ps_controller_of(const ps_process *site) {
    const process *process = sim_node_state(site->node);
    return process == NULL ? NULL : process->controller;
}

/* ---- A worker: it holds the ranks that the cluster map assigns to it. */

static void on_begin(void *context, uint32_t rank, uint64_t term) {
    process *process = context;
    sim_count(process->ps_process->cluster->sim, "stints", 1);
    process->ranks[rank] = ps_rank_begin(process->ps_process, process->process.env, process->agent, process->client,
                                         rank, term, send_bytes, process);
}

static void on_end(void *context, uint32_t rank) {
    process *process = context;
    ps_rank_end(process->ranks[rank]);
    process->ranks[rank] = NULL;
}

static bool stands(void *context, uint32_t rank, uint64_t *step) {
    return ps_rank_stands(((process *)context)->ranks[rank], step);
}

static void *worker_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument);
    rank_agent_options options = {.worker = process->ps_process->id,
                                  .address = sim_node_name(node),
                                  .controller = "director",
                                  .send = send_bytes,
                                  .on_begin = on_begin,
                                  .on_end = on_end,
                                  .on_replaced = on_replaced,
                                  .stands = stands,
                                  .context = process};
    process->agent = rank_agent_create(&options);
    if (process->ps_process->cluster->fed)
        process->client = ps_data_client_create(process->ps_process, &process->process);
    begin_acquire(process);
    return process;
}

const sim_program ps_worker_program = {"worker", worker_start, stop, next_us, tick};

uint64_t ps_term(const ps_cluster *cluster, uint32_t rank) {
    return rank < cluster->newest.rank_count ? cluster->newest.ranks[rank].since : 0;
}

void ps_tell(const ps_process *site, const cluster_map *known, const uint64_t own[PS_SLOTS_MAX]) {
    process *process = sim_node_state(site->node);
    for (uint32_t i = 0; process != NULL && i < PS_RANKS_MAX; i++)
        if (process->ranks[i] != NULL) ps_rank_told(process->ranks[i], known, own);
}

bool ps_pushes(const ps_process *site) {
    const process *process = sim_node_state(site->node);
    for (uint32_t i = 0; process != NULL && i < PS_RANKS_MAX; i++)
        if (process->ranks[i] != NULL && ps_rank_pushes(process->ranks[i])) return true;
    return false;
}

bool ps_cluster_rank_done(const ps_cluster *cluster, uint32_t rank) {
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        const process *process = sim_node_state(cluster->workers[i].node);
        const ps_rank *role = process == NULL ? NULL : process->ranks[rank];
        if (role != NULL && ps_rank_term(role) == ps_term(cluster, rank)) return ps_rank_done(role);
    }
    return false;
}
