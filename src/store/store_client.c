/* store_client.c — see store_client.h; the protocol with the store server is described in object_header.h. This file:
 * creation, holds and views of objects. */
#include "store/store_client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/invariants.h"
#include "store/client_internal.h"

enum { REFUSED_US = 1000 * 1000 }; /* a refused restore is reported for this long */

/* ---- Records. */

static store_client_object *record_add(store_client *store, object_header *header, const object_ref *ref,
                                       uint64_t size) {
    MR_ASSERT(map_get(&store->by_slot, ref->slot) == NULL); /* a slot has one record */
    store_client_object *object = XNEW(store_client_object, .header = header, .ref = *ref, .size = size);
    list_init(&object->place);
    map_put(&store->by_slot, ref->slot, object);
    return object;
}

static void record_free(store_client *store, store_client_object *object) {
    MR_ASSERT(object->block == NULL && object->own == NULL && object->views == 0);
    map_remove(&store->by_slot, object->ref.slot);
    list_remove(&object->place);
    free(object);
}

static void unhold(store_client *store, store_client_object *object) {
    hold_entry *entry = object->entry;
    MR_ASSERT(entry != NULL && object->holds > 0);
    object->entry = NULL;
    object->holds = 0;
    hold_table_remove(&store->holds, entry);
}

/* ---- Changes made by the store server. */

/* Moves the object to `idle`, or back to `made`. */
static void set_idle(store_client *store, store_client_object *object, bool idle) {
    MR_ASSERT(object->made && (idle || (store->idle_count > 0 && store->idle_bytes >= object->size)));
    list_remove(&object->place);
    list_push_back(idle ? &store->idle : &store->made, &object->place);
    store->idle_count += idle ? 1 : (size_t)-1;
    store->idle_bytes += idle ? object->size : -object->size;
}

/* Makes the slot of an ended object available for a new object. */
static void slot_reuse(store_client *store, store_client_object *object) {
    MR_ASSERT(object->made && store->free_slot_count < store->slot_capacity);
    store->free_headers[store->free_slot_count++] = object->header;
    record_free(store, object);
}

static void notice(store_client *store, store_client_object *object) {
    uint64_t word = object_header_read(object->header);
    if (object_word_sequence(word) != object->ref.sequence) {
        if (object_word_state(word) != OBJECT_HEADER_GONE || object->holds > 0) return;
        STORE_CLIENT_STEP(store, "store.reuse");
        store_client_memory_forget(store, object);
        set_idle(store, object, false);
        atomic_store(&object->header->word, object_header_word(object_word_sequence(word), OBJECT_HEADER_FREE));
        slot_reuse(store, object);
        return;
    }
    object_header_state state = object_word_state(word);
    bool taken =
        state == OBJECT_HEADER_SPILLED || state == OBJECT_HEADER_LOST || atomic_load(&object->header->moves) > 0;
    if (taken && state != OBJECT_HEADER_CREATING) store_client_memory_forget(store, object);
}

void store_client_poll(store_client *store) {
    uint64_t taken = atomic_load_explicit(&store->holds.page->taken, memory_order_acquire);
    uint64_t moved = atomic_load_explicit(&store->holds.page->moved, memory_order_acquire);
    uint64_t wanted = atomic_load_explicit(&store->holds.page->wanted, memory_order_acquire);
    if (moved != store->moved_seen)
        list_for_each (at, &store->made) notice(store, container_of(at, store_client_object, place));
    if (moved != store->moved_seen || taken != store->taken_seen)
        list_for_each (at, &store->idle) notice(store, container_of(at, store_client_object, place));
    store->taken_seen = taken;
    store->moved_seen = moved;
    if (wanted != store->wanted_seen) {
        store->wanted_seen = wanted;
        store_client_memory_back(store, true);
    }
    CHECK_INVARIANTS(store->by_slot.count + BLOCK_ALLOCATOR_LISTS, store_client_check(store));
}

/* ---- Creation. */

mr_status store_client_create(store_client *store, uint64_t size, store_client_object **out, void **data) {
    store_client_poll(store);
    STORE_CLIENT_STEP(store, "store.create");
    if (size > store->arena->size)
        return error_set(MR_TOO_LARGE,
                         "an object of %" PRIu64 " bytes: all the shared memory is %" PRIu64 " (arena_bytes)", size,
                         store->arena->size);
    MR_TRY(store_client_need(store, WANT_SLOTS));
    MR_TRY(store_client_need(store, WANT_HOLDS));
    store_client_ask_ahead(store);
    store_client_object memory = {0};
    MR_TRY(store_client_memory_take(store, size, &memory));
    object_header *header = store->free_headers[--store->free_slot_count];
    object_ref ref = {.id = {store->options.process, store->next_number++},
                      .slot = (uint64_t)((uint8_t *)header - store->arena->base),
                      .sequence = object_word_sequence(object_header_read(header))};
    store_client_object *object = record_add(store, header, &ref, size);
    object->made = true;
    object->block = memory.block;
    object->own = memory.own;
    list_push_back(&store->made, &object->place);
    uint64_t offset = store_client_memory_offset(object);
    atomic_store_explicit(&header->owner, ref.id.owner, memory_order_relaxed);
    atomic_store_explicit(&header->number, ref.id.number, memory_order_relaxed);
    atomic_store_explicit(&header->offset, offset, memory_order_relaxed);
    atomic_store_explicit(&header->size, size, memory_order_relaxed);
    atomic_store_explicit(&header->moves, 0, memory_order_relaxed);
    atomic_store_explicit(&header->word, object_header_word(ref.sequence, OBJECT_HEADER_CREATING),
                          memory_order_release);
    STORE_CLIENT_STEP(store, "store.creating");
    object->entry = hold_table_add(&store->holds, ref.slot);
    object->holds = 1;
    MR_ASSERT(object->entry != NULL && (object->block != NULL) != (object->own != NULL));
    CHECK_INVARIANTS(store->by_slot.count + BLOCK_ALLOCATOR_LISTS, store_client_check(store));
    *out = object;
    *data = arena_at(store->arena, offset);
    return MR_OK;
}

int64_t store_client_retry_us(const store_client *store) { return store->retry_us; }

static bool is_creating(const store_client_object *object) {
    return object_header_read(object->header) == object_header_word(object->ref.sequence, OBJECT_HEADER_CREATING);
}

void store_client_seal(store_client *store, store_client_object *object) {
    MR_ASSERT(object->made && is_creating(object));
    STORE_CLIENT_STEP(store, "store.seal");
    atomic_store_explicit(&object->header->used_us, clock_now_us(store->options.clock), memory_order_relaxed);
    atomic_store_explicit(&object->header->word, object_header_word(object->ref.sequence, OBJECT_HEADER_SEALED),
                          memory_order_release);
    STORE_CLIENT_STEP(store, "store.sealed");
}

/* Frees an object whose ref was never given out. False: the store server has taken its memory and must end it. */
static bool free_alone(store_client *store, store_client_object *object) {
    for (;;) {
        uint64_t word = object_header_read(object->header);
        object_header_state state = object_word_state(word);
        if (state != OBJECT_HEADER_CREATING && state != OBJECT_HEADER_SEALED && state != OBJECT_HEADER_SPILLING)
            return false;
        if (atomic_load(&object->header->moves) > 0) return false; /* was spilled and restored */
        if (object_header_change(object->header, word,
                                 object_header_word(object->ref.sequence + 1, OBJECT_HEADER_FREE)))
            break;
    }
    STORE_CLIENT_STEP(store, "store.free");
    unhold(store, object);
    store_client_memory_release(store, object);
    slot_reuse(store, object);
    return true;
}

void store_client_abort(store_client *store, store_client_object *object) {
    MR_ASSERT(object->made && is_creating(object));
    STORE_CLIENT_STEP(store, "store.abort");
    bool freed = free_alone(store, object);
    MR_ASSERT(freed);
}

/* ---- Holds. */

void store_client_ref(store_client *store, store_client_object *object, object_ref *out) {
    MR_ASSERT(object->holds > 0 && !(object->made && is_creating(object)));
    object->shown = true;
    *out = object->ref;
}

object_ref store_client_peek(const store_client_object *object) { return object->ref; }

static bool names_slot(const store_client *store, const object_ref *ref) {
    return ref->slot % sizeof(object_header) == 0 && ref->slot < store->arena->size &&
           arena_holds(store->arena, (extent){ref->slot, sizeof(object_header)});
}

mr_status store_client_take(store_client *store, const object_ref *ref, store_client_object **out) {
    if (!names_slot(store, ref))
        return error_set(MR_INVALID, "no object of this machine is at offset %" PRIu64, ref->slot);
    store_client_object *object = map_get(&store->by_slot, ref->slot);
    if (object != NULL && object->ref.sequence == ref->sequence && object->holds > 0) {
        object->holds++;
        *out = object;
        return MR_OK;
    }
    MR_TRY(store_client_need(store, WANT_HOLDS));
    /* Holders write the slot: the time of a view, and the state if the store server has condemned the object. */
    if (!arena_allows(store->arena, ref->slot)) arena_allow(store->arena, (extent){ref->slot, sizeof(object_header)});
    object_header *header = arena_at(store->arena, ref->slot);
    STORE_CLIENT_STEP(store, "store.take");
    hold_entry *entry = hold_table_add(&store->holds, ref->slot);
    MR_ASSERT(entry != NULL); /* store_client_need made sure that an entry is free */
    STORE_CLIENT_STEP(store, "store.taking");
    /* The id is compared first, so that an invalid ref causes no write. A slot that this process holds under another
     * sequence number belongs to another object. */
    if ((object != NULL && object->holds > 0) || atomic_load(&header->owner) != ref->id.owner ||
        atomic_load(&header->number) != ref->id.number || !object_header_confirm_hold(header, ref->sequence)) {
        hold_table_remove(&store->holds, entry);
        return error_set(MR_NOT_FOUND, "object %" PRIx64 ":%" PRIu64 " was deleted", ref->id.owner, ref->id.number);
    }
    STORE_CLIENT_STEP(store, "store.taken");
    store_client_ask_ahead(store);
    if (object == NULL)
        object = record_add(store, header, ref, atomic_load(&header->size));
    else
        set_idle(store, object, false);
    MR_ASSERT(object->entry == NULL && object->views == 0);
    object->shown = true;
    object->entry = entry;
    object->holds = 1;
    CHECK_INVARIANTS(store->by_slot.count + BLOCK_ALLOCATOR_LISTS, store_client_check(store));
    *out = object;
    return MR_OK;
}

void store_client_drop(store_client *store, store_client_object *object) {
    MR_ASSERT(object->holds > 0);
    if (object->holds > 1) {
        object->holds--;
        return;
    }
    MR_ASSERT(object->views == 0 && !(object->made && is_creating(object)));
    STORE_CLIENT_STEP(store, "store.drop");
    if (object->made && !object->shown && free_alone(store, object)) return;
    unhold(store, object);
    object->restoring = false;
    if (!object->made) {
        record_free(store, object);
        return;
    }
    set_idle(store, object, true); /* notice() frees the record when the object is GONE */
    store_client_ask_collect(store);
    CHECK_INVARIANTS(store->by_slot.count + BLOCK_ALLOCATOR_LISTS, store_client_check(store));
}

void store_client_delete(store_client *store, store_client_object *object) {
    MR_ASSERT(object->holds > 0 && !(object->made && is_creating(object)));
    STORE_CLIENT_STEP(store, "store.delete");
    for (;;) {
        uint64_t word = object_header_read(object->header), sequence = object_word_sequence(word);
        object_header_state next =
            object_word_state(word) == OBJECT_HEADER_SPILLED ? OBJECT_HEADER_LOST : OBJECT_HEADER_DOOMED;
        if (object_word_state(word) == OBJECT_HEADER_DOOMED || object_word_state(word) == OBJECT_HEADER_LOST) return;
        if (object_header_change(object->header, word, object_header_word(sequence, next))) return;
    }
}

uint64_t store_client_size(const store_client_object *object) { return object->size; }

/* ---- Views. */

static mr_status ask_restore(store_client *store, store_client_object *object) {
    bool refused = object->refused && clock_now_us(store->options.clock) - object->refused_us < REFUSED_US;
    object->refused = false;
    if (refused) {
        hold_table_unpin(&store->holds, object->entry);
        return error_set(MR_NOMEM, "%s", store->failure);
    }
    if (!object->restoring) {
        object->restoring = true;
        store->retry_us = -1;
        store_client_request request = {.ask = STORE_CLIENT_RESTORE, .ref = object->ref};
        mr_status status = store->ops->ask(store->context, &request);
        if (status != MR_OK) {
            object->restoring = false;
            hold_table_unpin(&store->holds, object->entry);
            return status;
        }
    }
    return error_set(MR_BUSY, "an object of %" PRIu64 " bytes is being restored from disk", object->size);
}

/* Sets `data` for an object whose bytes are in memory and pinned. */
static mr_status show(store_client *store, store_client_object *object) {
    uint64_t offset = atomic_load(&object->header->offset), size = object->size;
    extent bytes = {offset, size == 0 ? 1 : size};
    if (!arena_holds(store->arena, bytes) || (size > STORE_CLIENT_SMALL && offset % store->views.page != 0))
        return error_set(MR_CORRUPT, "malformed object header: %" PRIu64 " bytes at offset %" PRIu64, size, offset);
    if (size > STORE_CLIENT_SMALL) {
        object->data_offset = offset;
        object->data = private_mapping_view(&store->views, offset, size);
        return MR_OK;
    }
    void *copy;
    MR_TRY(alloc_try_aligned(64, size == 0 ? 1 : size, &copy));
    memcpy(copy, arena_at(store->arena, offset), size);
    object->data = copy;
    return MR_OK;
}

mr_status store_client_view(store_client *store, store_client_object *object, void **data, uint64_t *size) {
    MR_ASSERT(object->holds > 0 && !(object->made && is_creating(object)));
    if (object->views == 0) {
        STORE_CLIENT_STEP(store, "store.view");
        hold_table_pin(object->entry);
        STORE_CLIENT_STEP(store, "store.pinned");
        object_header_state state = object_header_confirm_pin(object->header);
        if (state == OBJECT_HEADER_SPILLED) {
            mr_status status = ask_restore(store, object);
            if (status != MR_BUSY || object->restoring) return status;
            state = object_header_confirm_pin(object->header); /* the answer came during the call */
            if (state == OBJECT_HEADER_SPILLED) return status;
            hold_table_pin(object->entry);
        }
        mr_status status = state == OBJECT_HEADER_SEALED
                               ? show(store, object)
                               : error_set(MR_OBJECT_LOST, "the object was deleted, or lost on disk");
        if (status != MR_OK) {
            hold_table_unpin(&store->holds, object->entry);
            return status;
        }
        atomic_store_explicit(&object->header->used_us, clock_now_us(store->options.clock), memory_order_relaxed);
        store->viewed++;
        STORE_CLIENT_STEP(store, "store.viewed");
    }
    object->views++;
    MR_ASSERT(object->data != NULL && store->viewed > 0);
    *data = object->data;
    *size = object->size;
    return MR_OK;
}

static void hide(store_client *store, store_client_object *object) {
    MR_ASSERT(object->data != NULL && store->viewed > 0);
    if (object->size > STORE_CLIENT_SMALL)
        private_mapping_drop(&store->views, object->data_offset, object->size);
    else
        free(object->data);
    object->data = NULL;
    store->viewed--;
}

void store_client_unview(store_client *store, store_client_object *object) {
    MR_ASSERT(object->views > 0);
    if (--object->views > 0) return;
    STORE_CLIENT_STEP(store, "store.unview");
    hide(store, object);
    hold_table_unpin(&store->holds, object->entry);
    CHECK_INVARIANTS(store->by_slot.count + BLOCK_ALLOCATOR_LISTS, store_client_check(store));
}

bool store_client_locate(const store_client *store, const void *viewed, uint64_t *offset) {
    uintptr_t at = (uintptr_t)viewed - (uintptr_t)store->views.base; /* wraps if `viewed` is before the mapping */
    *offset = at;
    return at < store->views.size;
}

/* ---- Open and close. */

mr_status store_client_open(const arena *arena, extent lease_page, const store_client_ops *ops, void *context,
                            const store_client_options *options, store_client **out) {
    MR_ASSERT(ops->ask != NULL && options->process != 0);
    if (!arena_holds(arena, lease_page) || lease_page.size < PROCESS_PAGE_BYTES)
        return error_set(MR_CORRUPT, "malformed process page of %" PRIu64 " bytes", lease_page.size);
    private_mapping views;
    MR_TRY(private_mapping_open(arena, &views));
    store_client *store = xmalloc(sizeof *store);
    *store = (store_client){.arena = arena,
                            .ops = ops,
                            .context = context,
                            .options = *options,
                            .views = views,
                            .next_number = 1,
                            .retry_us = -1};
    list_init(&store->made);
    list_init(&store->idle);
    arena_allow(arena, lease_page);
    hold_table_init(&store->holds, arena_at(arena, lease_page.offset));
    store->holds.step = ops->step;
    store->holds.context = context;
    store_client_memory_init(store);
    FAILPOINT("store.open");
    *out = store;
    return MR_OK;
}

static void forget_object(store_client *store, store_client_object *object) {
    if (object->data != NULL) hide(store, object);
    free(object->own); /* blocks are freed with their stretch */
    list_remove(&object->place);
    free(object);
}

void store_client_abandon(store_client *store) {
    map_for_each (found, &store->by_slot) forget_object(store, found.value);
    map_fini(&store->by_slot);
    store_client_memory_fini(store);
    hold_table_fini(&store->holds);
    private_mapping_close(&store->views);
    free(store);
}

void store_client_close(store_client *store) {
    if (store == NULL) return;
    STORE_CLIENT_STEP(store, "store.close");
    map_for_each (found, &store->by_slot) {
        store_client_object *object = found.value;
        if (object->entry != NULL) unhold(store, object);
    }
    store_client_abandon(store);
}

/* Keeps the bytes of a view in place valid, as private copies unless `alone`, and ends the view. */
static bool keep_viewed(store_client *store, store_client_object *object, bool alone) {
    if (object->views == 0 || object->size <= STORE_CLIENT_SMALL) return false;
    if (!alone) private_mapping_keep(&store->views, object->data_offset, object->size);
    object->views = 0;
    object->data = NULL;
    store->viewed--;
    return true;
}

void store_client_close_keeping(store_client *store, bool alone, private_mapping *out) {
    bool any = false;
    map_for_each (found, &store->by_slot) any |= keep_viewed(store, found.value, alone);
    *out = any ? store->views : PRIVATE_MAPPING_NONE;
    if (any) store->views = PRIVATE_MAPPING_NONE;
    store_client_close(store);
}

store_client_stats store_client_stats_now(const store_client *store) {
    return (store_client_stats){.leased = store->leased,
                                .used = store->small.used + store->pages.used,
                                .spare = store->spare_bytes,
                                .objects = (uint32_t)store->by_slot.count,
                                .views = store->viewed};
}
