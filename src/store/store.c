/* store.c — see store.h; the game with the vault is described in slot.h. Objects: making, holding, viewing. */
#include "store/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/invariants.h"
#include "store/store_core.h"

enum { REFUSED_US = 1000 * 1000 }; /* a refusal that nobody came for says nothing about a later moment */

/* ---- Records. */

static store_object *record_add(store *store, slot *slot, const object_ref *ref, uint64_t size) {
    MR_ASSERT(map_get(&store->by_slot, ref->slot) == NULL); /* one record for a slot */
    store_object *object = xcalloc(1, sizeof *object);
    object->slot = slot;
    object->ref = *ref;
    object->size = size;
    list_init(&object->place);
    map_put(&store->by_slot, ref->slot, object);
    return object;
}

static void record_free(store *store, store_object *object) {
    MR_ASSERT(object->block == NULL && object->own == NULL && object->views == 0);
    map_remove(&store->by_slot, object->ref.slot);
    list_remove(&object->place);
    free(object);
}

static void unhold(store *store, store_object *object) {
    hold_entry *entry = object->entry;
    MR_ASSERT(entry != NULL && object->holds > 0);
    object->entry = NULL;
    object->holds = 0;
    holds_remove(&store->holds, entry);
}

/* ---- What the vault did. */

/* Between the lists of what this process holds and what it has let go. */
static void set_idle(store *store, store_object *object, bool idle) {
    MR_ASSERT(object->made && (idle || (store->idle_count > 0 && store->idle_bytes >= object->size)));
    list_remove(&object->place);
    list_push_back(idle ? &store->idle : &store->made, &object->place);
    store->idle_count += idle ? 1 : (size_t)-1;
    store->idle_bytes += idle ? object->size : -object->size;
}

/* The slot of an object that is over can be used again. */
static void slot_reuse(store *store, store_object *object) {
    MR_ASSERT(object->made && store->free_slot_count < store->slot_capacity);
    store->free_slots[store->free_slot_count++] = object->slot;
    record_free(store, object);
}

static void notice(store *store, store_object *object) {
    uint64_t word = slot_read(object->slot);
    if (word_sequence(word) != object->ref.sequence) {
        if (word_state(word) != SLOT_GONE || object->holds > 0) return;
        STORE_STEP(store, "store.reuse");
        store_memory_forget(store, object);
        set_idle(store, object, false);
        atomic_store(&object->slot->word, slot_word(word_sequence(word), SLOT_FREE));
        slot_reuse(store, object);
        return;
    }
    slot_state state = word_state(word);
    bool taken = state == SLOT_SPILLED || state == SLOT_LOST || atomic_load(&object->slot->moves) > 0;
    if (taken && state != SLOT_CREATING) store_memory_forget(store, object);
}

void store_poll(store *store) {
    uint64_t taken = atomic_load_explicit(&store->holds.desk->taken, memory_order_acquire);
    uint64_t moved = atomic_load_explicit(&store->holds.desk->moved, memory_order_acquire);
    uint64_t wanted = atomic_load_explicit(&store->holds.desk->wanted, memory_order_acquire);
    if (moved != store->moved_seen)
        list_for_each (at, &store->made) notice(store, container_of(at, store_object, place));
    if (moved != store->moved_seen || taken != store->taken_seen)
        list_for_each (at, &store->idle) notice(store, container_of(at, store_object, place));
    store->taken_seen = taken;
    store->moved_seen = moved;
    if (wanted != store->wanted_seen) {
        store->wanted_seen = wanted;
        store_memory_back(store, true);
    }
    CHECK_INVARIANTS(store->by_slot.count + BLOCKS_LISTS, store_check(store));
}

/* ---- Making. */

mr_status store_create(store *store, uint64_t size, store_object **out, void **data) {
    store_poll(store);
    STORE_STEP(store, "store.create");
    if (size > store->arena->size)
        return error_set(MR_TOO_LARGE,
                         "an object of %" PRIu64 " bytes: all the shared memory is %" PRIu64 " (arena_bytes)", size,
                         store->arena->size);
    MR_TRY(store_need(store, WANT_SLOTS));
    MR_TRY(store_need(store, WANT_HOLDS));
    store_ask_ahead(store);
    store_object memory = {0};
    MR_TRY(store_memory_take(store, size, &memory));
    slot *slot = store->free_slots[--store->free_slot_count];
    object_ref ref = {.id = {store->options.process, store->next_number++},
                      .slot = (uint64_t)((uint8_t *)slot - store->arena->base),
                      .sequence = word_sequence(slot_read(slot))};
    store_object *object = record_add(store, slot, &ref, size);
    object->made = true;
    object->block = memory.block;
    object->own = memory.own;
    list_push_back(&store->made, &object->place);
    uint64_t offset = store_memory_offset(object);
    atomic_store_explicit(&slot->owner, ref.id.owner, memory_order_relaxed);
    atomic_store_explicit(&slot->number, ref.id.number, memory_order_relaxed);
    atomic_store_explicit(&slot->offset, offset, memory_order_relaxed);
    atomic_store_explicit(&slot->size, size, memory_order_relaxed);
    atomic_store_explicit(&slot->moves, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->word, slot_word(ref.sequence, SLOT_CREATING), memory_order_release);
    STORE_STEP(store, "store.creating");
    object->entry = holds_add(&store->holds, ref.slot);
    object->holds = 1;
    MR_ASSERT(object->entry != NULL && (object->block != NULL) != (object->own != NULL));
    CHECK_INVARIANTS(store->by_slot.count + BLOCKS_LISTS, store_check(store));
    *out = object;
    *data = arena_at(store->arena, offset);
    return MR_OK;
}

int64_t store_retry_us(const store *store) { return store->retry_us; }

static bool is_creating(const store_object *object) {
    return slot_read(object->slot) == slot_word(object->ref.sequence, SLOT_CREATING);
}

void store_seal(store *store, store_object *object) {
    MR_ASSERT(object->made && is_creating(object));
    STORE_STEP(store, "store.seal");
    atomic_store_explicit(&object->slot->used_us, clock_now_us(store->options.clock), memory_order_relaxed);
    atomic_store_explicit(&object->slot->word, slot_word(object->ref.sequence, SLOT_SEALED), memory_order_release);
    STORE_STEP(store, "store.sealed");
}

/* Nobody else knows it: it ends here and now. False: the vault has its memory, and has to end it. */
static bool free_alone(store *store, store_object *object) {
    for (;;) {
        uint64_t word = slot_read(object->slot);
        slot_state state = word_state(word);
        if (state != SLOT_CREATING && state != SLOT_SEALED && state != SLOT_SPILLING) return false;
        if (atomic_load(&object->slot->moves) > 0) return false; /* was on disk; only we can have asked for it back */
        if (slot_change(object->slot, word, slot_word(object->ref.sequence + 1, SLOT_FREE))) break;
    }
    STORE_STEP(store, "store.free");
    unhold(store, object);
    store_memory_release(store, object);
    slot_reuse(store, object);
    return true;
}

void store_abort(store *store, store_object *object) {
    MR_ASSERT(object->made && is_creating(object));
    STORE_STEP(store, "store.abort");
    bool freed = free_alone(store, object);
    MR_ASSERT(freed);
}

/* ---- Holding. */

void store_ref(store *store, store_object *object, object_ref *out) {
    MR_ASSERT(object->holds > 0 && !(object->made && is_creating(object)));
    object->shown = true;
    *out = object->ref;
}

object_ref store_peek(const store_object *object) { return object->ref; }

static bool names_slot(const store *store, const object_ref *ref) {
    return ref->slot % sizeof(slot) == 0 && ref->slot < store->arena->size &&
           arena_holds(store->arena, (extent){ref->slot, sizeof(slot)});
}

mr_status store_take(store *store, const object_ref *ref, store_object **out) {
    if (!names_slot(store, ref))
        return error_set(MR_INVALID, "no object of this machine is at offset %" PRIu64, ref->slot);
    store_object *object = map_get(&store->by_slot, ref->slot);
    if (object != NULL && object->ref.sequence == ref->sequence && object->holds > 0) {
        object->holds++;
        *out = object;
        return MR_OK;
    }
    MR_TRY(store_need(store, WANT_HOLDS));
    slot *slot = arena_at(store->arena, ref->slot);
    STORE_STEP(store, "store.take");
    hold_entry *entry = holds_add(&store->holds, ref->slot);
    MR_ASSERT(entry != NULL); /* store_need has seen to that */
    STORE_STEP(store, "store.taking");
    /* The id first: a ref that is nonsense must not make us write anywhere. A slot that is held is of another object. */
    if ((object != NULL && object->holds > 0) || atomic_load(&slot->owner) != ref->id.owner ||
        atomic_load(&slot->number) != ref->id.number || !slot_confirm_hold(slot, ref->sequence)) {
        holds_remove(&store->holds, entry);
        return error_set(MR_NOT_FOUND, "object %" PRIx64 ":%" PRIu64 " was deleted", ref->id.owner, ref->id.number);
    }
    STORE_STEP(store, "store.taken");
    store_ask_ahead(store);
    if (object == NULL)
        object = record_add(store, slot, ref, atomic_load(&slot->size));
    else
        set_idle(store, object, false);
    MR_ASSERT(object->entry == NULL && object->views == 0);
    object->shown = true;
    object->entry = entry;
    object->holds = 1;
    CHECK_INVARIANTS(store->by_slot.count + BLOCKS_LISTS, store_check(store));
    *out = object;
    return MR_OK;
}

void store_drop(store *store, store_object *object) {
    MR_ASSERT(object->holds > 0);
    if (object->holds > 1) {
        object->holds--;
        return;
    }
    MR_ASSERT(object->views == 0 && !(object->made && is_creating(object)));
    STORE_STEP(store, "store.drop");
    if (object->made && !object->shown && free_alone(store, object)) return;
    unhold(store, object);
    object->restoring = false;
    if (!object->made) {
        record_free(store, object);
        return;
    }
    set_idle(store, object, true); /* the vault says when it is over (notice) */
    store_ask_collect(store);
    CHECK_INVARIANTS(store->by_slot.count + BLOCKS_LISTS, store_check(store));
}

void store_delete(store *store, store_object *object) {
    MR_ASSERT(object->holds > 0 && !(object->made && is_creating(object)));
    STORE_STEP(store, "store.delete");
    for (;;) {
        uint64_t word = slot_read(object->slot), sequence = word_sequence(word);
        slot_state next = word_state(word) == SLOT_SPILLED ? SLOT_LOST : SLOT_DOOMED;
        if (word_state(word) == SLOT_DOOMED || word_state(word) == SLOT_LOST) return;
        if (slot_change(object->slot, word, slot_word(sequence, next))) return;
    }
}

uint64_t store_size(const store_object *object) { return object->size; }

/* ---- Viewing. */

static mr_status ask_restore(store *store, store_object *object) {
    bool refused = object->refused && clock_now_us(store->options.clock) - object->refused_us < REFUSED_US;
    object->refused = false;
    if (refused) {
        holds_unpin(&store->holds, object->entry);
        return error_set(MR_NOMEM, "%s", store->failure);
    }
    if (!object->restoring) {
        object->restoring = true;
        store->retry_us = -1;
        store_request request = {.ask = STORE_RESTORE, .ref = object->ref};
        mr_status status = store->ops->ask(store->context, &request);
        if (status != MR_OK) {
            object->restoring = false;
            holds_unpin(&store->holds, object->entry);
            return status;
        }
    }
    return error_set(MR_BUSY, "an object of %" PRIu64 " bytes is being restored from disk", object->size);
}

/* Its bytes are in memory and stay there: where the view is. */
static mr_status show(store *store, store_object *object) {
    uint64_t offset = atomic_load(&object->slot->offset), size = object->size;
    extent bytes = {offset, size == 0 ? 1 : size};
    if (!arena_holds(store->arena, bytes) || (size > STORE_SMALL && offset % store->views.page != 0))
        return error_set(MR_CORRUPT, "malformed object header: %" PRIu64 " bytes at offset %" PRIu64, size, offset);
    if (size > STORE_SMALL) {
        object->data_offset = offset;
        object->data = lens_view(&store->views, offset, size);
        return MR_OK;
    }
    void *copy;
    MR_TRY(alloc_try_aligned(64, size == 0 ? 1 : size, &copy));
    memcpy(copy, arena_at(store->arena, offset), size);
    object->data = copy;
    return MR_OK;
}

mr_status store_view(store *store, store_object *object, void **data, uint64_t *size) {
    MR_ASSERT(object->holds > 0 && !(object->made && is_creating(object)));
    if (object->views == 0) {
        STORE_STEP(store, "store.view");
        holds_pin(object->entry);
        STORE_STEP(store, "store.pinned");
        slot_state state = slot_confirm_pin(object->slot);
        if (state == SLOT_SPILLED) {
            mr_status status = ask_restore(store, object);
            if (status != MR_BUSY || object->restoring) return status;
            state = slot_confirm_pin(object->slot); /* answered already */
            if (state == SLOT_SPILLED) return status;
            holds_pin(object->entry);
        }
        mr_status status = state == SLOT_SEALED ? show(store, object)
                                                : error_set(MR_OBJECT_LOST, "the object was deleted, or lost on disk");
        if (status != MR_OK) {
            holds_unpin(&store->holds, object->entry);
            return status;
        }
        atomic_store_explicit(&object->slot->used_us, clock_now_us(store->options.clock), memory_order_relaxed);
        store->viewed++;
        STORE_STEP(store, "store.viewed");
    }
    object->views++;
    MR_ASSERT(object->data != NULL && store->viewed > 0);
    *data = object->data;
    *size = object->size;
    return MR_OK;
}

static void hide(store *store, store_object *object) {
    MR_ASSERT(object->data != NULL && store->viewed > 0);
    if (object->size > STORE_SMALL)
        lens_drop(&store->views, object->data_offset, object->size);
    else
        free(object->data);
    object->data = NULL;
    store->viewed--;
}

void store_unview(store *store, store_object *object) {
    MR_ASSERT(object->views > 0);
    if (--object->views > 0) return;
    STORE_STEP(store, "store.unview");
    hide(store, object);
    holds_unpin(&store->holds, object->entry);
    CHECK_INVARIANTS(store->by_slot.count + BLOCKS_LISTS, store_check(store));
}

bool store_locate(const store *store, const void *viewed, uint64_t *offset) {
    uintptr_t at = (uintptr_t)viewed - (uintptr_t)store->views.base; /* wraps if it lies before */
    *offset = at;
    return at < store->views.size;
}

/* ---- Life. */

mr_status store_open(const arena *arena, extent desk, const store_ops *ops, void *context, const store_options *options,
                     store **out) {
    MR_ASSERT(ops->ask != NULL && options->process != 0);
    if (!arena_holds(arena, desk) || desk.size < DESK_BYTES)
        return error_set(MR_CORRUPT, "malformed process page of %" PRIu64 " bytes", desk.size);
    store *store = xcalloc(1, sizeof *store);
    mr_status status = lens_open(arena, &store->views);
    if (status != MR_OK) {
        free(store);
        return status;
    }
    store->arena = arena;
    store->ops = ops;
    store->context = context;
    store->options = *options;
    store->next_number = 1;
    store->retry_us = -1;
    list_init(&store->made);
    list_init(&store->idle);
    holds_init(&store->holds, arena_at(arena, desk.offset));
    store->holds.step = ops->step;
    store->holds.context = context;
    store_memory_init(store);
    FAILPOINT("store.open");
    *out = store;
    return MR_OK;
}

static void forget_object(store *store, store_object *object) {
    if (object->data != NULL) hide(store, object);
    object->views = 0;
    if (object->own != NULL) free(object->own);
    object->own = NULL;
    object->block = NULL; /* freed with its stretch */
    list_remove(&object->place);
    free(object);
}

void store_abandon(store *store) {
    map_for_each (found, &store->by_slot) forget_object(store, found.value);
    map_fini(&store->by_slot);
    store_memory_fini(store);
    holds_fini(&store->holds);
    lens_close(&store->views);
    free(store);
}

void store_close(store *store) {
    if (store == NULL) return;
    STORE_STEP(store, "store.close");
    map_for_each (found, &store->by_slot) {
        store_object *object = found.value;
        if (object->entry != NULL) unhold(store, object);
    }
    store_abandon(store);
}

/* Its bytes are no object's any more. */
static bool keep_viewed(store *store, store_object *object, bool alone) {
    if (object->views == 0 || object->size <= STORE_SMALL) return false;
    if (!alone) lens_keep(&store->views, object->data_offset, object->size);
    object->views = 0;
    object->data = NULL;
    store->viewed--;
    return true;
}

void store_close_keeping(store *store, bool alone, lens *out) {
    bool any = false;
    map_for_each (found, &store->by_slot) any |= keep_viewed(store, found.value, alone);
    *out = any ? store->views : LENS_NONE;
    if (any) store->views = LENS_NONE;
    store_close(store);
}

store_stats store_stats_now(const store *store) {
    return (store_stats){.leased = store->leased,
                         .used = store->small.used + store->pages.used,
                         .spare = store->spare_bytes,
                         .objects = (uint32_t)store->by_slot.count,
                         .views = store->viewed};
}
