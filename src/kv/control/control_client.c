/* control_client.c — see control_client.h. Tested by tests/ps_barrier_test.c. */
#include "kv/control/control_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "kv/control/control_wire.h"

#define AWAITS_US INT64_C(3000000) /* age at which a reported stall expires */

struct control_client {
    van *van;
    const char *scheduler;
    control_client_host host;
    process_state state;
    barrier_clients *clients;
    app_rpc *rpc;
    int64_t say_us;      /* time of the next process state */
    int64_t count_us;    /* time of the next table sizes */
    uint32_t count_from; /* id with which they begin */
    int64_t awaits_us;   /* time of the last stall report; 0: none */
    uint64_t awaits_map; /* the scheduler's cluster map at that report; a newer map ends the stall */
    char stall[ERROR_TEXT_MAX];
};

control_client *control_client_create(van *van, uint8_t role, const char *scheduler, const control_client_host *host) {
    control_client *client = xcalloc(1, sizeof *client);
    client->van = van;
    client->scheduler = scheduler;
    client->host = *host;
    client->state.role = role;
    snprintf(client->state.address, sizeof client->state.address, "%s", van_address(van));
    const process_sender self = {scheduler, &client->state, van_send_message, van};
    client->clients = barrier_clients_create(&self, rng_next(van_env(van)->rng));
    client->rpc = app_rpc_create(&self);
    client->say_us = client->count_us = CLOCK_NEVER_US;
    return client;
}

void control_client_destroy(control_client *client) {
    if (client == NULL) return;
    barrier_clients_destroy(client->clients);
    app_rpc_destroy(client->rpc);
    free(client);
}

void control_client_refresh(control_client *client) { client->host.describe(client->host.context, &client->state); }

void control_client_begin(control_client *client, uint32_t number, uint64_t incarnation) {
    int64_t now_us = van_now_us(client->van);
    client->state.number = number;
    client->state.incarnation = incarnation;
    client->say_us = now_us;
    if (client->host.count != NULL) client->count_us = now_us;
    app_rpc_begin(client->rpc, now_us);
}

app_rpc *control_client_notes(control_client *client) { return client->rpc; }

mr_status control_client_come(control_client *client, const char *name, uint8_t group, barrier_clients_where where) {
    return barrier_clients_come(client->clients, name, group, where, van_now_us(client->van));
}

mr_status control_client_passed(control_client *client, const char *name) {
    control_client_refresh(client);
    return barrier_clients_passed(client->clients, name);
}

void control_client_restart(control_client *client) {
    barrier_clients_restart(client->clients);
    if (client->say_us != CLOCK_NEVER_US) client->say_us = van_now_us(client->van);
}

/* The scheduler repeats the report with every process state while the stall lasts. */
const char *control_client_stall(control_client *client) {
    bool lately = client->awaits_us != 0 && van_now_us(client->van) - client->awaits_us < AWAITS_US;
    control_client_refresh(client);
    return lately && client->awaits_map >= client->state.map ? client->stall : "";
}

static void take_await(control_client *client, const control_message *message) {
    span text = message->value;
    snprintf(client->stall, sizeof client->stall, "%.*s", (int)text.size, (const char *)text.data);
    client->awaits_us = van_now_us(client->van);
    client->awaits_map = message->stamp.view;
}

bool control_client_take(control_client *client, const control_message *message) {
    if (message->kind == CONTROL_AWAIT) return take_await(client, message), true;
    control_client_refresh(client);
    return barrier_clients_take(client->clients, message) ||
           app_rpc_take(client->rpc, message, van_now_us(client->van));
}

int64_t control_client_next_us(const control_client *client) {
    int64_t next_us = clock_earlier_us(barrier_clients_next_us(client->clients), app_rpc_next_us(client->rpc));
    next_us = clock_earlier_us(next_us, client->count_us);
    return client->say_us == CLOCK_NEVER_US ? CLOCK_NEVER_US : clock_earlier_us(next_us, client->say_us);
}

static void say(control_client *client, int64_t now_us) {
    uint8_t bytes[PROCESS_STATE_SIZE_MAX];
    const process_state *self = &client->state;
    van_send_value(client->van, client->scheduler, CONTROL_HERE, (stamp){self->map, self->number, self->incarnation},
                   span_of(bytes, process_state_encode(self, bytes)));
    client->say_us = now_us + PROCESS_STATE_US;
}

static void count(control_client *client, int64_t now_us) {
    uint8_t *bytes = xmalloc(TABLE_STATS_SIZE_MAX);
    table_stats stats = {.from = client->count_from};
    uint64_t map = client->host.count(client->host.context, &stats);
    table_stats_finish(&stats);
    van_send_value(client->van, client->scheduler, CONTROL_TABLE_STATS,
                   (stamp){map, client->state.number, client->state.incarnation},
                   span_of(bytes, table_stats_encode(&stats, bytes)));
    client->count_us = now_us + TABLE_STATS_US;
    client->count_from = stats.to == UINT32_MAX ? 0 : stats.to;
    table_stats_fini(&stats);
    free(bytes);
}

void control_client_tick(control_client *client, int64_t now_us) {
    if (client->say_us == CLOCK_NEVER_US) return;
    control_client_refresh(client);
    if (now_us >= client->say_us) say(client, now_us);
    if (now_us >= client->count_us) count(client, now_us);
    if (now_us >= barrier_clients_next_us(client->clients)) barrier_clients_tick(client->clients, now_us);
    if (now_us >= app_rpc_next_us(client->rpc)) app_rpc_tick(client->rpc, now_us);
}
