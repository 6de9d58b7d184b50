/* sim_store.c — see sim_store.h. It does the work of runtime/node/node_store. */
#include "sim/runtime/sim_store.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/map.h"
#include "net/shm/extent_allocator.h"
#include "runtime/refs/wire.h"
#include "store/store_rpc_server.h"

enum { OFTEN_US = 300, OFTEN_UNTIL_US = 40 * 1000 };

typedef struct store_peer { /* a process that has a store client */
    link_id link;
    bool again; /* a message to check its store is due, but found no room */
} store_peer;

struct runtime_store_server {
    sim_node *node;
    rpc *rpc;
    extent_allocator *allocator;
    store_server *server;
    store_rpc_server *store_rpc_server;
    map store_peers; /* by process; owned */
    bool ticking;
};

/* ---- Operations of the store server. */

static mr_status extent_alloc(void *context, uint64_t size, extent *out) {
    return extent_allocator_alloc(((runtime_store_server *)context)->allocator, size, out);
}

static void extent_free(void *context, extent extent) {
    extent_allocator_free(((runtime_store_server *)context)->allocator, extent);
}

static void nudge(void *context, uint64_t process) {
    runtime_store_server *self = context;
    store_peer *store_peer = map_get(&self->store_peers, process);
    if (store_peer != NULL)
        store_peer->again = wire_tell(self->rpc, store_peer->link, CLIENT_STORE, (span){0}) == MR_BUSY;
}

static const store_server_ops ops = {.extent_alloc = extent_alloc, .extent_free = extent_free, .nudge = nudge};

/* ---- Collections: at the interval of a real store server, and at first far more often, to provoke races. */

static void look(void *context, uint64_t unused) {
    runtime_store_server *self = context;
    int64_t now_us = sim_node_now_us(self->node), next_us = store_server_tick(self->server, now_us);
    self->ticking = next_us != CLOCK_NEVER_US;
    if (self->ticking) sim_node_after(self->node, next_us > now_us ? next_us - now_us : 1, look, self, 0);
}

static void look_soon(runtime_store_server *self) {
    if (self->ticking) return;
    self->ticking = true;
    sim_node_after(self->node, STORE_SERVER_COLLECT_US, look, self, 0);
}

static void look_often(void *context, uint64_t unused) {
    runtime_store_server *self = context;
    sim *sim = sim_node_sim(self->node);
    store_server_collect(self->server);
    if (sim_now_us(sim) < OFTEN_UNTIL_US)
        sim_node_after(self->node, rng_between(sim_rng(sim), 1, OFTEN_US), look_often, self, 0);
}

/* ---- Requests. */

static mr_status on_request(void *context, uint64_t process, const rpc_call_request *request) {
    runtime_store_server *self = context;
    if (request->method != STORE_SERVER_METHOD) return error_set(MR_INVALID, "the node does not know this method");
    if (map_get(&self->store_peers, process) == NULL) {
        store_peer *store_peer = xcalloc(1, sizeof *store_peer);
        store_peer->link = request->token.link;
        map_put(&self->store_peers, process, store_peer);
    }
    look_soon(self);
    store_rpc_server_request(self->store_rpc_server, process, request, sim_node_now_us(self->node));
    return MR_OK;
}

static void on_room(void *context) {
    runtime_store_server *self = context;
    map_entry found;
    store_rpc_server_room(self->store_rpc_server);
    for (size_t at = 0; (at = map_next(&self->store_peers, at, &found)) != 0;)
        if (((const store_peer *)found.value)->again) nudge(self, found.key);
}

static void on_gone(void *context, uint64_t process) {
    runtime_store_server *self = context;
    store_peer *store_peer = map_remove(&self->store_peers, process);
    if (store_peer == NULL) return;
    free(store_peer);
    store_server_leave(self->server, process);
    look_soon(self);
}

static mr_status keep(void *context, const object_ref *ref) {
    return store_server_keep(((runtime_store_server *)context)->server, ref);
}

static void let_go(void *context, const object_ref *ref) {
    runtime_store_server *self = context;
    store_server_let_go(self->server, ref);
    look_soon(self);
}

static const node_extension_ops extension_ops = {on_request, on_room, on_gone, keep, let_go};

/* ---- Creating and destroying. */

runtime_store_server *runtime_store_server_open(sim_node *node, node_core *core, const arena *arena) {
    runtime_store_server *self = xcalloc(1, sizeof *self);
    *self = (runtime_store_server){.node = node, .rpc = node_manager_calls(core)};
    self->allocator = extent_allocator_create(ARENA_EXTENTS_OFFSET, arena->size);
    self->server = store_server_open(arena, &ops, self, NULL);
    self->store_rpc_server = store_rpc_server_create(self->server, self->rpc);
    node_manager_extension(core, &extension_ops, self);
    sim_node_after(node, OFTEN_US, look_often, self, 0);
    return self;
}

void runtime_store_server_close(runtime_store_server *self) {
    if (self == NULL) return;
    store_server_close(self->server);
    store_rpc_server_destroy(self->store_rpc_server);
    extent_allocator_destroy(self->allocator);
    map_entry found;
    for (size_t at = 0; (at = map_next(&self->store_peers, at, &found)) != 0;) free(found.value);
    map_fini(&self->store_peers);
    free(self);
}

store_server_stats runtime_store_server_look(runtime_store_server *self) {
    store_server_collect(self->server);
    return store_server_stats_now(self->server);
}
