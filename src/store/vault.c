/* vault.c — see vault.h; the books are described in vault_books.h. Lending, taking back, inheriting.
 * Tested by src/store/store_test.c. */
#include "store/vault.h"

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
#include "store/vault_books.h"

/* ---- Finding. */

page_book *vault_page(const vault *vault, uint64_t slot, uint32_t *index) {
    if (slot % sizeof(struct slot) != 0) return NULL;
    page_book *page = map_get(&vault->by_page, slot / 4096);
    if (page != NULL) *index = (uint32_t)((slot - page->extent.offset) / sizeof(struct slot));
    return page;
}

static bool lies_in(extent whole, uint64_t offset, uint64_t size) {
    return offset >= whole.offset && offset - whole.offset <= whole.size &&
           size <= whole.size - (offset - whole.offset);
}

stretch_book *vault_home(const vault *vault, const page_book *page, uint32_t index) {
    const slot *slot = page_slot(vault, page, index);
    uint64_t offset = atomic_load(&slot->offset), size = atomic_load(&slot->size);
    if (page->homes[index] != NULL)
        return lies_in(page->homes[index]->extent, offset, size) ? page->homes[index] : NULL;
    if (page->owner == NULL) return NULL;
    stretch_book *found = map_get(&vault->stretches, offset); /* begins with it: its own, most likely */
    if (found != NULL && found->owner == page->owner) return lies_in(found->extent, offset, size) ? found : NULL;
    list_for_each (at, &page->owner->stretches) {
        stretch_book *stretch = container_of(at, stretch_book, place);
        if (stretch->kind == LEASE_STRETCH && lies_in(stretch->extent, offset, size)) return stretch;
    }
    return NULL;
}

/* ---- Stretches. */

stretch_book *vault_stretch_add(vault *vault, process_book *owner, extent extent, lease_kind kind) {
    MR_ASSERT(extent.size > 0 && map_get(&vault->stretches, extent.offset) == NULL && kind >= LEASE_STRETCH);
    stretch_book *stretch = xcalloc(1, sizeof *stretch);
    *stretch = (stretch_book){.extent = extent, .kind = kind, .owner = owner};
    list_push_back(owner != NULL ? &owner->stretches : &vault->orphans, &stretch->place);
    map_put(&vault->stretches, extent.offset, stretch);
    return stretch;
}

static void know(process_book *process, extent extent) {
    process->known[process->known_next] = extent;
    process->known_next = (process->known_next + 1) % KNOWN_MAX;
}

/* The youngest of those that the process knows and nobody has. */
static bool known_again(vault *vault, process_book *process, uint64_t size, extent *out) {
    for (size_t age = 1; vault->ops->extent_take != NULL && age <= KNOWN_MAX; age++) {
        extent *known = &process->known[(process->known_next + KNOWN_MAX - age) % KNOWN_MAX];
        if (known->size != size || vault->ops->extent_take(vault->context, *known) != MR_OK) continue;
        *out = *known;
        known->size = 0;
        process->starving_since_us = CLOCK_NEVER_US;
        return true;
    }
    return false;
}

void vault_stretch_free(vault *vault, stretch_book *stretch) {
    MR_ASSERT(map_get(&vault->stretches, stretch->extent.offset) == stretch);
    if (stretch->owner != NULL && stretch->kind == LEASE_OWN) know(stretch->owner, stretch->extent);
    map_remove(&vault->stretches, stretch->extent.offset);
    list_remove(&stretch->place);
    vault->ops->extent_free(vault->context, stretch->extent);
    free(stretch);
}

void vault_take_memory(vault *vault, page_book *page, uint32_t index) {
    MR_ASSERT(index < SLOTS_PER_PAGE);
    stretch_book *home = page->homes[index];
    if (home != NULL) {
        MR_ASSERT(home->live > 0 && home->owner == NULL);
        page->homes[index] = NULL;
        if (--home->live == 0) vault_stretch_free(vault, home);
        return;
    }
    stretch_book *own = vault_home(vault, page, index);
    if (own != NULL && own->kind == LEASE_OWN) vault_stretch_free(vault, own); /* else the maker reuses the block */
}

/* ---- Lending. */

static process_book *process_add(vault *vault, uint64_t id, extent desk) {
    MR_ASSERT(map_get(&vault->by_id, id) == NULL && desk.size >= DESK_BYTES);
    process_book *process = xcalloc(1, sizeof *process);
    *process = (process_book){.id = id, .desk = desk, .starving_since_us = CLOCK_NEVER_US};
    list_init(&process->chunks);
    list_init(&process->stretches);
    list_init(&process->pages);
    list_push_back(&vault->processes, &process->place);
    map_put(&vault->by_id, id, process);
    return process;
}

static void chunk_add(process_book *process, extent extent) {
    chunk_book *chunk = xcalloc(1, sizeof *chunk);
    chunk->extent = extent;
    list_push_back(&process->chunks, &chunk->place);
}

static void page_add(vault *vault, process_book *owner, extent extent) {
    MR_ASSERT(extent.size >= SLOT_PAGE_BYTES && extent.offset % 4096 == 0);
    page_book *page = xcalloc(1, sizeof *page);
    page->extent = extent;
    page->owner = owner;
    list_push_back(&vault->pages, &page->place);
    list_init(&page->own);
    list_push_back(&owner->pages, &page->own);
    for (uint64_t i = 0; i < PAGE_KEYS; i++) map_put(&vault->by_page, extent.offset / 4096 + i, page);
}

/* A page that a dead process left and in which nothing is alive any more. */
static bool page_again(vault *vault, process_book *owner, extent *out) {
    list_for_each (at, &vault->pages) {
        page_book *page = container_of(at, page_book, place);
        if (page->owner != NULL || page->busy > 0) continue;
        page->owner = owner;
        list_push_back(&owner->pages, &page->own);
        *out = page->extent;
        return true;
    }
    return false;
}

static mr_status lease_size(const vault *vault, lease_kind kind, uint64_t *size) {
    switch (kind) {
    case LEASE_DESK: *size = DESK_BYTES; return MR_OK;
    case LEASE_HOLDS: *size = HOLDS_CHUNK_BYTES; return MR_OK;
    case LEASE_SLOTS: *size = SLOT_PAGE_BYTES; return MR_OK;
    default: break;
    }
    uint64_t most = vault->arena->size - ARENA_EXTENTS_OFFSET;
    if (*size == 0) return error_set(MR_INVALID, "an extent of 0 bytes: the minimum is 1");
    if (*size > most)
        return error_set(MR_TOO_LARGE, "%" PRIu64 " bytes can never fit: all the shared memory is %" PRIu64, *size,
                         most);
    return MR_OK;
}

mr_status vault_lease(vault *vault, uint64_t id, lease_kind kind, uint64_t size, int64_t now_us, extent *out,
                      int64_t *retry_us) {
    process_book *process = map_get(&vault->by_id, id);
    if ((unsigned)kind >= LEASE_KINDS) return error_set(MR_INVALID, "unknown kind of extent: %d", (int)kind);
    if (kind == LEASE_DESK && process != NULL) return error_set(MR_EXISTS, "process %" PRIx64 " has a page", id);
    if (kind != LEASE_DESK && process == NULL) return error_set(MR_INVALID, "process %" PRIx64 " has no page", id);
    MR_TRY(lease_size(vault, kind, &size));
    if (kind == LEASE_SLOTS && page_again(vault, process, out)) return MR_OK;
    extent extent;
    if (kind != LEASE_OWN || !known_again(vault, process, size, &extent))
        MR_TRY(vault_room(vault, process, kind, size, now_us, &extent, retry_us));
    FAILPOINT("store.vault_lend");
    switch (kind) {
    case LEASE_DESK: process_add(vault, id, extent); break;
    case LEASE_HOLDS: chunk_add(process, extent); break;
    case LEASE_SLOTS: page_add(vault, process, extent); break;
    default: vault_stretch_add(vault, process, extent, kind); break;
    }
    if (kind <= LEASE_SLOTS) memset(arena_at(vault->arena, extent.offset), 0, extent.size);
    CHECK_INVARIANTS(vault->stretches.count + vault->by_page.count * SLOTS_PER_PAGE, vault_check(vault));
    *out = extent;
    return MR_OK;
}

mr_status vault_give_back(vault *vault, uint64_t id, extent extent) {
    stretch_book *stretch = map_get(&vault->stretches, extent.offset);
    if (stretch == NULL || stretch->owner == NULL || stretch->owner->id != id || stretch->extent.size != extent.size)
        return error_set(MR_INVALID, "process %" PRIx64 " returned %" PRIu64 " bytes that it does not have", id,
                         extent.size);
    FAILPOINT("store.vault_back");
    vault_stretch_free(vault, stretch);
    CHECK_INVARIANTS(vault->stretches.count + vault->by_page.count * SLOTS_PER_PAGE, vault_check(vault));
    return MR_OK;
}

/* ---- Inheriting. */

static bool in_memory(slot_state state) {
    return state == SLOT_SEALED || state == SLOT_SPILLING || state == SLOT_DOOMED;
}

/* The slot of a process that is gone: nobody but us and the holders of its object writes it from now on. */
static void inherit_slot(vault *vault, page_book *page, uint32_t index) {
    slot *slot = page_slot(vault, page, index);
    uint64_t word = slot_read(slot);
    slot_state state = word_state(word);
    if (state == SLOT_FREE) return;
    if (state == SLOT_CREATING && MUTATED("no-half-end")) return;
    if (!word_holdable(word)) { /* half-written, or taken and not noticed yet, or nonsense */
        uint64_t next = word_sequence(word) + (state != SLOT_GONE);
        if (page->homes[index] != NULL) vault_take_memory(vault, page, index);
        vault_file_forget(vault, slot_offset(page, index));
        atomic_store(&slot->word, slot_word(next, SLOT_FREE));
        return;
    }
    page->busy++;
    if (!in_memory(state) || page->homes[index] != NULL) return;
    stretch_book *home = vault_home(vault, page, index);
    if (home != NULL) {
        page->homes[index] = home;
        home->live++;
        return;
    }
    log_warn("an object of dead process %" PRIx64 " is lost: malformed header", page->owner->id);
    while (!slot_change(slot, word, slot_word(word_sequence(word), SLOT_LOST))) word = slot_read(slot);
}

static void inherit(vault *vault, process_book *process) {
    list_for_each (at, &process->pages) {
        page_book *page = container_of(at, page_book, own);
        page->busy = 0;
        for (uint32_t i = 0; i < SLOTS_PER_PAGE; i++) inherit_slot(vault, page, i);
    }
    for (list *item; (item = list_pop_front(&process->pages)) != NULL;)
        container_of(item, page_book, own)->owner = NULL;
    for (list *item; (item = list_pop_front(&process->stretches)) != NULL;) {
        stretch_book *stretch = container_of(item, stretch_book, place);
        stretch->owner = NULL;
        list_push_back(&vault->orphans, &stretch->place);
        if (stretch->live == 0) vault_stretch_free(vault, stretch);
    }
}

static void process_free(vault *vault, process_book *process) {
    for (list *item; (item = list_pop_front(&process->chunks)) != NULL;) {
        chunk_book *chunk = container_of(item, chunk_book, place);
        vault->ops->extent_free(vault->context, chunk->extent);
        free(chunk);
    }
    vault->ops->extent_free(vault->context, process->desk);
    map_remove(&vault->by_id, process->id);
    list_remove(&process->place);
    free(process);
}

static void leave(vault *vault, process_book *process) {
    vault->released_seen -= atomic_load(&desk_of(vault, process)->released);
    vault->released = true;
    inherit(vault, process);
    MR_ASSERT(list_empty(&process->pages) && list_empty(&process->stretches));
    process_free(vault, process);
}

void vault_leave(vault *vault, uint64_t id) {
    process_book *process = map_get(&vault->by_id, id);
    if (process != NULL && !MUTATED("no-sweep")) leave(vault, process);
    CHECK_INVARIANTS(vault->stretches.count + vault->by_page.count * SLOTS_PER_PAGE, vault_check(vault));
}

/* ---- Life. */

vault *vault_open(const arena *arena, const vault_ops *ops, void *context, const vault_options *options) {
    MR_ASSERT(ops->extent_alloc != NULL && ops->extent_free != NULL);
    MR_ASSERT((ops->save == NULL) == (ops->load == NULL) && (ops->save == NULL) == (ops->forget == NULL));
    vault *vault = xcalloc(1, sizeof *vault);
    vault->arena = arena;
    vault->ops = ops;
    vault->context = context;
    if (options != NULL) vault->options = *options;
    if (vault->options.patience_us == 0) vault->options.patience_us = VAULT_PATIENCE_US;
    list_init(&vault->processes);
    list_init(&vault->pages);
    list_init(&vault->orphans);
    list_init(&vault->moves);
    vault->next_ticket = 1;
    return vault;
}

void vault_close(vault *vault) {
    if (vault == NULL) return;
    vault_moves_end(vault);
    map_for_each (file, &vault->files) free(file.value);
    map_fini(&vault->files);
    while (!list_empty(&vault->processes)) leave(vault, container_of(vault->processes.next, process_book, place));
    while (!list_empty(&vault->orphans))
        vault_stretch_free(vault, container_of(vault->orphans.next, stretch_book, place));
    for (list *item; (item = list_pop_front(&vault->pages)) != NULL;) {
        page_book *page = container_of(item, page_book, place);
        vault->ops->extent_free(vault->context, page->extent);
        free(page);
    }
    map_fini(&vault->by_id);
    map_fini(&vault->by_page);
    map_fini(&vault->stretches);
    map_fini(&vault->kept);
    free(vault);
}

/* ---- Seeing. */

static uint32_t length(const list *head) {
    uint32_t count = 0;
    list_for_each (at, head) count++;
    return count;
}

static uint32_t page_objects(const vault *vault, const page_book *page) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < SLOTS_PER_PAGE; i++)
        count += word_state(slot_read(page_slot(vault, page, i))) != SLOT_FREE;
    return count;
}

vault_stats vault_stats_now(const vault *vault) {
    vault_stats stats = vault->stats;
    stats.processes = length(&vault->processes);
    stats.stretches = (uint32_t)vault->stretches.count;
    stats.pages = length(&vault->pages);
    stats.moving = length(&vault->moves);
    list_for_each (at, &vault->pages) stats.objects += page_objects(vault, container_of(at, page_book, place));
    map_for_each (found, &vault->stretches) stats.bytes += ((stretch_book *)found.value)->extent.size;
    return stats;
}
