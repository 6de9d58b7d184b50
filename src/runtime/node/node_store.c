/* node_store.c — see node_store.h. Tested by tests/runtime_store_test.c. */
#include "runtime/node/node_store.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "runtime/wire.h"
#include "store/spill.h"
#include "store/vault_service.h"

typedef struct guest { /* a process that has a store */
    link_id link;
    bool nudged, again; /* it has been asked to look, and has not answered yet; and there is something new since */
} guest;

struct node_store {
    loop *loop;
    hub *hub;
    calls *calls;
    vault *vault;
    vault_service *service;
    spill *spill; /* NULL: nothing is spilled */
    loop_watch *spilled;
    loop_timer *timer;
    map guests; /* process → guest */
};

/* ---- What the vault needs of the world. */

static mr_status extent_alloc(void *context, uint64_t size, extent *out) {
    return hub_extent_alloc(((node_store *)context)->hub, size, out);
}
static mr_status extent_take(void *context, extent wanted) {
    return hub_extent_take(((node_store *)context)->hub, wanted);
}
static void extent_free(void *context, extent extent) { hub_extent_free(((node_store *)context)->hub, extent); }
static mr_status save(void *context, uint64_t ticket, const void *data, uint64_t size) {
    return spill_save(((node_store *)context)->spill, ticket, data, size);
}
static mr_status load(void *context, uint64_t ticket, uint64_t file, void *data, uint64_t size) {
    return spill_load(((node_store *)context)->spill, ticket, file, data, size);
}
static void forget(void *context, uint64_t file) { spill_forget(((node_store *)context)->spill, file); }

typedef struct nudge_call {
    wire_call call;
    node_store *store;
    uint64_t process;
} nudge_call;

static void ask_to_look(void *context, uint64_t process);

static void nudge_done(wire_call *call, const call_result *result) {
    nudge_call *nudge = container_of(call, nudge_call, call);
    guest *guest = map_get(&nudge->store->guests, nudge->process);
    node_store *store = nudge->store;
    uint64_t process = nudge->process;
    wire_call_end(call);
    if (guest == NULL || result->why != NULL) return;
    bool again = guest->again;
    guest->nudged = guest->again = false;
    if (again) ask_to_look(store, process);
}

/* A process that does not look for a while keeps what it has: it is asked once until it answers. */
static void ask_to_look(void *context, uint64_t process) {
    node_store *store = context;
    guest *guest = map_get(&store->guests, process);
    if (guest != NULL && guest->nudged) guest->again = true;
    if (guest == NULL || guest->nudged) return;
    nudge_call *nudge = xcalloc(1, sizeof *nudge);
    *nudge = (nudge_call){.call = {.done = nudge_done, .free = wire_call_free}, .store = store, .process = process};
    mr_status status = wire_ask(store->calls, guest->link, CLIENT_STORE, &(wire_message){0}, &nudge->call);
    guest->nudged = status == MR_OK;
    guest->again = status == MR_BUSY; /* then when there is room */
    if (status != MR_OK) free(nudge);
}

static const vault_ops plain_ops = {
    .extent_alloc = extent_alloc, .extent_take = extent_take, .extent_free = extent_free, .nudge = ask_to_look};
static const vault_ops spilling_ops = {.extent_alloc = extent_alloc,
                                       .extent_take = extent_take,
                                       .extent_free = extent_free,
                                       .save = save,
                                       .load = load,
                                       .forget = forget,
                                       .nudge = ask_to_look};

/* ---- When it looks. */

static void look(void *context) {
    node_store *store = context;
    int64_t now_us = loop_now_us(store->loop), next_us = vault_tick(store->vault, now_us);
    loop_timer_set(store->timer, next_us == CLOCK_NEVER_US ? -1 : next_us > now_us ? next_us - now_us : 0);
}

static void on_spilled(void *context) {
    node_store *store = context;
    spill_poll(store->spill, store->vault, loop_now_us(store->loop));
}

/* ---- Requests. */

static void meet(node_store *store, uint64_t process, link_id link) {
    if (map_get(&store->guests, process) != NULL) return;
    guest *guest = XNEW(struct guest, .link = link);
    map_put(&store->guests, process, guest);
    loop_timer_set(store->timer, VAULT_COLLECT_US);
}

static mr_status tell_stats(node_store *store, call_token token) {
    vault_collect(store->vault);
    vault_stats now = vault_stats_now(store->vault);
    node_store_stats stats = {.processes = now.processes,
                              .objects = now.objects,
                              .moving = now.moving,
                              .bytes = now.bytes,
                              .spilled_bytes = now.spilled_bytes,
                              .spilled = now.spilled,
                              .restored = now.restored};
    return wire_answer(store->calls, token, span_of(&stats, sizeof stats));
}

static mr_status on_request(void *self, uint64_t process, const call_request *request) {
    node_store *store = self;
    if (request->method == NODE_STORE) return tell_stats(store, request->token);
    if (request->method != VAULT_METHOD)
        return error_set(MR_INVALID, "unknown request %u to the object store from process p%u", request->method,
                         (unsigned)process);
    meet(store, process, request->token.link);
    vault_service_request(store->service, process, request, loop_now_us(store->loop));
    return MR_OK;
}

static void on_room(void *self) {
    node_store *store = self;
    vault_service_room(store->service);
    map_for_each (found, &store->guests) {
        const guest *guest = found.value;
        if (guest->again && !guest->nudged) ask_to_look(store, found.key);
    }
}

static void on_gone(void *self, uint64_t process) {
    node_store *store = self;
    guest *guest = map_remove(&store->guests, process);
    if (guest == NULL) return;
    free(guest);
    vault_leave(store->vault, process);
    loop_timer_set(store->timer, 0);
}

static mr_status keep(void *self, const object_ref *ref) { return vault_keep(((node_store *)self)->vault, ref); }

static void let_go(void *self, const object_ref *ref) {
    node_store *store = self;
    vault_let_go(store->vault, ref);
    loop_timer_set(store->timer, 0);
}

static const node_annex_ops annex_ops = {on_request, on_room, on_gone, keep, let_go};

vault *node_store_vault(node_store *store) { return store->vault; }

/* ---- Life. */

static void open_spill(node_store *store, const node_store_options *options) {
    if (options->spill_folder == NULL || options->spill_folder[0] == '\0') return;
    if (spill_open(options->spill_folder, options->spill_bytes_max, &store->spill) != MR_OK) {
        log_warn("objects cannot be spilled to disk: %s; set spill_dir to another directory", mr_last_error());
        return;
    }
    if (loop_watch_add(store->loop, spill_fd(store->spill), on_spilled, store, &store->spilled) == MR_OK) return;
    log_warn("objects cannot be spilled to disk: %s", mr_last_error());
    spill_close(store->spill);
    store->spill = NULL;
}

node_store *node_store_open(loop *loop, hub *hub, node_core *core, const node_store_options *options) {
    node_store *store = XNEW(node_store, .loop = loop, .hub = hub, .calls = node_core_calls(core));
    open_spill(store, options);
    store->vault = vault_open(hub_arena(hub), store->spill != NULL ? &spilling_ops : &plain_ops, store,
                              &(vault_options){.spill_bytes_max = options->spill_bytes_max});
    store->service = vault_service_create(store->vault, store->calls);
    store->timer = loop_timer_create(loop, look, store);
    node_core_annex(core, &annex_ops, store);
    return store;
}

void node_store_close(node_store *store) {
    if (store == NULL) return;
    if (store->spilled != NULL) loop_watch_remove(store->spilled);
    loop_timer_destroy(store->timer);
    spill_close(store->spill);
    vault_close(store->vault);
    vault_service_destroy(store->service);
    map_for_each (found, &store->guests) free(found.value);
    map_fini(&store->guests);
    free(store);
}
