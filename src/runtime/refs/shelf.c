/* shelf.c — see shelf.h. Tested by tests/runtime_store_test.c. */
#include "runtime/refs/shelf.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "runtime/closed.h"

enum { OPENING_US = 1000, RETRY_US = 1000 };

/* ---- Life. */

void shelf_init(shelf *shelf, const arena *arena, uint64_t process, clock_source clock, const shelf_host *host) {
    *shelf = (struct shelf){.arena = arena, .process = process, .clock = clock, .kept = LENS_NONE};
    if (host != NULL) shelf->host = *host;
    list_init(&shelf->expected);
}

static void answered(void *context) {
    shelf *shelf = context;
    if (!list_empty(&shelf->expected)) (void)shelf_take_expected(shelf);
    if (shelf->host.answered != NULL) shelf->host.answered(shelf->host.context);
}

void shelf_join(shelf *shelf, calls *calls, link_id node) {
    if (shelf->arena == NULL || shelf->asked || shelf->closed) return;
    mr_status status = vault_client_join(&shelf->vault, calls, node);
    shelf->asked = status != MR_BUSY; /* then asked again when there is room */
    shelf->vault.failed = status == MR_BUSY ? MR_OK : status;
    shelf->vault.answered = answered;
    shelf->vault.context = shelf;
}

bool shelf_is_open(shelf *shelf) {
    if (shelf->store != NULL || shelf->closed || !shelf->vault.joined || shelf->vault.failed != MR_OK)
        return shelf->store != NULL;
    shelf->vault.failed = vault_client_open(&shelf->vault, shelf->arena, shelf->process, shelf->clock, &shelf->store);
    if (shelf->store == NULL)
        log_warn("the object store cannot be used, so large values are copied: %s", mr_last_error());
    return shelf->store != NULL;
}

void shelf_poll(shelf *shelf) {
    if (shelf_is_open(shelf)) store_poll(shelf->store);
}

void shelf_close(shelf *shelf, bool alone) {
    shelf->closed = true;
    map_for_each (found, &shelf->by_slot) ((shelved *)found.value)->object = NULL;
    if (shelf->store != NULL) vault_client_close_keeping(&shelf->vault, alone, &shelf->kept);
    shelf->store = NULL;
}

void shelf_fini(shelf *shelf) {
    MR_ASSERT(shelf->by_slot.count == 0);
    map_fini(&shelf->by_slot);
    lens_close(&shelf->kept);
}

/* ---- Waiting. */

/* After MR_BUSY: drives until it is worth trying again. MR_BUSY: whoever asks does not wait. */
static mr_status await_vault(shelf *shelf, bool may_wait, int64_t retry_us, int64_t deadline_us) {
    if (!may_wait || shelf->host.wait == NULL) return MR_BUSY;
    if (clock_now_us(shelf->clock) > deadline_us)
        return error_set(MR_NOMEM,
                         "timed out after %d s waiting for shared memory: it is full and nothing could be spilled. "
                         "`miniray memory` shows the objects",
                         SHELF_PATIENCE_US / 1000000);
    mr_status status = shelf->host.wait(shelf->host.context, retry_us > 0 ? retry_us : RETRY_US);
    if (status == MR_CANCELLED) return error_set(status, "cancelled while waiting for shared memory");
    if (status != MR_OK) return error_set(MR_CLOSED, "the node is gone");
    return shelf->closed ? closed_error() : MR_OK;
}

/* There is a store, or there will never be one. */
static mr_status await_open(shelf *shelf, bool may_wait) {
    int64_t deadline_us = clock_now_us(shelf->clock) + SHELF_PATIENCE_US;
    while (!shelf_is_open(shelf)) {
        if (!shelf->asked || shelf->closed || shelf->vault.failed != MR_OK)
            return error_set(MR_CLOSED, "this process has no object store: it is closed, or could not be opened");
        MR_TRY(await_vault(shelf, may_wait, OPENING_US, deadline_us));
    }
    return MR_OK;
}

/* ---- Records. */

static shelved *record(shelf *shelf, const object_ref *ref, uint64_t size, store_object *object) {
    shelved *made = XNEW(shelved, .shelf = shelf, .refs = 1, .ref = *ref, .size = size, .object = object);
    list_init(&made->place);
    if (ref->slot != 0) map_put(&shelf->by_slot, ref->slot, made);
    return made;
}

shelved *shelf_find(shelf *shelf, const object_ref *ref) {
    shelved *found = map_get(&shelf->by_slot, ref->slot);
    return found != NULL && found->ref.sequence == ref->sequence ? found : NULL;
}

shelved *shelved_ref(shelved *shelved) {
    shelved->refs++;
    return shelved;
}

void shelved_unref(shelved *shelved) {
    MR_ASSERT(shelved->refs > 0);
    if (--shelved->refs > 0) return;
    shelf *shelf = shelved->shelf;
    list_remove(&shelved->place);
    if (map_get(&shelf->by_slot, shelved->ref.slot) == shelved) map_remove(&shelf->by_slot, shelved->ref.slot);
    if (shelved->object != NULL) {
        MR_ASSERT(shelved->shown == 0);
        store_drop(shelf->store, shelved->object);
    }
    free(shelved);
}

object_ref shelved_name(shelved *shelved) {
    if (shelved->object != NULL) store_ref(shelved->shelf->store, shelved->object, &shelved->ref);
    return shelved->ref;
}

/* ---- Making. */

mr_status shelf_make(shelf *shelf, uint64_t size, bool may_wait, shelved **out, void **data) {
    MR_TRY(await_open(shelf, may_wait));
    store_object *object;
    mr_status status;
    while ((status = store_create(shelf->store, size, &object, data)) == MR_BUSY)
        MR_TRY(await_vault(shelf, may_wait, store_retry_us(shelf->store), CLOCK_NEVER_US)); /* the vault's patience */
    MR_TRY(status);
    *out = record(shelf, &(object_ref){0}, size, object);
    return MR_OK;
}

void shelf_seal(shelved *shelved) {
    shelf *shelf = shelved->shelf;
    if (shelved->object == NULL) return; /* closed meanwhile */
    store_seal(shelf->store, shelved->object);
    shelved->ref = store_peek(shelved->object);
    map_put(&shelf->by_slot, shelved->ref.slot, shelved);
}

void shelf_abort(shelved *shelved) {
    if (shelved->object != NULL) store_abort(shelved->shelf->store, shelved->object);
    shelved->object = NULL;
    shelved_unref(shelved);
}

/* ---- What others send. */

static void take(shelved *shelved) {
    shelf *shelf = shelved->shelf;
    mr_status status = shelf_is_open(shelf) ? store_take(shelf->store, &shelved->ref, &shelved->object) : MR_BUSY;
    if (status == MR_BUSY && !shelf->closed) return;
    list_remove(&shelved->place);
    shelved->lost = status != MR_OK;
    if (shelved->lost) map_remove(&shelf->by_slot, shelved->ref.slot); /* the slot may be another's */
}

bool shelf_take_expected(shelf *shelf) {
    list_for_each (at, &shelf->expected) take(container_of(at, shelved, place));
    return list_empty(&shelf->expected);
}

mr_status shelf_expect(shelf *shelf, const object_ref *ref, uint64_t size, shelved **out) {
    shelved *known = shelf_find(shelf, ref);
    if (known != NULL) {
        if (known->size != size)
            return error_set(MR_CORRUPT,
                             "malformed reference: object %" PRIx64 ":%" PRIu64 " has %" PRIu64 " bytes, not %" PRIu64,
                             ref->id.owner, ref->id.number, known->size, size);
        (void)shelved_name(known); /* others have it, or are about to */
        *out = shelved_ref(known);
        return MR_OK;
    }
    if (shelf->arena == NULL || ref->slot == 0 || map_get(&shelf->by_slot, ref->slot) != NULL)
        return error_set(MR_INVALID, "malformed reference: object %" PRIx64 ":%" PRIu64 " at offset %" PRIu64,
                         ref->id.owner, ref->id.number, ref->slot);
    shelved *made = record(shelf, ref, size, NULL);
    list_push_back(&shelf->expected, &made->place);
    take(made);
    if (made->object != NULL && store_size(made->object) != size) made->lost = true;
    if (!made->lost) {
        *out = made;
        return MR_OK;
    }
    shelved_unref(made);
    return error_set(MR_OBJECT_LOST, "object %" PRIx64 ":%" PRIu64 " was lost with the process that created it",
                     ref->id.owner, ref->id.number);
}

/* ---- Showing. */

static mr_status show_once(shelved *shelved, span *out) {
    void *data;
    uint64_t size;
    if (shelved->object == NULL && !shelved->lost && !shelved->shelf->closed) take(shelved);
    if (shelved->shelf->closed) return closed_error();
    if (shelved->lost)
        return error_set(MR_OBJECT_LOST, "object %" PRIx64 ":%" PRIu64 " was lost with the process that created it",
                         shelved->ref.id.owner, shelved->ref.id.number);
    if (shelved->object == NULL) return MR_BUSY;
    MR_TRY(store_view(shelved->shelf->store, shelved->object, &data, &size));
    shelved->shown++;
    *out = span_of(data, (size_t)size);
    return MR_OK;
}

mr_status shelf_show(shelved *shelved, bool may_wait, span *out) {
    shelf *shelf = shelved->shelf;
    mr_status status = show_once(shelved, out);
    if (status != MR_BUSY) return status;
    int64_t deadline_us = clock_now_us(shelf->clock) + SHELF_PATIENCE_US;
    shelved_ref(shelved); /* others run while we wait */
    while ((status = show_once(shelved, out)) == MR_BUSY) {
        status = await_vault(shelf, may_wait, shelf->store == NULL ? 0 : store_retry_us(shelf->store), deadline_us);
        if (status != MR_OK) break;
    }
    shelved_unref(shelved);
    return status;
}

void shelf_hide(shelved *shelved) {
    MR_ASSERT(shelved->shown > 0);
    shelved->shown--;
    if (shelved->object != NULL) store_unview(shelved->shelf->store, shelved->object);
}

const arena *shelf_locate(const shelf *shelf, const void *shown, uint64_t *offset) {
    return shelf->store != NULL && store_locate(shelf->store, shown, offset) ? shelf->arena : NULL;
}
