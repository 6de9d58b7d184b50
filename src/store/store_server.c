/* store_server.c — see store_server.h; the records are described in server_internal.h. This file: lending and return of
 * extents, and objects of dead processes. Tested by src/store/store_client_test.c. */
#include "store/store_server.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/invariants.h"
#include "base/log.h"
#include "base/mutation.h"
#include "store/server_internal.h"

/* ---- Lookup. */

page_book *store_server_page(const store_server *server, uint64_t slot, uint32_t *index) {
    if (slot % sizeof(struct object_header) != 0) return NULL;
    page_book *page = map_get(&server->by_page, slot / 4096);
    if (page != NULL) *index = (uint32_t)((slot - page->extent.offset) / sizeof(struct object_header));
    return page;
}

static bool lies_in(extent whole, uint64_t offset, uint64_t size) {
    return offset >= whole.offset && offset - whole.offset <= whole.size &&
           size <= whole.size - (offset - whole.offset);
}

stretch_book *store_server_home(const store_server *server, const page_book *page, uint32_t index) {
    const object_header *header = page_slot(server, page, index);
    uint64_t offset = atomic_load(&header->offset), size = atomic_load(&header->size);
    if (page->homes[index] != NULL)
        return lies_in(page->homes[index]->extent, offset, size) ? page->homes[index] : NULL;
    if (page->owner == NULL) return NULL;
    stretch_book *found = map_get(&server->stretches, offset); /* usually a LEASE_OWN stretch */
    if (found != NULL && found->owner == page->owner) return lies_in(found->extent, offset, size) ? found : NULL;
    list_for_each (at, &page->owner->stretches) {
        stretch_book *stretch = container_of(at, stretch_book, place);
        if (stretch->kind == LEASE_STRETCH && lies_in(stretch->extent, offset, size)) return stretch;
    }
    return NULL;
}

/* ---- Stretches. */

stretch_book *store_server_stretch_add(store_server *server, process_book *owner, extent extent, lease_kind kind) {
    MR_ASSERT(extent.size > 0 && map_get(&server->stretches, extent.offset) == NULL && kind >= LEASE_STRETCH);
    stretch_book *stretch = XNEW(stretch_book, .extent = extent, .kind = kind, .owner = owner);
    list_push_back(owner != NULL ? &owner->stretches : &server->orphans, &stretch->place);
    map_put(&server->stretches, extent.offset, stretch);
    return stretch;
}

/* Lends the latest stretch of this size that the process had before and that is free. */
static bool known_again(store_server *server, process_book *process, uint64_t size, extent *out) {
    for (size_t age = 1; server->ops->extent_take != NULL && age <= KNOWN_MAX; age++) {
        extent *known = &process->known[(process->known_next + KNOWN_MAX - age) % KNOWN_MAX];
        if (known->size != size || server->ops->extent_take(server->context, *known) != MR_OK) continue;
        *out = *known;
        known->size = 0;
        process->starving_since_us = CLOCK_NEVER_US;
        return true;
    }
    return false;
}

void store_server_stretch_free(store_server *server, stretch_book *stretch) {
    MR_ASSERT(map_get(&server->stretches, stretch->extent.offset) == stretch);
    if (stretch->owner != NULL && stretch->kind == LEASE_OWN)
        stretch->owner->known[stretch->owner->known_next++ % KNOWN_MAX] = stretch->extent;
    map_remove(&server->stretches, stretch->extent.offset);
    list_remove(&stretch->place);
    server->ops->extent_free(server->context, stretch->extent);
    free(stretch);
}

void store_server_take_memory(store_server *server, page_book *page, uint32_t index) {
    MR_ASSERT(index < OBJECT_HEADERS_PER_PAGE);
    stretch_book *home = page->homes[index];
    if (home != NULL) {
        MR_ASSERT(home->live > 0 && home->owner == NULL);
        page->homes[index] = NULL;
        if (--home->live == 0) store_server_stretch_free(server, home);
        return;
    }
    stretch_book *own = store_server_home(server, page, index);
    /* the creating process reuses a block itself */
    if (own != NULL && own->kind == LEASE_OWN) store_server_stretch_free(server, own);
}

/* ---- Lending. */

static process_book *process_add(store_server *server, uint64_t id, extent lease_page) {
    MR_ASSERT(map_get(&server->by_id, id) == NULL && lease_page.size >= PROCESS_PAGE_BYTES);
    process_book *process = XNEW(process_book, .id = id, .lease_page = lease_page, .starving_since_us = CLOCK_NEVER_US);
    list_init(&process->chunks);
    list_init(&process->stretches);
    list_init(&process->pages);
    list_push_back(&server->processes, &process->place);
    map_put(&server->by_id, id, process);
    return process;
}

static void chunk_add(process_book *process, extent extent) {
    chunk_book *chunk = XNEW(chunk_book, .extent = extent);
    list_push_back(&process->chunks, &chunk->place);
}

static void page_add(store_server *server, process_book *owner, extent extent) {
    MR_ASSERT(extent.size >= OBJECT_HEADER_PAGE_BYTES && extent.offset % 4096 == 0);
    page_book *page = XNEW(page_book, .extent = extent, .owner = owner);
    list_push_back(&server->pages, &page->place);
    list_push_back(&owner->pages, &page->own);
    for (uint64_t i = 0; i < PAGE_KEYS; i++) map_put(&server->by_page, extent.offset / 4096 + i, page);
}

/* Lends a page of slots of a dead process in which all slots are FREE. */
static bool page_again(store_server *server, process_book *owner, extent *out) {
    list_for_each (at, &server->pages) {
        page_book *page = container_of(at, page_book, place);
        if (page->owner != NULL || page->busy > 0) continue;
        page->owner = owner;
        list_push_back(&owner->pages, &page->own);
        *out = page->extent;
        return true;
    }
    return false;
}

static mr_status lease_size(const store_server *server, lease_kind kind, uint64_t *size) {
    static const uint64_t fixed[LEASE_KINDS] = {PROCESS_PAGE_BYTES, HOLDS_CHUNK_BYTES, OBJECT_HEADER_PAGE_BYTES};
    uint64_t most = server->arena->size - ARENA_EXTENTS_OFFSET;
    if (fixed[kind] != 0) return *size = fixed[kind], MR_OK;
    if (*size == 0) return error_set(MR_INVALID, "an extent of 0 bytes: the minimum is 1");
    if (*size > most)
        return error_set(MR_TOO_LARGE, "%" PRIu64 " bytes can never fit: all the shared memory is %" PRIu64, *size,
                         most);
    return MR_OK;
}

mr_status store_server_lease(store_server *server, uint64_t id, lease_kind kind, uint64_t size, int64_t now_us,
                             extent *out, int64_t *retry_us) {
    process_book *process = map_get(&server->by_id, id);
    if ((unsigned)kind >= LEASE_KINDS) return error_set(MR_INVALID, "unknown kind of extent: %d", (int)kind);
    if (kind == LEASE_PAGE && process != NULL) return error_set(MR_EXISTS, "process %" PRIx64 " has a page", id);
    if (kind != LEASE_PAGE && process == NULL) return error_set(MR_INVALID, "process %" PRIx64 " has no page", id);
    MR_TRY(lease_size(server, kind, &size));
    if (kind == LEASE_SLOTS && page_again(server, process, out)) return MR_OK;
    extent extent;
    if (kind != LEASE_OWN || !known_again(server, process, size, &extent))
        MR_TRY(store_server_room(server, process, kind, size, now_us, &extent, retry_us));
    FAILPOINT("store.vault_lend");
    switch (kind) {
    case LEASE_PAGE: process_add(server, id, extent); break;
    case LEASE_HOLDS: chunk_add(process, extent); break;
    case LEASE_SLOTS: page_add(server, process, extent); break;
    default: store_server_stretch_add(server, process, extent, kind); break;
    }
    if (kind <= LEASE_SLOTS) memset(arena_at(server->arena, extent.offset), 0, extent.size);
    CHECK_INVARIANTS(server->stretches.count + server->by_page.count * OBJECT_HEADERS_PER_PAGE,
                     store_server_check(server));
    *out = extent;
    return MR_OK;
}

mr_status store_server_give_back(store_server *server, uint64_t id, extent extent) {
    stretch_book *stretch = map_get(&server->stretches, extent.offset);
    if (stretch == NULL || stretch->owner == NULL || stretch->owner->id != id || stretch->extent.size != extent.size)
        return error_set(MR_INVALID, "process %" PRIx64 " returned %" PRIu64 " bytes that it does not have", id,
                         extent.size);
    FAILPOINT("store.vault_back");
    store_server_stretch_free(server, stretch);
    CHECK_INVARIANTS(server->stretches.count + server->by_page.count * OBJECT_HEADERS_PER_PAGE,
                     store_server_check(server));
    return MR_OK;
}

/* ---- Objects of dead processes. */

static bool in_memory(object_header_state state) {
    return state == OBJECT_HEADER_SEALED || state == OBJECT_HEADER_SPILLING || state == OBJECT_HEADER_DOOMED;
}

/* Takes over a slot of a dead process: from now on only the store server and the object's holders write it. */
static void inherit_slot(store_server *server, page_book *page, uint32_t index) {
    object_header *header = page_slot(server, page, index);
    uint64_t word = object_header_read(header);
    object_header_state state = object_word_state(word);
    if (state == OBJECT_HEADER_FREE) return;
    if (state == OBJECT_HEADER_CREATING && MUTATED("no-half-end")) return;
    if (!object_word_holdable(word)) { /* CREATING, or GONE and not noticed yet, or an invalid word */
        uint64_t next = object_word_sequence(word) + (state != OBJECT_HEADER_GONE);
        if (page->homes[index] != NULL) store_server_take_memory(server, page, index);
        store_server_file_forget(server, slot_offset(page, index));
        atomic_store(&header->word, object_header_word(next, OBJECT_HEADER_FREE));
        return;
    }
    page->busy++;
    if (!in_memory(state) || page->homes[index] != NULL) return;
    stretch_book *home = store_server_home(server, page, index);
    if (home != NULL) {
        page->homes[index] = home;
        home->live++;
        return;
    }
    log_warn("an object of dead process %" PRIx64 " is lost: malformed header", page->owner->id);
    while (!object_header_change(header, word, object_header_word(object_word_sequence(word), OBJECT_HEADER_LOST)))
        word = object_header_read(header);
}

static void inherit(store_server *server, process_book *process) {
    list_for_each (at, &process->pages) {
        page_book *page = container_of(at, page_book, own);
        page->busy = 0;
        for (uint32_t i = 0; i < OBJECT_HEADERS_PER_PAGE; i++) inherit_slot(server, page, i);
    }
    for (list *item; (item = list_pop_front(&process->pages)) != NULL;)
        container_of(item, page_book, own)->owner = NULL;
    for (list *item; (item = list_pop_front(&process->stretches)) != NULL;) {
        stretch_book *stretch = container_of(item, stretch_book, place);
        stretch->owner = NULL;
        list_push_back(&server->orphans, &stretch->place);
        if (stretch->live == 0) store_server_stretch_free(server, stretch);
    }
}

static void leave(store_server *server, process_book *process) {
    server->released_seen -= atomic_load(&page_of(server, process)->released);
    server->released = true;
    inherit(server, process);
    MR_ASSERT(list_empty(&process->pages) && list_empty(&process->stretches));
    for (list *item; (item = list_pop_front(&process->chunks)) != NULL;) {
        chunk_book *chunk = container_of(item, chunk_book, place);
        server->ops->extent_free(server->context, chunk->extent);
        free(chunk);
    }
    server->ops->extent_free(server->context, process->lease_page);
    map_remove(&server->by_id, process->id);
    list_remove(&process->place);
    free(process);
}

void store_server_leave(store_server *server, uint64_t id) {
    process_book *process = map_get(&server->by_id, id);
    if (process != NULL && !MUTATED("no-sweep")) leave(server, process);
    CHECK_INVARIANTS(server->stretches.count + server->by_page.count * OBJECT_HEADERS_PER_PAGE,
                     store_server_check(server));
}

/* ---- Open and close. */

store_server *store_server_open(const arena *arena, const store_server_ops *ops, void *context,
                                const store_server_options *options) {
    MR_ASSERT(ops->extent_alloc != NULL && ops->extent_free != NULL);
    MR_ASSERT((ops->save == NULL) == (ops->load == NULL) && (ops->save == NULL) == (ops->forget == NULL));
    store_server *server = XNEW(store_server, .arena = arena, .ops = ops, .context = context, .next_ticket = 1);
    if (options != NULL) server->options = *options;
    if (server->options.patience_us == 0) server->options.patience_us = STORE_SERVER_PATIENCE_US;
    list_init(&server->processes);
    list_init(&server->pages);
    list_init(&server->orphans);
    list_init(&server->moves);
    return server;
}

void store_server_close(store_server *server) {
    if (server == NULL) return;
    store_server_moves_end(server);
    map_for_each (file, &server->files) free(file.value);
    map_fini(&server->files);
    while (!list_empty(&server->processes)) leave(server, container_of(server->processes.next, process_book, place));
    while (!list_empty(&server->orphans))
        store_server_stretch_free(server, container_of(server->orphans.next, stretch_book, place));
    for (list *item; (item = list_pop_front(&server->pages)) != NULL;) {
        page_book *page = container_of(item, page_book, place);
        server->ops->extent_free(server->context, page->extent);
        free(page);
    }
    map_fini(&server->by_id);
    map_fini(&server->by_page);
    map_fini(&server->stretches);
    map_fini(&server->kept);
    free(server);
}

/* ---- Statistics. */

static uint32_t length(const list *head) {
    uint32_t count = 0;
    list_for_each (at, head) count++;
    return count;
}

static uint32_t page_objects(const store_server *server, const page_book *page) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < OBJECT_HEADERS_PER_PAGE; i++)
        count += object_word_state(object_header_read(page_slot(server, page, i))) != OBJECT_HEADER_FREE;
    return count;
}

store_server_stats store_server_stats_now(const store_server *server) {
    store_server_stats stats = server->stats;
    stats.processes = length(&server->processes);
    stats.stretches = (uint32_t)server->stretches.count;
    stats.pages = length(&server->pages);
    stats.moving = length(&server->moves);
    list_for_each (at, &server->pages) stats.objects += page_objects(server, container_of(at, page_book, place));
    map_for_each (found, &server->stretches) stats.bytes += ((stretch_book *)found.value)->extent.size;
    return stats;
}
