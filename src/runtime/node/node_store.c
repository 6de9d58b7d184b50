/* node_store.c — see node_store.h. Tested by tests/runtime_store_test.c. */
#include "runtime/node/node_store.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/map.h"
#include "runtime/refs/wire.h"
#include "store/spill_file.h"
#include "store/store_rpc_server.h"

typedef struct client { /* a process that uses the store */
    link_id link;
    bool nudged, again; /* CLIENT_STORE is unanswered; another CLIENT_STORE is due */
} client;

struct node_store {
    event_loop *loop;
    broker *broker;
    rpc *rpc;
    store_server *server;
    store_rpc_server *store_rpc_server;
    spill_file *spill; /* NULL: nothing is spilled */
    event_loop_watch *spilled;
    event_loop_timer *timer;
    map clients; /* process → record of a store client */
};

/* ---- Operations for the store server. */

static mr_status extent_alloc(void *context, uint64_t size, extent *out) {
    return broker_extent_alloc(((node_store *)context)->broker, size, out);
}
static mr_status extent_take(void *context, extent wanted) {
    return broker_extent_take(((node_store *)context)->broker, wanted);
}
static void extent_free(void *context, extent extent) { broker_extent_free(((node_store *)context)->broker, extent); }
static mr_status save(void *context, uint64_t ticket, const void *data, uint64_t size) {
    return spill_file_save(((node_store *)context)->spill, ticket, data, size);
}
static mr_status load(void *context, uint64_t ticket, uint64_t file, void *data, uint64_t size) {
    return spill_file_load(((node_store *)context)->spill, ticket, file, data, size);
}
static void forget(void *context, uint64_t file) { spill_file_forget(((node_store *)context)->spill, file); }

typedef struct nudge_call {
    wire_call call;
    node_store *store;
    uint64_t process;
} nudge_call;

static void ask_to_look(void *context, uint64_t process);

static void nudge_done(wire_call *call, const rpc_call_result *result) {
    nudge_call *nudge = container_of(call, nudge_call, call);
    client *client = map_get(&nudge->store->clients, nudge->process);
    node_store *store = nudge->store;
    uint64_t process = nudge->process;
    wire_call_end(call);
    if (client == NULL || result->why != NULL) return;
    bool again = client->again;
    client->nudged = client->again = false;
    if (again) ask_to_look(store, process);
}

/* Asks a process to check its store page. One CLIENT_STORE is pending at a time; a process that does not answer keeps
 * its memory. */
static void ask_to_look(void *context, uint64_t process) {
    node_store *store = context;
    client *client = map_get(&store->clients, process);
    if (client != NULL && client->nudged) client->again = true;
    if (client == NULL || client->nudged) return;
    nudge_call *nudge =
        XNEW(nudge_call, .call = {.done = nudge_done, .free = wire_call_free}, .store = store, .process = process);
    mr_status status = wire_ask(store->rpc, client->link, CLIENT_STORE, &(wire_message){0}, &nudge->call);
    client->nudged = status == MR_OK;
    client->again = status == MR_BUSY; /* sent when the link has room */
    if (status != MR_OK) free(nudge);
}

static const store_server_ops plain_ops = {
    .extent_alloc = extent_alloc, .extent_take = extent_take, .extent_free = extent_free, .nudge = ask_to_look};
static const store_server_ops spilling_ops = {.extent_alloc = extent_alloc,
                                              .extent_take = extent_take,
                                              .extent_free = extent_free,
                                              .save = save,
                                              .load = load,
                                              .forget = forget,
                                              .nudge = ask_to_look};

/* ---- Timer. */

static void look(void *context) {
    node_store *store = context;
    int64_t now_us = event_loop_now_us(store->loop), next_us = store_server_tick(store->server, now_us);
    event_loop_timer_set(store->timer, next_us == CLOCK_NEVER_US ? -1 : next_us > now_us ? next_us - now_us : 0);
}

static void on_spilled(void *context) {
    node_store *store = context;
    spill_file_poll(store->spill, store->server, event_loop_now_us(store->loop));
}

/* ---- Requests. */

static void meet(node_store *store, uint64_t process, link_id link) {
    if (map_get(&store->clients, process) != NULL) return;
    client *client = XNEW(struct client, .link = link);
    map_put(&store->clients, process, client);
    event_loop_timer_set(store->timer, STORE_SERVER_COLLECT_US);
}

static mr_status tell_stats(node_store *store, rpc_call_token token) {
    store_server_collect(store->server);
    store_server_stats now = store_server_stats_now(store->server);
    node_store_stats stats = {.processes = now.processes,
                              .objects = now.objects,
                              .moving = now.moving,
                              .bytes = now.bytes,
                              .spilled_bytes = now.spilled_bytes,
                              .spilled = now.spilled,
                              .restored = now.restored};
    return wire_answer(store->rpc, token, span_of(&stats, sizeof stats));
}

static mr_status on_request(void *self, uint64_t process, const rpc_call_request *request) {
    node_store *store = self;
    if (request->method == NODE_STORE) return tell_stats(store, request->token);
    if (request->method != STORE_SERVER_METHOD)
        return error_set(MR_INVALID, "unknown request %u to the object store from process p%u", request->method,
                         (unsigned)process);
    meet(store, process, request->token.link);
    store_rpc_server_request(store->store_rpc_server, process, request, event_loop_now_us(store->loop));
    return MR_OK;
}

static void on_room(void *self) {
    node_store *store = self;
    store_rpc_server_room(store->store_rpc_server);
    map_for_each (found, &store->clients) {
        const client *client = found.value;
        if (client->again && !client->nudged) ask_to_look(store, found.key);
    }
}

static void on_gone(void *self, uint64_t process) {
    node_store *store = self;
    client *client = map_remove(&store->clients, process);
    if (client == NULL) return;
    free(client);
    store_server_leave(store->server, process);
    event_loop_timer_set(store->timer, 0);
}

static mr_status keep(void *self, const object_ref *ref) {
    return store_server_keep(((node_store *)self)->server, ref);
}

static void let_go(void *self, const object_ref *ref) {
    node_store *store = self;
    store_server_let_go(store->server, ref);
    event_loop_timer_set(store->timer, 0);
}

static const node_extension_ops extension_ops = {on_request, on_room, on_gone, keep, let_go};

store_server *node_store_server(node_store *store) { return store->server; }

/* ---- Opening and closing. */

static void open_spill(node_store *store, const node_store_options *options) {
    if (options->spill_folder == NULL || options->spill_folder[0] == '\0') return;
    if (spill_file_open(options->spill_folder, options->spill_bytes_max, &store->spill) != MR_OK) {
        log_warn("objects cannot be spilled to disk: %s; set spill_dir to another directory", mr_last_error());
        return;
    }
    if (event_loop_watch_add(store->loop, spill_file_fd(store->spill), on_spilled, store, &store->spilled) == MR_OK)
        return;
    log_warn("objects cannot be spilled to disk: %s", mr_last_error());
    spill_file_close(store->spill);
    store->spill = NULL;
}

node_store *node_store_open(event_loop *loop, broker *broker, node_core *core, const node_store_options *options) {
    node_store *store = XNEW(node_store, .loop = loop, .broker = broker, .rpc = node_manager_calls(core));
    open_spill(store, options);
    store->server = store_server_open(broker_arena(broker), store->spill != NULL ? &spilling_ops : &plain_ops, store,
                                      &(store_server_options){.spill_bytes_max = options->spill_bytes_max});
    store->store_rpc_server = store_rpc_server_create(store->server, store->rpc);
    store->timer = event_loop_timer_create(loop, look, store);
    node_manager_extension(core, &extension_ops, store);
    return store;
}

void node_store_close(node_store *store) {
    if (store == NULL) return;
    if (store->spilled != NULL) event_loop_watch_remove(store->spilled);
    event_loop_timer_destroy(store->timer);
    spill_file_close(store->spill);
    store_server_close(store->server);
    store_rpc_server_destroy(store->store_rpc_server);
    map_for_each (found, &store->clients) free(found.value);
    map_fini(&store->clients);
    free(store);
}
