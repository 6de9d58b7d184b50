/* vault_spill.c — eviction of objects to the spill file and their restoration, when memory is short; see vault.h.
 * Tested by src/store/store_test.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/invariants.h"
#include "base/log.h"
#include "base/mutation.h"
#include "store/vault_books.h"

enum { SPILL_BYTES_MIN = 64 * 1024 }; /* smaller objects are not worth a file */

/* ---- Files. */

void vault_file_forget(vault *vault, uint64_t slot) {
    file_book *file = map_remove(&vault->files, slot);
    if (file == NULL) return;
    MR_ASSERT(vault->stats.spilled_bytes >= file->size);
    vault->stats.spilled_bytes -= file->size;
    if (!MUTATED("no-file-end")) vault->ops->forget(vault->context, file->file);
    free(file);
}

static move_book *move_add(vault *vault, page_book *page, uint32_t index, uint64_t sequence, uint64_t size) {
    MR_ASSERT(page != NULL && index < SLOTS_PER_PAGE && size > 0);
    move_book *move = xcalloc(1, sizeof *move);
    *move =
        (move_book){.ticket = vault->next_ticket++, .sequence = sequence, .page = page, .index = index, .size = size};
    list_init(&move->waiters);
    list_push_back(&vault->moves, &move->place);
    return move;
}

static void move_free(move_book *move) {
    list_remove(&move->place);
    free(move);
}

/* ---- Out. */

typedef struct candidate {
    page_book *page;
    uint32_t index;
    int64_t used_us;
    uint64_t size;
} candidate;

static int by_use(const void *a, const void *b) {
    const candidate *left = a, *right = b;
    return (left->used_us > right->used_us) - (left->used_us < right->used_us);
}

static bool may_spill(const vault *vault, const page_book *page, uint32_t index, candidate *out) {
    const slot *slot = page_slot(vault, page, index);
    if (slot_read(slot) != slot_word(word_sequence(slot_read(slot)), SLOT_SEALED)) return false;
    if (bit_of(page->pinned, index) && !MUTATED("no-pin-check")) return false;
    uint64_t size = atomic_load(&slot->size);
    if (size < SPILL_BYTES_MIN || vault_home(vault, page, index) == NULL) return false;
    out->index = index;
    out->used_us = atomic_load(&slot->used_us);
    out->size = size;
    return true;
}

/* All that may be spilled, least recently used first. Owned by the caller. */
static size_t find_candidates(vault *vault, candidate **out) {
    size_t count = 0, capacity = 0;
    candidate *found = NULL;
    list_for_each (at, &vault->pages) {
        page_book *page = container_of(at, page_book, place);
        for (uint32_t i = 0; i < SLOTS_PER_PAGE; i++) {
            xgrow(&found, &capacity, count + 1, sizeof *found);
            if (may_spill(vault, page, i, &found[count])) found[count++].page = page;
        }
    }
    if (count != 0) qsort(found, count, sizeof *found, by_use);
    *out = found;
    return count;
}

static void put_back(vault *vault, const move_book *move) {
    slot *slot = page_slot(vault, move->page, move->index);
    (void)slot_change(slot, slot_word(move->sequence, SLOT_SPILLING), slot_word(move->sequence, SLOT_SEALED));
}

/* Sees once more that nobody views it, and sends it off. */
static void send_off(vault *vault, move_book *move, int64_t now_us) {
    MR_ASSERT(move->into == NULL && !move->sent);
    slot *slot = page_slot(vault, move->page, move->index);
    stretch_book *home = vault_home(vault, move->page, move->index);
    bool viewed = bit_of(move->page->pinned, move->index) && !MUTATED("no-pin-check");
    if (viewed || home == NULL || atomic_load(&slot->size) != move->size) {
        put_back(vault, move);
        move_free(move);
        return;
    }
    const void *data = arena_at(vault->arena, atomic_load(&slot->offset));
    mr_status status = vault->ops->save(vault->context, move->ticket, data, move->size);
    move->sent = status == MR_OK;
    if (move->sent) return;
    log_warn("cannot spill an object of %" PRIu64 " bytes: %s", move->size, mr_last_error());
    vault->disk_at_us = now_us + VAULT_DISK_RETRY_US;
    put_back(vault, move);
    move_free(move);
}

static uint64_t spill_left(const vault *vault) {
    uint64_t most = vault->options.spill_bytes_max, used = vault->stats.spilled_bytes;
    list_for_each (at, &vault->moves) {
        const move_book *move = container_of(at, move_book, place);
        if (move->into == NULL) used += move->size;
    }
    return most == 0 ? UINT64_MAX : used < most ? most - used : 0;
}

void vault_spill_choose(vault *vault, uint64_t size) {
    uint64_t under_way = 0, left = spill_left(vault);
    list_for_each (at, &vault->moves) under_way += container_of(at, move_book, place)->size;
    candidate *found;
    size_t count = find_candidates(vault, &found);
    for (size_t i = 0; i < count && under_way < size; i++) {
        slot *slot = page_slot(vault, found[i].page, found[i].index);
        uint64_t sequence = word_sequence(slot_read(slot));
        if (found[i].size > left) continue;
        if (!slot_change(slot, slot_word(sequence, SLOT_SEALED), slot_word(sequence, SLOT_SPILLING))) continue;
        move_add(vault, found[i].page, found[i].index, sequence, found[i].size);
        under_way += found[i].size;
        left -= found[i].size;
    }
    free(found);
    FAILPOINT("store.vault_spilling");
    cpu_fence();
}

void vault_spill_send(vault *vault, int64_t now_us) {
    list_for_each (at, &vault->moves) {
        move_book *move = container_of(at, move_book, place);
        if (move->into == NULL && !move->sent) send_off(vault, move, now_us);
    }
}

/* Begins to save objects until `size` bytes are on their way. */
static void spill(vault *vault, uint64_t size, int64_t now_us) {
    if (vault->ops->save == NULL || now_us < vault->disk_at_us) return;
    vault_mark(vault);
    vault_spill_choose(vault, size);
    vault_mark(vault);
    vault_spill_send(vault, now_us);
}

/* Told once until something can be saved again: it is tried every second. */
static void note_disk_failure(vault *vault, uint64_t size) {
    if (vault->disk_failure[0] == '\0')
        log_warn("cannot spill an object of %" PRIu64
                 " bytes: %s; free space there, or set spill_dir to another directory",
                 size, mr_last_error());
    snprintf(vault->disk_failure, sizeof vault->disk_failure, "%s", mr_last_error());
}

static void saved(vault *vault, move_book *move, mr_status status, int64_t now_us) {
    slot *slot = page_slot(vault, move->page, move->index);
    vault->released = true; /* it may have been let go meanwhile */
    if (status != MR_OK) {
        note_disk_failure(vault, move->size);
        vault->disk_at_us = now_us + VAULT_DISK_RETRY_US;
        put_back(vault, move);
        return;
    }
    vault->disk_failure[0] = '\0';
    if (!slot_change(slot, slot_word(move->sequence, SLOT_SPILLING), slot_word(move->sequence, SLOT_SPILLED))) {
        vault->ops->forget(vault->context, move->ticket); /* somebody wants it after all, or it is gone */
        vault->stats.voided++;
        return;
    }
    MR_ASSERT(map_get(&vault->files, slot_offset(move->page, move->index)) == NULL && move->into == NULL);
    file_book *file = xcalloc(1, sizeof *file);
    *file = (file_book){move->ticket, move->size};
    map_put(&vault->files, slot_offset(move->page, move->index), file);
    vault_take_memory(vault, move->page, move->index);
    atomic_fetch_add(&slot->moves, 1);
    vault->stats.spilled++;
    vault->stats.spilled_bytes += move->size;
    if (move->page->owner != NULL) move->page->owner->moved = true;
    vault_tell(vault);
}

/* ---- Back. */

static void lose(vault *vault, const move_book *move) {
    slot *slot = page_slot(vault, move->page, move->index);
    if (!slot_change(slot, slot_word(move->sequence, SLOT_SPILLED), slot_word(move->sequence, SLOT_LOST))) return;
    vault_file_forget(vault, slot_offset(move->page, move->index));
    vault->stats.lost++;
}

static mr_status loaded(vault *vault, move_book *move, mr_status status) {
    slot *slot = page_slot(vault, move->page, move->index);
    if (slot_read(slot) != slot_word(move->sequence, SLOT_SPILLED)) { /* nobody holds it any more */
        vault_stretch_free(vault, move->into);
        return MR_NOT_FOUND;
    }
    if (status != MR_OK) {
        log_warn("cannot restore a spilled object of %" PRIu64 " bytes: %s", move->size, mr_last_error());
        vault_stretch_free(vault, move->into);
        lose(vault, move);
        return MR_OBJECT_LOST;
    }
    atomic_store(&slot->offset, move->into->extent.offset);
    atomic_store(&slot->size, move->size);
    if (!slot_change(slot, slot_word(move->sequence, SLOT_SPILLED), slot_word(move->sequence, SLOT_SEALED))) {
        vault_stretch_free(vault, move->into);
        return MR_NOT_FOUND; /* deleted this moment */
    }
    MR_ASSERT(move->page->homes[move->index] == NULL && move->into->live == 0);
    move->page->homes[move->index] = move->into;
    move->into->live = 1;
    vault_file_forget(vault, slot_offset(move->page, move->index));
    vault->stats.restored++;
    return MR_OK;
}

static void wait_for(move_book *move, vault_done_fn *done, void *argument) {
    waiter_book *waiter = xcalloc(1, sizeof *waiter);
    waiter->done = done;
    waiter->argument = argument;
    list_push_back(&move->waiters, &waiter->place);
}

static move_book *load_of(const vault *vault, const page_book *page, uint32_t index) {
    list_for_each (at, &vault->moves) {
        move_book *move = container_of(at, move_book, place);
        if (move->into != NULL && move->page == page && move->index == index) return move;
    }
    return NULL;
}

/* Begins to load it. */
static mr_status fetch(vault *vault, process_book *asker, page_book *page, uint32_t index, int64_t now_us,
                       move_book **out) {
    const file_book *file = map_get(&vault->files, slot_offset(page, index));
    if (file == NULL) return MR_NOT_FOUND;
    extent extent;
    int64_t retry_us;
    MR_TRY(vault_room(vault, asker, LEASE_OWN, file->size, now_us, &extent, &retry_us));
    file = map_get(&vault->files, slot_offset(page, index)); /* room may have been made by collecting it */
    if (file == NULL) {
        vault->ops->extent_free(vault->context, extent);
        return MR_NOT_FOUND;
    }
    uint64_t sequence = word_sequence(slot_read(page_slot(vault, page, index)));
    move_book *move = move_add(vault, page, index, sequence, file->size);
    move->into = vault_stretch_add(vault, NULL, extent, LEASE_OWN);
    mr_status status =
        vault->ops->load(vault->context, move->ticket, file->file, arena_at(vault->arena, extent.offset), move->size);
    if (status != MR_OK) {
        vault_stretch_free(vault, move->into);
        move_free(move);
        return status;
    }
    *out = move;
    return MR_OK;
}

void vault_restore(vault *vault, uint64_t process, const object_ref *ref, int64_t now_us, vault_done_fn *done,
                   void *argument) {
    uint32_t index = 0;
    page_book *page = vault_page(vault, ref->slot, &index);
    uint64_t word = page == NULL ? 0 : slot_read(page_slot(vault, page, index));
    if (page == NULL || word_sequence(word) != ref->sequence || !word_holdable(word)) {
        done(argument, MR_NOT_FOUND);
        return;
    }
    if (word_state(word) != SLOT_SPILLED) {
        bool lost = word_state(word) == SLOT_LOST || word_state(word) == SLOT_DOOMED;
        done(argument, lost ? MR_OBJECT_LOST : MR_OK);
        return;
    }
    move_book *move = load_of(vault, page, index);
    process_book *asker = map_get(&vault->by_id, process);
    mr_status status = move != NULL ? MR_OK : fetch(vault, asker, page, index, now_us, &move);
    if (status != MR_OK)
        done(argument, status);
    else
        wait_for(move, done, argument);
}

static void move_end(move_book *move, mr_status status) {
    list_remove(&move->place);
    for (list *item; (item = list_pop_front(&move->waiters)) != NULL;) {
        waiter_book *waiter = container_of(item, waiter_book, place);
        waiter->done(waiter->argument, status);
        free(waiter);
    }
    free(move);
}

void vault_moves_end(vault *vault) {
    while (!list_empty(&vault->moves)) move_end(container_of(vault->moves.next, move_book, place), MR_CLOSED);
}

void vault_moved(vault *vault, uint64_t ticket, mr_status status, int64_t now_us) {
    list_for_each (at, &vault->moves) {
        move_book *move = container_of(at, move_book, place);
        if (move->ticket != ticket) continue;
        if (move->into == NULL)
            saved(vault, move, status, now_us);
        else
            status = loaded(vault, move, status);
        move_end(move, status);
        CHECK_INVARIANTS(vault->stretches.count + vault->by_page.count * SLOTS_PER_PAGE, vault_check(vault));
        return;
    }
    MR_UNREACHABLE();
}

/* ---- Room. */

static void ask_back(vault *vault) {
    list_for_each (at, &vault->processes) {
        process_book *process = container_of(at, process_book, place);
        atomic_fetch_add(&desk_of(vault, process)->wanted, 1);
        if (vault->ops->nudge != NULL) vault->ops->nudge(vault->context, process->id);
    }
}

/* Why no more goes to disk, if that is so. */
static void disk_text(const vault *vault, uint64_t size, char *out, size_t room) {
    out[0] = '\0';
    if (vault->ops->save == NULL)
        snprintf(out, room, ", and no more can be spilled: spill_dir is not set");
    else if (vault->disk_failure[0] != '\0')
        snprintf(out, room, ", and no more can be spilled: %s", vault->disk_failure);
    else if (spill_left(vault) < size)
        snprintf(out, room, ", and no more can be spilled: spill_bytes_max is %" PRIu64,
                 vault->options.spill_bytes_max);
}

static mr_status give_up(vault *vault, uint64_t size) {
    vault_stats stats = vault_stats_now(vault);
    char holders[200], disk[160];
    vault_holders_text(vault, holders, sizeof holders);
    disk_text(vault, size, disk, sizeof disk);
    return error_set(MR_NOMEM,
                     "no room for %" PRIu64 " bytes: %" PRIu64 " of the %" PRIu64
                     " bytes of shared memory are taken by %u objects that are held%s, %" PRIu64
                     " bytes are on disk%s; release some, or start with more (store_bytes, arena_bytes)",
                     size, stats.bytes, vault->arena->size, stats.objects, holders, stats.spilled_bytes, disk);
}

mr_status vault_room(vault *vault, process_book *process, lease_kind kind, uint64_t size, int64_t now_us, extent *out,
                     int64_t *retry_us) {
    desk *desk = process == NULL ? NULL : desk_of(vault, process);
    uint64_t taken = desk == NULL ? 0 : atomic_load(&desk->taken);
    mr_status status = vault->ops->extent_alloc(vault->context, size, out);
    if (status == MR_NOMEM) {
        vault_collect(vault);
        status = vault->ops->extent_alloc(vault->context, size, out);
    }
    *retry_us = VAULT_RETRY_US;
    if (status == MR_NOMEM && desk != NULL && atomic_load(&desk->taken) != taken) {
        *retry_us = 1;
        return error_set(MR_BUSY, "retry %" PRIu64 " bytes: the process has freed memory of its own", size);
    }
    if (status == MR_OK && process != NULL) process->starving_since_us = CLOCK_NEVER_US;
    if (status != MR_NOMEM) return status;
    ask_back(vault);
    spill(vault, size, now_us);
    if (process == NULL) return error_set(MR_BUSY, "no room for %" PRIu64 " bytes at the moment", size);
    if (process->starving_since_us == CLOCK_NEVER_US) process->starving_since_us = now_us;
    /* Who finds no room for a stretch asks for what its object needs; that is what is given up, with its size. */
    if (kind == LEASE_STRETCH || now_us - process->starving_since_us < vault->options.patience_us ||
        !list_empty(&vault->moves))
        return error_set(MR_BUSY, "no room for %" PRIu64 " bytes at the moment", size);
    process->starving_since_us = CLOCK_NEVER_US;
    return give_up(vault, size);
}
