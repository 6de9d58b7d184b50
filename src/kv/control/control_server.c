/* control_server.c — see control_server.h. Tested by tests/ps_barrier_test.c. */
#include "kv/control/control_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kv/control/barrier_client.h"
#include "kv/control/barrier_server.h"
#include "kv/control/control_wire.h"

enum { WAITERS_MAX = 4096 };

typedef struct waiter { /* a process at a barrier, with its last message */
    uint32_t rank;
    link_id link;
    barrier_client_word word;
} waiter;

struct control_server {
    control_server_options options;
    process_table table;
    table_stats_list list;
    barrier_server server;
    app_rpc *rpc;
    process_state self;
    waiter *waiters; /* owned */
    size_t waiter_count, waiter_room;
    int64_t stand_us; /* time at which the scheduler records its own state next */
};

static const cluster_map *map_of(const control_server *server) { return controller_map(server->options.controller); }
static int64_t now_of(const control_server *server) { return van_now_us(server->options.van); }

/* ---- Barriers. */

/* Reads opened rounds from the metadata store. None if they are for another number of ranks, or malformed. */
static void recall(control_server *server) {
    const control_server_options *options = &server->options;
    span value = metadata_db_value(options->db, BARRIER_SERVER_KEY);
    barrier_server_fini(&server->server);
    barrier_server_init(&server->server, options->rank_count, options->rounds);
    if (value.size != 0 && barrier_server_decode(value, &server->server) != MR_OK) log_error("%s", mr_last_error());
}

static mr_status write_down(control_server *server) {
    uint64_t version;
    span before, key = span_of(BARRIER_SERVER_KEY, strlen(BARRIER_SERVER_KEY));
    size_t size = barrier_server_size(&server->server);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    barrier_server_encode(&server->server, &writer);
    metadata_db_get(server->options.db, key, &version, &before);
    mr_status status = metadata_db_swap(server->options.db, key, version, span_of(bytes, size), 0);
    free(bytes);
    return status;
}

static void pass(control_server *server, const waiter *waiter, const barrier_client_verdict *verdict) {
    uint8_t bytes[BARRIER_CLIENT_VERDICT_MAX];
    van_answer_value(server->options.van, waiter->link, CONTROL_PASS,
                     (stamp){.view = map_of(server)->number, .id = waiter->word.token},
                     span_of(bytes, barrier_client_verdict_encode(verdict, bytes)));
}

static bool is_full(const cluster_map *map) {
    if (map->number == 0) return false;
    for (uint32_t i = 0; i < map->slot_count; i++)
        if (map->slots[i].count < map->copies) return false;
    return true;
}

static barrier_client_verdict servers_verdict(const control_server *server) {
    barrier_client_verdict verdict = {.status = MR_OK, .role = MR_PS_SERVERS};
    uint32_t here = process_table_servers_here(&server->table, now_of(server));
    for (uint32_t i = 0; here < server->options.server_count && i < server->options.server_count; i++) {
        const process_table_row *row = process_table_find(&server->table, MR_PS_SERVERS, i);
        if (row != NULL && process_table_is_here(row, now_of(server))) continue;
        if (verdict.named < BARRIER_CLIENT_NAMED) verdict.numbers[verdict.named++] = i;
        verdict.missing++;
    }
    if (here < server->options.server_count || !is_full(map_of(server))) verdict.status = MR_BUSY;
    return verdict;
}

static barrier_client_verdict ranks_verdict(control_server *server, const waiter *waiter, bool *opens) {
    const barrier_client_word *word = &waiter->word;
    barrier_client_verdict verdict = {.role = MR_PS_WORKERS};
    verdict.status = barrier_server_come(&server->server, waiter->rank, word->name, word->early, word->place, opens);
    if (verdict.status != MR_BUSY) return verdict;
    size_t count =
        barrier_server_missing(&server->server, word->name, word->early, verdict.numbers, BARRIER_CLIENT_NAMED);
    verdict.missing = (uint32_t)count;
    verdict.named = count < BARRIER_CLIENT_NAMED ? (uint32_t)count : BARRIER_CLIENT_NAMED;
    return verdict;
}

/* Status of an arrived rank; *opens: a round opens that is not durable yet. */
static barrier_client_verdict judge(control_server *server, const waiter *waiter, bool *opens) {
    barrier_client_verdict verdict = {.status = MR_OK, .role = MR_PS_WORKERS};
    *opens = false;
    if ((waiter->word.group & MR_PS_WORKERS) != 0) verdict = ranks_verdict(server, waiter, opens);
    if (verdict.status == MR_OK && (waiter->word.group & MR_PS_SERVERS) != 0) verdict = servers_verdict(server);
    return verdict;
}

/* Evaluates all waiting ranks after a change, and informs those that may continue. */
static void release(control_server *server) {
    for (size_t i = server->waiter_count; i-- > 0;) {
        bool opens;
        waiter waiter = server->waiters[i];
        barrier_client_verdict verdict = judge(server, &waiter, &opens);
        if (verdict.status != MR_OK || opens) continue;
        pass(server, &waiter, &verdict);
        server->waiters[i] = server->waiters[--server->waiter_count];
    }
}

static void remember_waiter(control_server *server, const waiter *waiter) {
    size_t at = 0;
    while (at < server->waiter_count &&
           (server->waiters[at].rank != waiter->rank || strcmp(server->waiters[at].word.name, waiter->word.name) != 0))
        at++;
    if (at == WAITERS_MAX) return; /* list full: the rank repeats its message */
    xgrow(&server->waiters, &server->waiter_room, at + 1, sizeof *server->waiters);
    server->waiters[at] = *waiter;
    if (at == server->waiter_count) server->waiter_count++;
}

static void take_come(control_server *server, link_id link, const control_message *message) {
    waiter waiter = {.rank = (uint32_t)message->stamp.id, .link = link};
    const cluster_map *map = map_of(server);
    bool opens;
    if (barrier_client_word_decode(message->value, &waiter.word) != MR_OK ||
        message->stamp.id >= server->options.rank_count)
        return;
    /* this scheduler's cluster map is older, or of another generation */
    if (map->number < message->stamp.view || map->generation != waiter.word.generation) return;
    barrier_server_begin(&server->server, map->generation);
    barrier_server_resume(&server->server, waiter.rank, waiter.word.generation, waiter.word.first);
    barrier_client_verdict verdict = judge(server, &waiter, &opens);
    if (opens && write_down(server) != MR_OK) {
        log_error("cannot store that barrier '%s' opened: %s", waiter.word.name, mr_last_error());
        recall(server);
        return;
    }
    pass(server, &waiter, &verdict);
    if (verdict.status == MR_BUSY) remember_waiter(server, &waiter);
    if (opens) release(server);
}

/* ---- The process table. */

static void take_table_stats(control_server *server, const control_message *message) {
    table_stats stats;
    if (message->stamp.id >= CLUSTER_MAP_SERVERS_MAX || table_stats_decode(message->value, &stats) != MR_OK) return;
    table_stats_take(&server->list, (uint32_t)message->stamp.id, message->stamp.incarnation, &stats);
    table_stats_fini(&stats);
}

static void tell_stall(control_server *server, link_id link, const control_message *here) {
    const char *text = server->options.stall;
    if (text[0] != '\0')
        van_answer_value(server->options.van, link, CONTROL_AWAIT,
                         (stamp){.view = *server->options.stall_map, .id = here->stamp.id},
                         span_of(text, strlen(text)));
}

static void take_here(control_server *server, link_id link, const control_message *message) {
    process_state state;
    const cluster_map *map = map_of(server);
    if (process_state_decode(message->value, &state) != MR_OK || message->stamp.id > UINT32_MAX) return;
    if (message->stamp.incarnation == 0) return;
    if (state.role == MR_PS_WORKERS ? message->stamp.id >= CLUSTER_MAP_RANKS_MAX
                                    : message->stamp.id >= CLUSTER_MAP_SERVERS_MAX)
        return;
    if (state.role == MR_PS_SCHEDULER) return; /* only this process is a scheduler */
    state.number = (uint32_t)message->stamp.id;
    state.incarnation = message->stamp.incarnation;
    state.map = message->stamp.view;
    process_table_take(&server->table, &state, now_of(server));
    if (state.role != MR_PS_SERVERS) tell_stall(server, link, message);
    if (state.role != MR_PS_WORKERS || !state.ready || map->number == 0) return;
    barrier_server_begin(&server->server, map->generation);
    barrier_server_resume(&server->server, state.number, state.generation, state.first);
}

static void show_page(control_server *server, link_id link, const control_message *question) {
    size_t size, from = question->stamp.view < SIZE_MAX ? (size_t)question->stamp.view : SIZE_MAX;
    uint8_t *page = process_table_page(&server->table, from, now_of(server), &size);
    van_answer_value(server->options.van, link, CONTROL_PROCESS_TABLE, question->stamp, span_of(page, size));
    free(page);
}

static void show_list(control_server *server, link_id link, const control_message *question) {
    size_t size;
    uint8_t role = question->stamp.view <= MR_PS_READERS ? (uint8_t)question->stamp.view : 0;
    uint32_t number = question->stamp.id <= UINT32_MAX ? (uint32_t)question->stamp.id : 0;
    uint8_t *list = process_table_list(&server->table, role, number, now_of(server), &size);
    van_answer_value(server->options.van, link, CONTROL_THOSE, question->stamp, span_of(list, size));
    free(list);
}

/* ---- Interface to the scheduler. */

bool control_server_take(control_server *server, link_id link, const control_message *message) {
    switch (message->kind) {
    case CONTROL_HERE: take_here(server, link, message); return true;
    case CONTROL_TABLE_STATS: take_table_stats(server, message); return true;
    case CONTROL_COME: take_come(server, link, message); return true;
    case CONTROL_PEEK: show_page(server, link, message); return true;
    case CONTROL_WHO: show_list(server, link, message); return true;
    default: break;
    }
    server->self.map = map_of(server)->number;
    if (!app_rpc_take(server->rpc, message, now_of(server))) return false;
    app_rpc_call_handlers(server->rpc);
    return true;
}

void control_server_broken(control_server *server, const char *address) {
    process_table_broken(&server->table, address, now_of(server));
}

int64_t control_server_next_us(const control_server *server) {
    return clock_earlier_us(server->stand_us, app_rpc_next_us(server->rpc));
}

/* Server states change without messages to this module, so ranks that wait for servers are checked periodically. */
void control_server_tick(control_server *server, int64_t now_us) {
    if (now_us >= app_rpc_next_us(server->rpc)) app_rpc_tick(server->rpc, now_us);
    if (now_us < server->stand_us) return;
    server->stand_us = now_us + PROCESS_STATE_US;
    server->self.map = map_of(server)->number;
    process_table_take(&server->table, &server->self, now_us);
    release(server);
}

control_server *control_server_create(const control_server_options *options) {
    control_server *server = xcalloc(1, sizeof *server);
    server->options = *options;
    server->self.role = MR_PS_SCHEDULER;
    server->self.incarnation =
        (uint64_t)now_of(server) << 16 | (rng_next(van_env(options->van)->rng) & 0xffff); /* grows with each start */
    snprintf(server->self.address, sizeof server->self.address, "%s", van_address(options->van));
    barrier_server_init(&server->server, options->rank_count, options->rounds);
    recall(server);
    server->rpc =
        app_rpc_create(&(process_sender){server->self.address, &server->self, van_send_message, options->van});
    app_rpc_begin(server->rpc, now_of(server));
    server->stand_us = now_of(server);
    return server;
}

void control_server_destroy(control_server *server) {
    if (server == NULL) return;
    app_rpc_destroy(server->rpc);
    barrier_server_fini(&server->server);
    process_table_fini(&server->table);
    table_stats_list_fini(&server->list);
    free(server->waiters);
    free(server);
}

app_rpc *control_server_notes(control_server *server) { return server->rpc; }
const process_table *control_server_process_table(const control_server *server) { return &server->table; }
const table_stats_list *control_server_table_stats(const control_server *server) { return &server->list; }
