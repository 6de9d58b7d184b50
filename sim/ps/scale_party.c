/* scale_party.c — see scale_party.h. */
#include "sim/ps/scale_party.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "ps/mix.h"
#include "sim/citizen.h"
#include "sim/ps/float_machine.h"

#define PACE_US INT64_C(1000000) /* between two steps of a rank, on average */

typedef struct process {
    citizen citizen; /* the director's has a coordinator */
    scale_seat *seat;
    server *server; /* one of these */
    player *player; /* of a worker, and the rank that it plays; NULL: none yet */
    rank *rank;
    director *director;
    /* Of a rank. */
    uint64_t step;
    uint32_t missing; /* answers to this step */
    int64_t began_us, next_us;
} process;

static int64_t now_of(const process *process) { return citizen_now_us(&process->citizen); }
static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static void send_bytes(void *context, const char *address, span bytes) {
    process *process = context;
    process->seat->counts->messages++;
    process->seat->counts->bytes += bytes.size;
    mail_send(process->citizen.mail, address, bytes);
}

static void take_bytes(void *context, link_id link, span bytes) {
    process *process = context;
    letter letter;
    if (process->server != NULL) server_take_bale(process->server, bytes, NULL);
    if (process->player != NULL) player_take(process->player, bytes);
    if (process->rank != NULL) rank_take_bale(process->rank, bytes, NULL);
    if (process->director == NULL) return;
    uint32_t magic = 0;
    if (bytes.size >= sizeof magic) memcpy(&magic, bytes.data, sizeof magic);
    if (magic == PART_MAGIC)
        director_take(process->director, bytes, now_of(process));
    else
        (void)citizen_take(&process->citizen, bytes, &letter);
}

static process *start(sim_node *node, const env *env, void *argument, bool directs) {
    static const mail_handlers handlers = {.on_letter = take_bytes};
    process *process = xcalloc(1, sizeof *process);
    process->seat = argument;
    process->next_us = CLOCK_NEVER_US;
    citizen_open(&process->citizen, node, env, &handlers, process, directs, NULL);
    return process;
}

static void stop(void *state) {
    process *process = state;
    citizen_hush(&process->citizen);
    if (process->director != NULL) director_destroy(process->director);
    if (process->server != NULL) server_destroy(process->server);
    if (process->rank != NULL) rank_destroy(process->rank);
    if (process->player != NULL) player_destroy(process->player);
    citizen_close(&process->citizen);
    free(process);
}

/* ---- A server. */

static void *server_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument, false);
    server_options options = {.id = process->seat->id,
                              .address = sim_node_name(node),
                              .director = "director",
                              .values = &float_machine_ops,
                              .send = send_bytes,
                              .context = process,
                              .atlas = process->seat->atlas};
    process->server = server_create(&options);
    server_begin(process->server, ++*process->seat->incarnations, now_of(process));
    return process;
}

static int64_t server_next(void *state) { return server_next_us(((process *)state)->server); }
static void server_ticks(void *state, int64_t now_us) { server_tick(((process *)state)->server, now_us); }

const sim_program scale_server_program = {"server", server_start, stop, server_next, server_ticks};

const server *scale_server_of(const scale_seat *seat) {
    const process *process = sim_node_state(seat->node);
    return process == NULL ? NULL : process->server;
}

/* ---- The director. */

static void on_decided(void *context, const chart *chart) { ((process *)context)->seat->counts->charts++; }

static void *director_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument, true);
    const scale_size *size = process->seat->size;
    director_options options = {.address = sim_node_name(node),
                                .coordinator = citizen_coordinator(&process->citizen),
                                .rng = env->rng,
                                .consistency = {CONSISTENCY_ASP, 0},
                                .copies = size->copies,
                                .rank_count = size->ranks,
                                .slot_count = size->slots,
                                .first_servers = size->servers,
                                .own_ranks = true,
                                .balance = {.decide_us = size->balance_us},
                                .send = send_bytes,
                                .on_decided = on_decided,
                                .context = process};
    process->director = director_create(&options, now_of(process));
    return process;
}

static int64_t director_next(void *state) {
    process *process = state;
    return earlier(remote_next_us(process->citizen.remote), director_next_us(process->director));
}

static void director_ticks(void *state, int64_t now_us) {
    process *process = state;
    remote_tick(process->citizen.remote, now_us);
    if (now_us >= director_next_us(process->director)) director_tick(process->director, now_us);
}

const sim_program scale_director_program = {"director", director_start, stop, director_next, director_ticks};

director *scale_director_of(const scale_seat *seat) {
    const process *process = sim_node_state(seat->node);
    return process == NULL ? NULL : process->director;
}

/* ---- A rank: a push to each of its slots, then a pull of each, then a pause. */

static void wait_for_next(process *process) {
    process->next_us = now_of(process) + rng_between(process->citizen.env->rng, PACE_US / 2, PACE_US * 3 / 2);
}

static void on_ready(void *context) {
    process *process = context;
    process->seat->ready = true;
    wait_for_next(process);
}

static void answered(process *process) {
    scale_seat *seat = process->seat;
    if (--process->missing != 0) return;
    int64_t took_us = now_of(process) - process->began_us;
    if (took_us > seat->waited_us) seat->waited_us = took_us;
    wait_for_next(process);
}

static void on_pushed(void *context, uint32_t slot, uint64_t name, part_status status) {
    process *process = context;
    for (size_t i = 0; i < SCALE_TOUCHES; i++)
        if (process->seat->touches[i] == slot) process->seat->acknowledged[i] = name;
    rank_pull(process->rank, slot, 0, (span){0}, NULL);
    rank_flush(process->rank);
}

static void on_pulled(void *context, uint32_t slot, uint64_t version, uint64_t lsn, span values) { answered(context); }

static void step(process *process) {
    process->step++;
    process->missing = SCALE_TOUCHES;
    process->began_us = now_of(process);
    process->next_us = CLOCK_NEVER_US;
    double change[FLOAT_MACHINE_WIDTH] = {(double)process->step, process->seat->id, 1};
    for (size_t i = 0; i < SCALE_TOUCHES; i++) {
        mr_status status = rank_push_pieces(process->rank, process->seat->touches[i], name_of(process->step, 1),
                                            span_of(change, sizeof change), NULL, (bale_piece){0});
        MR_ASSERT(status == MR_OK);
    }
    rank_flush(process->rank);
}

/* Each plays the rank of its number, and none of them dies. */
static void on_begin(void *context, uint32_t rank, uint64_t stint) {
    process *process = context;
    scale_seat *seat = process->seat;
    MR_ASSERT(rank == seat->id && process->rank == NULL);
    rank_options options = {.rank = rank,
                            .address = sim_node_name(seat->node),
                            .director = "director",
                            .touches = seat->touches,
                            .touch_count = SCALE_TOUCHES,
                            .send = send_bytes,
                            .on_ready = on_ready,
                            .on_pushed = on_pushed,
                            .on_pulled = on_pulled,
                            .context = process,
                            .atlas = seat->atlas};
    process->rank = rank_create(&options);
    rank_begin(process->rank, stint, now_of(process));
}

static void on_end(void *context, uint32_t rank) { MR_ASSERT(false); }

static void *worker_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument, false);
    scale_seat *seat = process->seat;
    for (uint32_t i = 0; i < SCALE_TOUCHES; i++) /* one of each part of the table: never the same twice */
        seat->touches[i] = (uint32_t)((mix2(seat->id, i) % (seat->size->slots / SCALE_TOUCHES)) * SCALE_TOUCHES + i);
    player_options options = {.worker = seat->id,
                              .address = sim_node_name(node),
                              .director = "director",
                              .send = send_bytes,
                              .on_begin = on_begin,
                              .on_end = on_end,
                              .context = process,
                              .atlas = seat->atlas};
    process->player = player_create(&options);
    player_begin(process->player, ++*seat->incarnations, now_of(process));
    return process;
}

static int64_t worker_next(void *state) {
    process *process = state;
    int64_t next_us = earlier(player_next_us(process->player), process->next_us);
    return process->rank == NULL ? next_us : earlier(next_us, rank_next_us(process->rank));
}

static void worker_ticks(void *state, int64_t now_us) {
    process *process = state;
    if (now_us >= process->next_us) step(process);
    if (now_us >= player_next_us(process->player)) player_tick(process->player, now_us);
    if (process->rank != NULL && now_us >= rank_next_us(process->rank)) rank_tick(process->rank, now_us);
}

const sim_program scale_worker_program = {"worker", worker_start, stop, worker_next, worker_ticks};

const rank *scale_rank_of(const scale_seat *seat) {
    const process *process = sim_node_state(seat->node);
    return process == NULL ? NULL : process->rank;
}
