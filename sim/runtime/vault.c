/* vault.c — see vault.h. It does what runtime/node/node_store does on a machine. */
#include "sim/runtime/vault.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/map.h"
#include "net/shm/extents.h"
#include "runtime/wire.h"
#include "store/vault_service.h"

enum { OFTEN_US = 300, OFTEN_UNTIL_US = 40 * 1000 };

typedef struct guest { /* a process that has a store */
    link_id link;
    bool again; /* it is to look at its store, but there was no room to say so */
} guest;

struct runtime_vault {
    sim_node *node;
    calls *calls;
    extents *extents;
    vault *vault;
    vault_service *service;
    map guests; /* by process; owned */
    bool ticking;
};

/* ---- What the vault needs. */

static mr_status extent_alloc(void *context, uint64_t size, extent *out) {
    return extents_alloc(((runtime_vault *)context)->extents, size, out);
}

static void extent_free(void *context, extent extent) { extents_free(((runtime_vault *)context)->extents, extent); }

static void nudge(void *context, uint64_t process) {
    runtime_vault *self = context;
    guest *guest = map_get(&self->guests, process);
    if (guest != NULL) guest->again = wire_tell(self->calls, guest->link, CLIENT_STORE, (span){0}) == MR_BUSY;
}

static const vault_ops ops = {.extent_alloc = extent_alloc, .extent_free = extent_free, .nudge = nudge};

/* ---- When it looks: as a real one does, and at first far more often, for whom that might surprise. */

static void look(void *context, uint64_t unused) {
    runtime_vault *self = context;
    int64_t now_us = sim_node_now_us(self->node), next_us = vault_tick(self->vault, now_us);
    self->ticking = next_us != CLOCK_NEVER_US;
    if (self->ticking) sim_node_after(self->node, next_us > now_us ? next_us - now_us : 1, look, self, 0);
}

static void look_soon(runtime_vault *self) {
    if (self->ticking) return;
    self->ticking = true;
    sim_node_after(self->node, VAULT_COLLECT_US, look, self, 0);
}

static void look_often(void *context, uint64_t unused) {
    runtime_vault *self = context;
    sim *sim = sim_node_sim(self->node);
    vault_collect(self->vault);
    if (sim_now_us(sim) < OFTEN_UNTIL_US)
        sim_node_after(self->node, rng_between(sim_rng(sim), 1, OFTEN_US), look_often, self, 0);
}

/* ---- Requests. */

static mr_status on_request(void *context, uint64_t process, const call_request *request) {
    runtime_vault *self = context;
    if (request->method != VAULT_METHOD) return error_set(MR_INVALID, "the node does not know this method");
    if (map_get(&self->guests, process) == NULL) {
        guest *guest = xcalloc(1, sizeof *guest);
        guest->link = request->token.link;
        map_put(&self->guests, process, guest);
    }
    look_soon(self);
    vault_service_request(self->service, process, request, sim_node_now_us(self->node));
    return MR_OK;
}

static void on_room(void *context) {
    runtime_vault *self = context;
    map_slot found;
    vault_service_room(self->service);
    for (size_t at = 0; (at = map_next(&self->guests, at, &found)) != 0;)
        if (((const guest *)found.value)->again) nudge(self, found.key);
}

static void on_gone(void *context, uint64_t process) {
    runtime_vault *self = context;
    guest *guest = map_remove(&self->guests, process);
    if (guest == NULL) return;
    free(guest);
    vault_leave(self->vault, process);
    look_soon(self);
}

static mr_status keep(void *context, const object_ref *ref) {
    return vault_keep(((runtime_vault *)context)->vault, ref);
}

static void let_go(void *context, const object_ref *ref) {
    runtime_vault *self = context;
    vault_let_go(self->vault, ref);
    look_soon(self);
}

static const node_annex_ops annex_ops = {on_request, on_room, on_gone, keep, let_go};

/* ---- Life. */

runtime_vault *runtime_vault_open(sim_node *node, node_core *core, const arena *arena) {
    runtime_vault *self = xcalloc(1, sizeof *self);
    *self = (runtime_vault){.node = node, .calls = node_core_calls(core)};
    self->extents = extents_create(ARENA_EXTENTS_OFFSET, arena->size);
    self->vault = vault_open(arena, &ops, self, NULL);
    self->service = vault_service_create(self->vault, self->calls);
    node_core_annex(core, &annex_ops, self);
    sim_node_after(node, OFTEN_US, look_often, self, 0);
    return self;
}

void runtime_vault_close(runtime_vault *self) {
    if (self == NULL) return;
    vault_close(self->vault);
    vault_service_destroy(self->service);
    extents_destroy(self->extents);
    map_slot found;
    for (size_t at = 0; (at = map_next(&self->guests, at, &found)) != 0;) free(found.value);
    map_fini(&self->guests);
    free(self);
}

vault_stats runtime_vault_look(runtime_vault *self) {
    vault_collect(self->vault);
    return vault_stats_now(self->vault);
}
