/* scale_processes.c — see scale_processes.h. */
#include "sim/ps/scale_processes.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "ps/silence.h"
#include "ps/stable_hash.h"
#include "sim/ps/float_machine.h"
#include "sim/sim_process.h"

#define PACE_US INT64_C(1000000) /* mean time between two steps of a rank */

typedef struct process {
    sim_process process; /* the controller's has a metadata client */
    scale_process *scale_process;
    slot_server *server; /* exactly one of these is used */
    rank_agent *agent;   /* of a worker, and its rank; NULL: none yet */
    rank *rank;
    controller *controller;
    /* State of a rank. */
    uint64_t step;
    uint32_t missing; /* outstanding answers of this step */
    int64_t began_us, next_us;
} process;

static int64_t now_of(const process *process) { return sim_process_now_us(&process->process); }
static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static void send_bytes(void *context, const char *address, span bytes) {
    process *process = context;
    process->scale_process->counts->messages++;
    process->scale_process->counts->bytes += bytes.size;
    messenger_send(process->process.messenger, address, bytes);
}

static void take_bytes(void *context, link_id link, span bytes) {
    process *process = context;
    control_message message;
    if (process->server != NULL) slot_server_take_bytes(process->server, bytes, NULL);
    if (process->agent != NULL) rank_agent_take(process->agent, bytes);
    if (process->rank != NULL) rank_take_bytes(process->rank, bytes, NULL);
    if (process->controller == NULL) return;
    uint32_t magic = 0;
    if (bytes.size >= sizeof magic) memcpy(&magic, bytes.data, sizeof magic);
    if (magic == SLOT_MESSAGE_MAGIC)
        controller_take(process->controller, bytes, now_of(process));
    else
        (void)sim_process_take(&process->process, bytes, &message);
}

static void on_broken(void *context, const char *address, const cause *why) {
    process *process = context;
    if (process->controller != NULL)
        controller_broken(process->controller, address, why->status == MR_TIMEOUT, now_of(process));
}

static process *start(sim_node *node, const env *env, void *argument, bool directs) {
    static const messenger_handlers handlers = {.on_message = take_bytes, .on_broken = on_broken};
    process *process = xcalloc(1, sizeof *process);
    process->scale_process = argument;
    process->next_us = CLOCK_NEVER_US;
    sim_process_open(&process->process, node, env, &handlers, process, directs, NULL);
    return process;
}

static void stop(void *state) {
    process *process = state;
    sim_process_hush(&process->process);
    if (process->controller != NULL) controller_destroy(process->controller);
    if (process->server != NULL) slot_server_destroy(process->server);
    if (process->rank != NULL) rank_destroy(process->rank);
    if (process->agent != NULL) rank_agent_destroy(process->agent);
    sim_process_close(&process->process);
    free(process);
}

/* ---- A server. */

static void *server_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument, false);
    slot_server_options options = {.id = process->scale_process->id,
                                   .address = sim_node_name(node),
                                   .controller = "director",
                                   .values = &float_machine_ops,
                                   .send = send_bytes,
                                   .context = process,
                                   .cache = process->scale_process->cache};
    process->server = slot_server_create(&options);
    slot_server_begin(process->server, ++*process->scale_process->incarnations, now_of(process));
    return process;
}

static int64_t server_next(void *state) { return slot_server_next_us(((process *)state)->server); }
static void server_ticks(void *state, int64_t now_us) { slot_server_tick(((process *)state)->server, now_us); }

const sim_program scale_server_program = {"server", server_start, stop, server_next, server_ticks};

const slot_server *scale_server_of(const scale_process *site) {
    const process *process = sim_node_state(site->node);
    return process == NULL ? NULL : process->server;
}

/* ---- The controller. */

static void on_decided(void *context, const cluster_map *map) { ((process *)context)->scale_process->counts->maps++; }

static void *controller_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument, true);
    const scale_size *size = process->scale_process->size;
    controller_options options = {.address = sim_node_name(node),
                                  .store = sim_process_metadata(&process->process),
                                  .rng = env->rng,
                                  .consistency = {CONSISTENCY_ASP, 0},
                                  .hold_us = SILENCE_HOLD_US,
                                  .copies = size->copies,
                                  .rank_count = size->ranks,
                                  .slot_count = size->slots,
                                  .first_servers = size->servers,
                                  .own_ranks = true,
                                  .balance = {.decide_us = size->balance_us},
                                  .send = send_bytes,
                                  .on_decided = on_decided,
                                  .context = process};
    process->controller = controller_create(&options, now_of(process));
    return process;
}

static int64_t controller_next(void *state) {
    process *process = state;
    return earlier(metadata_remote_next_us(process->process.remote), controller_next_us(process->controller));
}

static void controller_ticks(void *state, int64_t now_us) {
    process *process = state;
    metadata_remote_tick(process->process.remote, now_us);
    if (now_us >= controller_next_us(process->controller)) controller_tick(process->controller, now_us);
}

const sim_program scale_controller_program = {"director", controller_start, stop, controller_next, controller_ticks};

controller *scale_controller_of(const scale_process *site) {
    const process *process = sim_node_state(site->node);
    return process == NULL ? NULL : process->controller;
}

/* ---- A rank: a push to each of its slots, then a pull of each, then a pause. */

static void wait_for_next(process *process) {
    process->next_us = now_of(process) + rng_between(process->process.env->rng, PACE_US / 2, PACE_US * 3 / 2);
}

static void on_ready(void *context) {
    process *process = context;
    process->scale_process->ready = true;
    wait_for_next(process);
}

static void answered(process *process) {
    scale_process *site = process->scale_process;
    if (--process->missing != 0) return;
    int64_t took_us = now_of(process) - process->began_us;
    if (took_us > site->waited_us) site->waited_us = took_us;
    wait_for_next(process);
}

static void on_pushed(void *context, uint32_t slot, uint64_t name, slot_message_status status) {
    process *process = context;
    for (size_t i = 0; i < SCALE_TOUCHES; i++)
        if (process->scale_process->touches[i] == slot) process->scale_process->acknowledged[i] = name;
    rank_pull(process->rank, slot, 0, (span){0}, NULL, RANK_PULL_ACKNOWLEDGED);
    rank_flush(process->rank);
}

static void on_pulled(void *context, uint32_t slot, uint64_t version, uint64_t lsn, span values) { answered(context); }

static void step(process *process) {
    process->step++;
    process->missing = SCALE_TOUCHES;
    process->began_us = now_of(process);
    process->next_us = CLOCK_NEVER_US;
    double change[FLOAT_MACHINE_WIDTH] = {(double)process->step, process->scale_process->id, 1};
    for (size_t i = 0; i < SCALE_TOUCHES; i++) {
        mr_status status = rank_push_pieces(process->rank, process->scale_process->touches[i], seq_of(process->step, 1),
                                            span_of(change, sizeof change), NULL, (shared_bytes_piece){0});
        MR_ASSERT(status == MR_OK);
    }
    rank_flush(process->rank);
}

/* Each worker holds the rank of its number, and no worker dies. */
static void on_begin(void *context, uint32_t rank, uint64_t term) {
    process *process = context;
    scale_process *site = process->scale_process;
    MR_ASSERT(rank == site->id && process->rank == NULL);
    rank_options options = {.rank = rank,
                            .address = sim_node_name(site->node),
                            .controller = "director",
                            .touches = site->touches,
                            .touch_count = SCALE_TOUCHES,
                            .send = send_bytes,
                            .on_ready = on_ready,
                            .on_pushed = on_pushed,
                            .on_pulled = on_pulled,
                            .context = process,
                            .cache = site->cache};
    process->rank = rank_create(&options);
    rank_begin(process->rank, term, now_of(process));
}

static void on_end(void *context, uint32_t rank) { MR_ASSERT(false); }

static void *worker_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument, false);
    scale_process *site = process->scale_process;
    for (uint32_t i = 0; i < SCALE_TOUCHES; i++) /* one slot of each part of the table: all different */
        site->touches[i] =
            (uint32_t)((stable_hash2(site->id, i) % (site->size->slots / SCALE_TOUCHES)) * SCALE_TOUCHES + i);
    rank_agent_options options = {.worker = site->id,
                                  .address = sim_node_name(node),
                                  .controller = "director",
                                  .send = send_bytes,
                                  .on_begin = on_begin,
                                  .on_end = on_end,
                                  .context = process,
                                  .cache = site->cache};
    process->agent = rank_agent_create(&options);
    rank_agent_begin(process->agent, ++*site->incarnations, now_of(process));
    return process;
}

static int64_t worker_next(void *state) {
    process *process = state;
    int64_t next_us = earlier(rank_agent_next_us(process->agent), process->next_us);
    return process->rank == NULL ? next_us : earlier(next_us, rank_next_us(process->rank));
}

static void worker_ticks(void *state, int64_t now_us) {
    process *process = state;
    if (now_us >= process->next_us) step(process);
    if (now_us >= rank_agent_next_us(process->agent)) rank_agent_tick(process->agent, now_us);
    if (process->rank != NULL && now_us >= rank_next_us(process->rank)) rank_tick(process->rank, now_us);
}

const sim_program scale_worker_program = {"worker", worker_start, stop, worker_next, worker_ticks};

const rank *scale_rank_of(const scale_process *site) {
    const process *process = sim_node_state(site->node);
    return process == NULL ? NULL : process->rank;
}
