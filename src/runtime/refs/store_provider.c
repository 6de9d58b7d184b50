/* store_provider.c — see store_provider.h. Tested by tests/runtime_store_test.c. */
#include "runtime/refs/store_provider.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "runtime/common/shutdown_error.h"

enum { OPENING_US = 1000, RETRY_US = 1000 };

/* ---- Start and end. */

void store_provider_init(store_provider *provider, const arena *arena, uint64_t process, clock_source clock,
                         const store_provider_host *host) {
    *provider =
        (struct store_provider){.arena = arena, .process = process, .clock = clock, .kept = PRIVATE_MAPPING_NONE};
    if (host != NULL) provider->host = *host;
    list_init(&provider->expected);
}

static void answered(void *context) {
    store_provider *provider = context;
    if (!list_empty(&provider->expected)) (void)store_provider_take_expected(provider);
    if (provider->host.answered != NULL) provider->host.answered(provider->host.context);
}

void store_provider_join(store_provider *provider, rpc *rpc, link_id node) {
    if (provider->arena == NULL || provider->asked || provider->closed) return;
    mr_status status = store_rpc_client_join(&provider->store_server, rpc, node);
    provider->asked = status != MR_BUSY; /* MR_BUSY: requested again when there is room */
    provider->store_server.failed = status == MR_BUSY ? MR_OK : status;
    provider->store_server.answered = answered;
    provider->store_server.context = provider;
}

bool store_provider_is_open(store_provider *provider) {
    if (provider->store != NULL || provider->closed || !provider->store_server.joined ||
        provider->store_server.failed != MR_OK)
        return provider->store != NULL;
    provider->store_server.failed = store_rpc_client_open(&provider->store_server, provider->arena, provider->process,
                                                          provider->clock, &provider->store);
    if (provider->store == NULL)
        log_warn("the object store cannot be used, so large values are copied: %s", mr_last_error());
    return provider->store != NULL;
}

void store_provider_poll(store_provider *provider) {
    if (store_provider_is_open(provider)) store_client_poll(provider->store);
}

void store_provider_close(store_provider *provider, bool alone) {
    provider->closed = true;
    map_for_each (found, &provider->by_slot) ((stored_object *)found.value)->object = NULL;
    if (provider->store != NULL) store_rpc_client_close_keeping(&provider->store_server, alone, &provider->kept);
    provider->store = NULL;
}

void store_provider_fini(store_provider *provider) {
    MR_ASSERT(provider->by_slot.count == 0);
    map_fini(&provider->by_slot);
    private_mapping_close(&provider->kept);
}

/* ---- Waits for the store server. */

/* Called after MR_BUSY: waits until a retry is useful. MR_BUSY: the caller does not wait. */
static mr_status await_store_server(store_provider *provider, bool may_wait, int64_t retry_us, int64_t deadline_us) {
    if (!may_wait || provider->host.wait == NULL) return MR_BUSY;
    if (clock_now_us(provider->clock) > deadline_us)
        return error_set(MR_NOMEM,
                         "timed out after %d s waiting for shared memory: it is full and nothing could be spilled. "
                         "`miniray memory` shows the objects",
                         STORE_PROVIDER_PATIENCE_US / 1000000);
    mr_status status = provider->host.wait(provider->host.context, retry_us > 0 ? retry_us : RETRY_US);
    if (status == MR_CANCELLED)
        return error_set(status, "the wait for shared memory was ended by the function of mr_on_memory_wait");
    if (status != MR_OK) return error_set(MR_CLOSED, "the node is gone");
    return provider->closed ? shutdown_error_error() : MR_OK;
}

/* Waits until the store is open; fails if it never will be. */
static mr_status await_open(store_provider *provider, bool may_wait) {
    int64_t deadline_us = clock_now_us(provider->clock) + STORE_PROVIDER_PATIENCE_US;
    while (!store_provider_is_open(provider)) {
        if (!provider->asked || provider->closed || provider->store_server.failed != MR_OK)
            return error_set(MR_CLOSED, "process %d has no object store: it is closed, or could not be opened",
                             (int)getpid());
        MR_TRY(await_store_server(provider, may_wait, OPENING_US, deadline_us));
    }
    return MR_OK;
}

/* ---- Records. */

static stored_object *record(store_provider *provider, const object_ref *ref, uint64_t size,
                             store_client_object *object) {
    stored_object *made =
        XNEW(stored_object, .provider = provider, .refs = 1, .ref = *ref, .size = size, .object = object);
    list_init(&made->place);
    if (ref->slot != 0) map_put(&provider->by_slot, ref->slot, made);
    return made;
}

stored_object *store_provider_find(store_provider *provider, const object_ref *ref) {
    stored_object *found = map_get(&provider->by_slot, ref->slot);
    return found != NULL && found->ref.sequence == ref->sequence ? found : NULL;
}

void stored_object_unref(stored_object *object) {
    MR_ASSERT(object->refs > 0);
    if (--object->refs > 0) return;
    store_provider *provider = object->provider;
    list_remove(&object->place);
    if (map_get(&provider->by_slot, object->ref.slot) == object) map_remove(&provider->by_slot, object->ref.slot);
    if (object->object != NULL) {
        MR_ASSERT(object->shown == 0);
        store_client_drop(provider->store, object->object);
    }
    free(object);
}

object_ref stored_object_name(stored_object *object) {
    if (object->object != NULL) store_client_ref(object->provider->store, object->object, &object->ref);
    return object->ref;
}

/* ---- Creation of objects. */

mr_status store_provider_make(store_provider *provider, uint64_t size, bool may_wait, stored_object **out,
                              void **data) {
    MR_TRY(await_open(provider, may_wait));
    store_client_object *object;
    mr_status status;
    while ((status = store_client_create(provider->store, size, &object, data)) == MR_BUSY)
        /* no deadline: the store server limits the wait */
        MR_TRY(await_store_server(provider, may_wait, store_client_retry_us(provider->store), CLOCK_NEVER_US));
    MR_TRY(status);
    *out = record(provider, &(object_ref){0}, size, object);
    return MR_OK;
}

void store_provider_seal(stored_object *object) {
    store_provider *provider = object->provider;
    if (object->object == NULL) return; /* the provider was closed meanwhile */
    store_client_seal(provider->store, object->object);
    object->ref = store_client_peek(object->object);
    map_put(&provider->by_slot, object->ref.slot, object);
}

void store_provider_abort(stored_object *object) {
    if (object->object != NULL) store_client_abort(object->provider->store, object->object);
    object->object = NULL;
    stored_object_unref(object);
}

/* ---- Objects of other processes. */

static void take(stored_object *object) {
    store_provider *provider = object->provider;
    mr_status status =
        store_provider_is_open(provider) ? store_client_take(provider->store, &object->ref, &object->object) : MR_BUSY;
    if (status == MR_BUSY && !provider->closed) return;
    list_remove(&object->place);
    object->lost = status != MR_OK;
    if (object->lost) map_remove(&provider->by_slot, object->ref.slot); /* the slot may belong to another object */
}

bool store_provider_take_expected(store_provider *provider) {
    list_for_each (at, &provider->expected) take(container_of(at, stored_object, place));
    return list_empty(&provider->expected);
}

mr_status store_provider_expect(store_provider *provider, const object_ref *ref, uint64_t size, stored_object **out) {
    stored_object *known = store_provider_find(provider, ref);
    if (known != NULL) {
        if (known->size != size)
            return error_set(MR_CORRUPT,
                             "malformed reference: object %" PRIx64 ":%" PRIu64 " has %" PRIu64 " bytes, not %" PRIu64,
                             ref->id.owner, ref->id.number, known->size, size);
        (void)stored_object_name(known); /* other processes have the object, or will */
        *out = stored_object_ref(known);
        return MR_OK;
    }
    if (provider->arena == NULL || ref->slot == 0 || map_get(&provider->by_slot, ref->slot) != NULL)
        return error_set(MR_INVALID, "malformed reference: object %" PRIx64 ":%" PRIu64 " at offset %" PRIu64,
                         ref->id.owner, ref->id.number, ref->slot);
    stored_object *made = record(provider, ref, size, NULL);
    list_push_back(&provider->expected, &made->place);
    take(made);
    if (made->object != NULL && store_client_size(made->object) != size) made->lost = true;
    if (!made->lost) {
        *out = made;
        return MR_OK;
    }
    stored_object_unref(made);
    return error_set(MR_OBJECT_LOST, "object %" PRIx64 ":%" PRIu64 " was lost with the process that created it",
                     ref->id.owner, ref->id.number);
}

/* ---- Showing. */

static mr_status show_once(stored_object *object, span *out) {
    void *data;
    uint64_t size;
    if (object->object == NULL && !object->lost && !object->provider->closed) take(object);
    if (object->provider->closed) return shutdown_error_error();
    if (object->lost)
        return error_set(MR_OBJECT_LOST, "object %" PRIx64 ":%" PRIu64 " was lost with the process that created it",
                         object->ref.id.owner, object->ref.id.number);
    if (object->object == NULL) return MR_BUSY;
    MR_TRY(store_client_view(object->provider->store, object->object, &data, &size));
    object->shown++;
    *out = span_of(data, (size_t)size);
    return MR_OK;
}

mr_status store_provider_show(stored_object *object, bool may_wait, span *out) {
    store_provider *provider = object->provider;
    mr_status status = show_once(object, out);
    if (status != MR_BUSY) return status;
    int64_t deadline_us = clock_now_us(provider->clock) + STORE_PROVIDER_PATIENCE_US;
    stored_object_ref(object); /* other threads run during the wait */
    while ((status = show_once(object, out)) == MR_BUSY) {
        status = await_store_server(provider, may_wait,
                                    provider->store == NULL ? 0 : store_client_retry_us(provider->store), deadline_us);
        if (status != MR_OK) break;
    }
    stored_object_unref(object);
    return status;
}

void store_provider_hide(stored_object *object) {
    MR_ASSERT(object->shown > 0);
    object->shown--;
    if (object->object != NULL) store_client_unview(object->provider->store, object->object);
}

const arena *store_provider_locate(const store_provider *provider, const void *shown, uint64_t *offset) {
    return provider->store != NULL && store_client_locate(provider->store, shown, offset) ? provider->arena : NULL;
}
