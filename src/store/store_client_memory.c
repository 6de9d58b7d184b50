/* store_client_memory.c — extents that a store client requested, holds and returns. Tested by
 * src/store/store_client_test.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/log.h"
#include "store/client_internal.h"

enum {
    TOUCH_BYTES = 1 << 20,
    UNIT = 64,
    AHEAD = 32,              /* more slots or entries are requested when fewer than this are free */
    COLLECT_COUNT = 64,      /* a collection is requested at this many idle objects, */
    COLLECT_BYTES = 4 << 20, /* or this many bytes in idle objects, at least */
};

void store_client_memory_init(store_client *store) {
    block_allocator_init(&store->small, UNIT);
    block_allocator_init(&store->pages, store->views.page);
    list_init(&store->spare);
    store->touched = xcalloc(store->arena->size / TOUCH_BYTES / 64 + 1, sizeof store->touched[0]);
}

void store_client_memory_fini(store_client *store) {
    block_allocator_fini(&store->small);
    block_allocator_fini(&store->pages);
    for (list *item; (item = list_pop_front(&store->spare)) != NULL;) free(container_of(item, own_stretch, place));
    free(store->touched);
    free(store->free_headers);
}

/* Fills the page tables of parts that this process has not used yet: page faults would make a copy much slower. */
static void touch(store_client *store, extent extent) {
    uint64_t end = extent.offset + extent.size;
    for (uint64_t at = extent.offset / TOUCH_BYTES; at * TOUCH_BYTES < end; at++) {
        uint64_t bit = UINT64_C(1) << (at % 64), from = at * TOUCH_BYTES, until = from + TOUCH_BYTES;
        if ((store->touched[at / 64] & bit) != 0) continue;
        bool whole = from >= extent.offset && until <= end;
        if (from < extent.offset) from = extent.offset;
        if (until > end) until = end;
        if (arena_populate(store->arena, from, until) != MR_OK)
            return; /* not an error: the pages are faulted in later */
        if (whole) store->touched[at / 64] |= bit;
    }
}

/* ---- Requests. */

static const struct {
    lease_kind kind;
    uint64_t size;
} wants[WANTS] = {
    [WANT_SLOTS] = {LEASE_SLOTS, OBJECT_HEADER_PAGE_BYTES},
    [WANT_HOLDS] = {LEASE_HOLDS, HOLDS_CHUNK_BYTES},
    [WANT_SMALL] = {LEASE_STRETCH, STORE_CLIENT_SMALL_STRETCH},
    [WANT_PAGES] = {LEASE_STRETCH, STORE_CLIENT_STRETCH},
    [WANT_OWN] = {LEASE_OWN, 0},
};

static store_client_want want_of(const store_client_request *request) {
    for (int i = 0; i < WANT_OWN; i++)
        if (wants[i].kind == request->kind && wants[i].size == request->size) return (store_client_want)i;
    return WANT_OWN;
}

/* Requests memory and returns the result of the last answer. MR_OK: the request was granted during the call. */
static mr_status ask(store_client *store, store_client_want want, uint64_t size) {
    if (!store->pending[want] && store->failed[want] == MR_OK) {
        store->pending[want] = true;
        store->retry_us = -1;
        store_client_request request = {.ask = STORE_CLIENT_LEASE, .kind = wants[want].kind, .size = size};
        mr_status status = store->ops->ask(store->context, &request);
        if (status != MR_OK) {
            store->pending[want] = false;
            store->retry_us = STORE_SERVER_RETRY_US;
            return status;
        }
    }
    mr_status failed = store->failed[want];
    store->failed[want] = MR_OK;
    if (failed == MR_BUSY)
        return error_set(failed, "no room in %" PRIu64 " bytes of shared memory", store->arena->size);
    if (failed != MR_OK) return error_set(failed, "%s", store->failure);
    return store->pending[want] ? error_set(MR_BUSY, "waiting for shared memory (kind %d)", (int)want) : MR_OK;
}

void store_client_ask_ahead(store_client *store) {
    if (store->free_slot_count < AHEAD && store->slot_capacity > 0 && !store->pending[WANT_SLOTS])
        (void)ask(store, WANT_SLOTS, wants[WANT_SLOTS].size);
    if (store->holds.free_count < AHEAD && !store->pending[WANT_HOLDS])
        (void)ask(store, WANT_HOLDS, wants[WANT_HOLDS].size);
}

void store_client_ask_collect(store_client *store) {
    bool many = store->idle_count >= COLLECT_COUNT && store->idle_count >= store->slot_capacity / 2;
    bool much = store->idle_bytes >= COLLECT_BYTES && store->idle_bytes >= store->leased / 2;
    if (store->collecting || (!many && !much)) return;
    store->collecting = store->ops->ask(store->context, &(store_client_request){.ask = STORE_CLIENT_COLLECT}) == MR_OK;
}

static void add_slots(store_client *store, extent extent) {
    object_header *headers = arena_at(store->arena, extent.offset);
    MR_ASSERT(extent.size >= OBJECT_HEADER_PAGE_BYTES && store->free_slot_count <= store->slot_capacity);
    store->slot_capacity += OBJECT_HEADERS_PER_PAGE;
    store->free_headers = xrealloc(store->free_headers, store->slot_capacity * sizeof store->free_headers[0]);
    for (size_t i = OBJECT_HEADERS_PER_PAGE; i-- > 0;) store->free_headers[store->free_slot_count++] = &headers[i];
}

static void add_own(store_client *store, extent extent) {
    own_stretch *own = XNEW(own_stretch, .extent = extent);
    list_push_back(&store->spare, &own->place);
}

static void add_leased(store_client *store, const store_client_request *request, extent extent) {
    store_client_want want = want_of(request);
    STORE_CLIENT_STEP(store, "store.leased");
    arena_allow(store->arena, extent);
    if (want == WANT_SLOTS) {
        add_slots(store, extent);
        return;
    }
    if (want == WANT_HOLDS) {
        hold_table_grow(&store->holds, arena_at(store->arena, extent.offset));
        return;
    }
    touch(store, extent);
    store->leased += extent.size;
    store->spare_bytes += extent.size;
    if (want == WANT_OWN)
        add_own(store, extent);
    else
        block_allocator_add(want == WANT_SMALL ? &store->small : &store->pages, extent);
}

static void keep_failure(store_client *store) {
    snprintf(store->failure, sizeof store->failure, "%s", mr_last_error());
}

void store_client_answer(store_client *store, const store_client_request *request, mr_status status, extent extent,
                         int64_t retry_us) {
    if (request->ask == STORE_CLIENT_RESTORE) {
        store_client_object *object = map_get(&store->by_slot, request->ref.slot);
        if (status == MR_BUSY) store->retry_us = retry_us > 0 ? retry_us : STORE_SERVER_RETRY_US;
        if (object == NULL || object->ref.sequence != request->ref.sequence) return;
        object->restoring = false;
        if (status == MR_NOMEM) {
            object->refused = true;
            object->refused_us = clock_now_us(store->options.clock);
            keep_failure(store);
        }
        if (status != MR_OK && object->views == 0 && object->entry != NULL)
            hold_table_unpin(&store->holds, object->entry);
        return;
    }
    if (request->ask == STORE_CLIENT_COLLECT) {
        store->collecting = false;
        store_client_poll(store);
        return;
    }
    MR_ASSERT(request->ask == STORE_CLIENT_LEASE);
    store_client_want want = want_of(request);
    MR_ASSERT(store->pending[want]); /* a request has one answer */
    store->pending[want] = false;
    uint64_t page = store->views.page;
    if (status == MR_OK && (!arena_holds(store->arena, extent) || extent.size < request->size ||
                            extent.offset % 4096 != 0 || (want >= WANT_PAGES && extent.offset % page != 0)))
        status = error_set(MR_CORRUPT, "malformed extent of %" PRIu64 " bytes at %" PRIu64, extent.size, extent.offset);
    if (status == MR_OK) {
        add_leased(store, request, extent);
        return;
    }
    store->failed[want] = status;
    store->retry_us = status == MR_BUSY && retry_us > 0 ? retry_us : STORE_SERVER_RETRY_US;
    if (status != MR_BUSY) keep_failure(store);
}

/* ---- Return of memory. */

static void give_back(store_client *store, extent extent) {
    MR_ASSERT(store->leased >= extent.size && store->spare_bytes >= extent.size);
    store->leased -= extent.size;
    store->spare_bytes -= extent.size;
    STORE_CLIENT_STEP(store, "store.give_back");
    store_client_request request = {.ask = STORE_CLIENT_GIVE_BACK, .extent = extent};
    if (store->ops->ask(store->context, &request) !=
        MR_OK) /* the store server frees the extent when this process leaves */
        log_debug("an extent of %" PRIu64 " bytes could not be returned: %s", extent.size, mr_last_error());
}

static void give_back_own(store_client *store, own_stretch *own) {
    extent extent = own->extent;
    list_remove(&own->place);
    free(own);
    give_back(store, extent);
}

static void stretch_emptied(store_client *store, block_allocator *allocator, stretch *stretch) {
    store->spare_bytes += stretch->extent.size;
    if (stretch->closed || store->spare_bytes > STORE_CLIENT_SPARE_BYTES)
        give_back(store, block_allocator_remove(allocator, stretch));
}

static void blocks_back(store_client *store, block_allocator *allocator, bool close) {
    list_for_each (at, &allocator->stretches) {
        stretch *stretch = container_of(at, struct stretch, place);
        if (stretch_is_empty(stretch))
            give_back(store, block_allocator_remove(allocator, stretch));
        else if (close && stretch->used < stretch->extent.size / 4)
            block_allocator_close(allocator, stretch);
    }
}

void store_client_memory_back(store_client *store, bool close) {
    list_for_each (at, &store->spare) give_back_own(store, container_of(at, own_stretch, place));
    blocks_back(store, &store->small, close);
    blocks_back(store, &store->pages, close);
}

/* ---- Memory for one object. */

mr_status store_client_need(store_client *store, store_client_want want) {
    MR_ASSERT(want == WANT_SLOTS || want == WANT_HOLDS);
    bool there = want == WANT_SLOTS ? store->free_slot_count > 0 : store->holds.free_count > 0;
    return there ? MR_OK : ask(store, want, wants[want].size);
}

static block *take_block(store_client *store, block_allocator *allocator, uint64_t size) {
    block *block = block_allocator_alloc(allocator, size);
    MR_ASSERT(block == NULL || block->extent.size >= size);
    if (block != NULL && block->stretch->used == block->extent.size) store->spare_bytes -= block->stretch->extent.size;
    return block;
}

static uint64_t own_bytes(const store_client *store, uint64_t size) {
    uint64_t page = store->views.page;
    return (size + page - 1) / page * page;
}

/* Takes the smallest empty stretch that is large enough and at most an eighth larger than wanted. */
static bool take_spare(store_client *store, uint64_t wanted, store_client_object *object) {
    own_stretch *best = NULL;
    list_for_each (at, &store->spare) {
        own_stretch *own = container_of(at, own_stretch, place);
        if (own->extent.size < wanted || own->extent.size - wanted > wanted / 8) continue;
        if (best == NULL || own->extent.size < best->extent.size) best = own;
    }
    if (best == NULL) return false;
    MR_ASSERT(object->own == NULL && object->block == NULL && store->spare_bytes >= best->extent.size);
    list_remove(&best->place);
    store->spare_bytes -= best->extent.size;
    object->own = best;
    return true;
}

static mr_status take_own(store_client *store, uint64_t size, store_client_object *object) {
    uint64_t wanted = own_bytes(store, size);
    for (int round = 0; !take_spare(store, wanted, object); round++) {
        MR_ASSERT(round < 2); /* an answer without an error has added a stretch */
        MR_TRY(ask(store, WANT_OWN, wanted));
    }
    return MR_OK;
}

mr_status store_client_memory_take(store_client *store, uint64_t size, store_client_object *object) {
    if (size == 0) size = 1;
    if (size > STORE_CLIENT_OWN_BYTES) return take_own(store, size, object);
    store_client_want want = size <= STORE_CLIENT_SMALL ? WANT_SMALL : WANT_PAGES;
    block_allocator *allocator = want == WANT_SMALL ? &store->small : &store->pages;
    object->block = take_block(store, allocator, size);
    if (object->block != NULL) return MR_OK;
    /* Memory that was requested for this object alone is used first. Another request for a whole stretch, which fails,
     * would make the store server ask for the return of empty stretches, this one included, in an endless loop. */
    if (take_spare(store, own_bytes(store, size), object) || store->pending[WANT_OWN])
        return object->own != NULL ? MR_OK : take_own(store, size, object);
    mr_status status = ask(store, want, wants[want].size);
    if (status == MR_OK) object->block = take_block(store, allocator, size);
    if (object->block != NULL) return MR_OK;
    /* There may be room for one object where there is none for a whole stretch. */
    return store->pending[want] || status == MR_CLOSED ? status : take_own(store, size, object);
}

uint64_t store_client_memory_offset(const store_client_object *object) {
    MR_ASSERT((object->block != NULL) != (object->own != NULL));
    return object->block != NULL ? object->block->extent.offset : object->own->extent.offset;
}

static void release_block(store_client *store, store_client_object *object) {
    block *block = object->block;
    MR_ASSERT(object->own == NULL && !block->free);
    object->block = NULL;
    block_allocator *allocator = block->extent.offset % store->pages.unit == 0 && object->size > STORE_CLIENT_SMALL
                                     ? &store->pages
                                     : &store->small;
    stretch *stretch = block_allocator_free(allocator, block);
    if (stretch_is_empty(stretch)) stretch_emptied(store, allocator, stretch);
}

void store_client_memory_release(store_client *store, store_client_object *object) {
    if (object->block != NULL) release_block(store, object);
    if (object->own == NULL) return;
    store->spare_bytes += object->own->extent.size;
    list_push_back(&store->spare, &object->own->place);
    object->own = NULL;
    /* The last empty stretch is kept, whatever its size, for loops that create and drop one object after another. */
    while (store->spare_bytes > STORE_CLIENT_SPARE_BYTES && store->spare.next != store->spare.prev)
        give_back_own(store, container_of(store->spare.next, own_stretch, place));
}

void store_client_memory_forget(store_client *store, store_client_object *object) {
    if (object->block != NULL) release_block(store, object);
    if (object->own == NULL) return;
    MR_ASSERT(store->leased >= object->own->extent.size);
    store->leased -= object->own->extent.size;
    free(object->own);
    object->own = NULL;
}
