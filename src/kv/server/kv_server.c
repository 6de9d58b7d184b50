/* kv_server.c — see kv_server.h. Tested by tests/ps_server_test.c. */
#include "kv/server/kv_server.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "kv/codec/compress.h"
#include "kv/control/drain.h"
#include "kv/engine/memory_budget.h"

enum { RATES_TABLES_MAX = 1000 };

struct kv_server {
    kv_process *process;
    slot_server *server; /* NULL: the process has no number yet */
    memory_budget budget;
    engine_host host; /* host of the engines */
    remote_values_map_view map_view;
    drain drain;
    uint32_t compressors; /* compressor_available */
    map rates;            /* ids of tables for which the warning about learning rates was given */
    bool deposed;         /* another process has this number now */
    char *rejected;       /* owned: why the scheduler does not admit this server; NULL: it does */
};

static const shm_import *see(void *context, uint64_t process) {
    kv_server *self = context;
    return van_map_view(kv_process_van(self->process), process);
}

/* Warns once for each table, about the first RATES_TABLES_MAX of them. */
static void on_rates(void *context, uint32_t table, float applies, float other) {
    kv_server *self = context;
    if (self->rates.count == RATES_TABLES_MAX || map_put(&self->rates, table, self) != NULL) return;
    log_warn("table %u: the ranks of a step push with different learning rates, %g and %g; that of the lowest rank, "
             "%g, applies. Push with the same lr on every rank. This is the only warning about table %u",
             table, (double)applies, (double)other, (double)applies, table);
}

static void send_bytes(void *context, const char *address, span bytes) {
    kv_server *server = context;
    van_send(kv_process_van(server->process), address, bytes);
}

static void send_pieces(void *context, const char *address, const shared_bytes_piece *pieces, size_t count) {
    kv_server *server = context;
    van_send_pieces(kv_process_van(server->process), address, pieces, count);
}

static bool is_full(void *context) {
    kv_server *self = context;
    return memory_budget_is_full(&self->budget, van_looked_us(kv_process_van(self->process)));
}

static void on_replaced(void *context, uint64_t incarnation) {
    kv_process_acquire_again(((kv_server *)context)->process, incarnation);
}

static void on_deposed(void *context) {
    kv_server *self = context;
    self->deposed = true;
    van_stop(kv_process_van(self->process));
}

static void on_rejected(void *context, span text) {
    kv_server *self = context;
    free(self->rejected);
    self->rejected = xcalloc(1, text.size + 1);
    memcpy(self->rejected, text.data, text.size);
    van_stop(kv_process_van(self->process));
}

static void on_here(void *context, uint64_t incarnation) {
    kv_server *self = context;
    van *van = kv_process_van(self->process);
    slot_server_options options = {.id = kv_process_number(self->process),
                                   .address = van_address(van),
                                   .controller = kv_process_scheduler(self->process),
                                   .checkpoints = kv_process_checkpoints(self->process),
                                   .values = &engine_ops,
                                   .values_context = &self->host,
                                   .ranks_bytes = memory_budget_of_ranks(&self->budget),
                                   .link_bytes = memory_budget_of_links(&self->budget),
                                   .is_full = is_full,
                                   .send = send_bytes,
                                   .send_pieces = send_pieces,
                                   .on_replaced = on_replaced,
                                   .on_deposed = on_deposed,
                                   .context = self};
    if (self->server == NULL) self->server = slot_server_create(&options);
    slot_server_begin(self->server, incarnation, van_now_us(van));
}

static void take(void *context, span batch, shared_bytes *bytes) {
    kv_server *self = context;
    if (self->server != NULL) slot_server_take_bytes(self->server, batch, bytes);
}

static int64_t next_us(void *context) {
    kv_server *self = context;
    if (self->server == NULL) return CLOCK_NEVER_US;
    int64_t next_us = slot_server_next_us(self->server);
    return self->drain.leaving && self->drain.next_us < next_us ? self->drain.next_us : next_us;
}

static void tick_drain(kv_server *self, int64_t now_us) {
    van *van = kv_process_van(self->process);
    uint32_t number = kv_process_number(self->process);
    uint64_t incarnation = slot_server_incarnation(self->server);
    if (now_us >= self->drain.next_us &&
        drain_tick(&self->drain, slot_server_map(self->server), number, incarnation, now_us))
        van_send_value(van, kv_process_scheduler(self->process), CONTROL_LEAVE,
                       (stamp){.id = number, .incarnation = incarnation}, (span){0});
    if (drain_is_over(&self->drain, now_us)) van_stop(van);
}

/* The link to the scheduler broke; a draining server ends, since the scheduler probably ends too. */
static void alone(void *context) {
    kv_server *self = context;
    if (self->drain.leaving) van_stop(kv_process_van(self->process));
}

static void take_message(void *context, const control_message *message) {
    kv_server *self = context;
    if (message->kind != CONTROL_LEFT) return;
    drain_take(&self->drain, message, van_now_us(kv_process_van(self->process)));
    if (self->drain.told_to_go) van_stop(kv_process_van(self->process));
}

static void tick(void *context, int64_t now_us) {
    kv_server *self = context;
    if (now_us >= slot_server_next_us(self->server)) slot_server_tick(self->server, now_us);
    if (self->drain.leaving) tick_drain(self, now_us);
}

/* Calls the handlers of received app messages in this thread. */
static void flush(void *context) {
    app_rpc_call_handlers(control_client_notes(kv_process_control(((kv_server *)context)->process)));
}

static void describe(void *context, process_state *state) {
    kv_server *self = context;
    state->memory = memory_budget_resident(&self->budget);
    state->memory_max = self->budget.bytes;
    state->compressors = self->compressors;
    if (self->server == NULL) return;
    const slot_server_work *work = slot_server_work_done(self->server);
    const cluster_map *map = slot_server_map(self->server);
    state->map = map->number;
    state->generation = map->generation;
    state->ready = 1;
    state->pushes = work->pushes;
    state->pulls = work->pulls;
    state->bytes_in = work->bytes_in;
    state->bytes_out = work->bytes_out;
    state->disputes = slot_server_disputes(self->server);
}

/* `looks` has room for TABLE_STATS_TABLES_MAX tables. */
static void count_slot(const replica *replica, engine_look *looks, table_stats *stats) {
    const void *values = replica == NULL ? NULL : replica_values(replica);
    size_t count = values == NULL ? 0 : engine_look_at(values, stats->from, looks, TABLE_STATS_TABLES_MAX);
    for (size_t i = 0; i < count; i++)
        table_stats_add(stats, (table_stats_item){.table = looks[i].table,
                                                  .keys = looks[i].now.keys,
                                                  .bytes = looks[i].now.bytes,
                                                  .left_out = looks[i].now.left_out});
    if (count == TABLE_STATS_TABLES_MAX) table_stats_limit(stats, looks[count - 1].table + 1);
}

/* Adds the table sizes of the slots whose head this server is. */
static uint64_t count(void *context, table_stats *stats) {
    kv_server *self = context;
    const cluster_map *map = slot_server_map(self->server);
    uint32_t number = kv_process_number(self->process);
    engine_look *looks = xmalloc(TABLE_STATS_TABLES_MAX * sizeof *looks);
    for (uint32_t i = 0; i < map->slot_count; i++) {
        const cluster_map_slot *slot = &map->slots[i];
        if (slot->count != 0 && slot->chain[0].server == number &&
            slot->chain[0].incarnation == slot_server_incarnation(self->server))
            count_slot(slot_server_replica(self->server, i), looks, stats);
    }
    free(looks);
    return map->number;
}

mr_status kv_server_open(const kv_process_options *options, uint64_t memory, kv_server **out) {
    static const kv_process_host host = {.on_here = on_here,
                                         .on_rejected = on_rejected,
                                         .take = take,
                                         .flush = flush,
                                         .next_us = next_us,
                                         .tick = tick,
                                         .describe = describe,
                                         .count = count,
                                         .alone = alone,
                                         .take_message = take_message};
    kv_server *server = xcalloc(1, sizeof *server);
    kv_process_options own = *options;
    memory_budget_init(&server->budget, memory);
    server->budget.shared = options->env != NULL;
    own.role = CONTROL_SERVER;
    own.compressors = server->compressors = compressor_available();
    own.shown = server->budget.bytes;
    mr_status status = kv_process_open(&own, &host, server, &server->process);
    if (status != MR_OK) {
        free(server);
        return status;
    }
    van *van = kv_process_van(server->process);
    server->map_view = (remote_values_map_view){see, server};
    server->host = (engine_host){.map_view = &server->map_view,
                                 .export = van_export(van),
                                 .process = van_process(van),
                                 .on_rates = on_rates,
                                 .context = server};
    *out = server;
    return MR_OK;
}

void kv_server_close(kv_server *server) {
    if (server == NULL) return;
    if (server->server != NULL) slot_server_destroy(server->server);
    server->server = NULL;
    kv_process_close(server->process);
    map_fini(&server->rates);
    free(server->rejected);
    free(server);
}

void kv_server_own(kv_server *server, const engine_host *host) {
    server->host.optimizers = host->optimizers;
    server->host.optimizer_count = host->optimizer_count;
}

void kv_server_leave(kv_server *server) {
    van *van = kv_process_van(server->process);
    if (server->drain.leaving || server->server == NULL)
        van_stop(van);
    else
        drain_begin(&server->drain, van_now_us(van));
}

kv_process *kv_server_kv_process(const kv_server *server) { return server->process; }
van *kv_server_van(const kv_server *server) { return kv_process_van(server->process); }
bool kv_server_is_deposed(const kv_server *server) { return server->deposed; }
const slot_server *kv_server_slots(const kv_server *server) { return server->server; }
const char *kv_server_rejection(const kv_server *server) { return server->rejected; }
