/* keeper_spill.c — making room: what keeper.h says happens when memory is short, and the way of an object to its file
 * and back. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "store/keeper_books.h"

enum { SPILL_BYTES_MIN = 64 * 1024 }; /* smaller objects are not worth a file */

/* ---- Files. */

void keeper_file_forget(keeper *keeper, uint64_t slot) {
    file_book *file = map_remove(&keeper->files, slot);
    if (file == NULL) return;
    keeper->stats.spilled_bytes -= file->size;
    keeper->ops->forget(keeper->context, file->file);
    free(file);
}

static move_book *move_add(keeper *keeper, page_book *page, uint32_t index, uint64_t sequence, uint64_t size) {
    move_book *move = xcalloc(1, sizeof *move);
    *move =
        (move_book){.ticket = keeper->next_ticket++, .sequence = sequence, .page = page, .index = index, .size = size};
    list_init(&move->waiters);
    list_push_back(&keeper->moves, &move->place);
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

static bool may_spill(const keeper *keeper, const page_book *page, uint32_t index, candidate *out) {
    const slot *slot = page_slot(keeper, page, index);
    if (slot_read(slot) != slot_word(word_sequence(slot_read(slot)), SLOT_SEALED)) return false;
    if (bit_of(page->pinned, index)) return false;
    uint64_t size = atomic_load(&slot->size);
    if (size < SPILL_BYTES_MIN || keeper_home(keeper, page, index) == NULL) return false;
    out->index = index;
    out->used_us = atomic_load(&slot->used_us);
    out->size = size;
    return true;
}

/* All that may be spilled, least recently used first. Owned by the caller. */
static size_t find_candidates(keeper *keeper, candidate **out) {
    size_t count = 0, capacity = 64;
    candidate *found = xmalloc(capacity * sizeof *found);
    list_for_each (at, &keeper->pages) {
        page_book *page = container_of(at, page_book, place);
        for (uint32_t i = 0; i < SLOTS_PER_PAGE; i++) {
            if (!may_spill(keeper, page, i, &found[count])) continue;
            found[count].page = page;
            if (++count < capacity) continue;
            capacity *= 2;
            found = xrealloc(found, capacity * sizeof *found);
        }
    }
    qsort(found, count, sizeof *found, by_use);
    *out = found;
    return count;
}

static void put_back(keeper *keeper, const move_book *move) {
    slot *slot = page_slot(keeper, move->page, move->index);
    (void)slot_change(slot, slot_word(move->sequence, SLOT_SPILLING), slot_word(move->sequence, SLOT_SEALED));
}

/* Sees once more that nobody views it, and sends it off. */
static void send_off(keeper *keeper, move_book *move, int64_t now_us) {
    slot *slot = page_slot(keeper, move->page, move->index);
    stretch_book *home = keeper_home(keeper, move->page, move->index);
    if (bit_of(move->page->pinned, move->index) || home == NULL || atomic_load(&slot->size) != move->size) {
        put_back(keeper, move);
        move_free(move);
        return;
    }
    const void *data = arena_at(keeper->arena, atomic_load(&slot->offset));
    mr_status status = keeper->ops->save(keeper->context, move->ticket, data, move->size);
    move->sent = status == MR_OK;
    if (move->sent) return;
    log_warn("cannot spill: %s", mr_last_error());
    keeper->disk_at_us = now_us + KEEPER_DISK_RETRY_US;
    put_back(keeper, move);
    move_free(move);
}

static uint64_t spill_left(const keeper *keeper) {
    uint64_t most = keeper->options.spill_bytes_max, used = keeper->stats.spilled_bytes;
    list_for_each (at, &keeper->moves) {
        const move_book *move = container_of(at, move_book, place);
        if (move->into == NULL) used += move->size;
    }
    return most == 0 ? UINT64_MAX : used < most ? most - used : 0;
}

void keeper_spill_choose(keeper *keeper, uint64_t size) {
    uint64_t under_way = 0, left = spill_left(keeper);
    list_for_each (at, &keeper->moves) under_way += container_of(at, move_book, place)->size;
    candidate *found;
    size_t count = find_candidates(keeper, &found);
    for (size_t i = 0; i < count && under_way < size; i++) {
        slot *slot = page_slot(keeper, found[i].page, found[i].index);
        uint64_t sequence = word_sequence(slot_read(slot));
        if (found[i].size > left) continue;
        if (!slot_change(slot, slot_word(sequence, SLOT_SEALED), slot_word(sequence, SLOT_SPILLING))) continue;
        move_add(keeper, found[i].page, found[i].index, sequence, found[i].size);
        under_way += found[i].size;
        left -= found[i].size;
    }
    free(found);
    FAILPOINT("store.keeper_spilling");
    cpu_fence();
}

void keeper_spill_send(keeper *keeper, int64_t now_us) {
    list_for_each (at, &keeper->moves) {
        move_book *move = container_of(at, move_book, place);
        if (move->into == NULL && !move->sent) send_off(keeper, move, now_us);
    }
}

/* Begins to save objects until `size` bytes are on their way. */
static void spill(keeper *keeper, uint64_t size, int64_t now_us) {
    if (keeper->ops->save == NULL || now_us < keeper->disk_at_us) return;
    keeper_mark(keeper);
    keeper_spill_choose(keeper, size);
    keeper_mark(keeper);
    keeper_spill_send(keeper, now_us);
}

static void saved(keeper *keeper, move_book *move, mr_status status, int64_t now_us) {
    slot *slot = page_slot(keeper, move->page, move->index);
    keeper->released = true; /* it may have been let go meanwhile */
    if (status != MR_OK) {
        log_warn("an object of %" PRIu64 " bytes could not be spilled: %s", move->size, mr_last_error());
        keeper->disk_at_us = now_us + KEEPER_DISK_RETRY_US;
        put_back(keeper, move);
        return;
    }
    if (!slot_change(slot, slot_word(move->sequence, SLOT_SPILLING), slot_word(move->sequence, SLOT_SPILLED))) {
        keeper->ops->forget(keeper->context, move->ticket); /* somebody wants it after all, or it is gone */
        keeper->stats.voided++;
        return;
    }
    file_book *file = xcalloc(1, sizeof *file);
    *file = (file_book){move->ticket, move->size};
    map_put(&keeper->files, slot_offset(move->page, move->index), file);
    keeper_take_memory(keeper, move->page, move->index);
    atomic_fetch_add(&slot->moves, 1);
    keeper->stats.spilled++;
    keeper->stats.spilled_bytes += move->size;
    if (move->page->owner != NULL) move->page->owner->taken = true;
    keeper_tell_taken(keeper);
}

/* ---- Back. */

static void lose(keeper *keeper, const move_book *move) {
    slot *slot = page_slot(keeper, move->page, move->index);
    if (!slot_change(slot, slot_word(move->sequence, SLOT_SPILLED), slot_word(move->sequence, SLOT_LOST))) return;
    keeper_file_forget(keeper, slot_offset(move->page, move->index));
    keeper->stats.lost++;
}

static mr_status loaded(keeper *keeper, move_book *move, mr_status status) {
    slot *slot = page_slot(keeper, move->page, move->index);
    if (slot_read(slot) != slot_word(move->sequence, SLOT_SPILLED)) { /* nobody holds it any more */
        keeper_stretch_free(keeper, move->into);
        return MR_NOT_FOUND;
    }
    if (status != MR_OK) {
        log_warn("an object of %" PRIu64 " bytes cannot be brought back: %s", move->size, mr_last_error());
        keeper_stretch_free(keeper, move->into);
        lose(keeper, move);
        return MR_OBJECT_LOST;
    }
    atomic_store(&slot->offset, move->into->extent.offset);
    atomic_store(&slot->size, move->size);
    if (!slot_change(slot, slot_word(move->sequence, SLOT_SPILLED), slot_word(move->sequence, SLOT_SEALED))) {
        keeper_stretch_free(keeper, move->into);
        return MR_NOT_FOUND; /* deleted this moment */
    }
    move->page->homes[move->index] = move->into;
    move->into->live = 1;
    keeper_file_forget(keeper, slot_offset(move->page, move->index));
    keeper->stats.restored++;
    return MR_OK;
}

static void wait_for(move_book *move, keeper_done_fn *done, void *argument) {
    waiter_book *waiter = xcalloc(1, sizeof *waiter);
    waiter->done = done;
    waiter->argument = argument;
    list_push_back(&move->waiters, &waiter->place);
}

static move_book *load_of(const keeper *keeper, const page_book *page, uint32_t index) {
    list_for_each (at, &keeper->moves) {
        move_book *move = container_of(at, move_book, place);
        if (move->into != NULL && move->page == page && move->index == index) return move;
    }
    return NULL;
}

/* Begins to load it. */
static mr_status fetch(keeper *keeper, page_book *page, uint32_t index, int64_t now_us, move_book **out) {
    const file_book *file = map_get(&keeper->files, slot_offset(page, index));
    if (file == NULL) return MR_NOT_FOUND;
    extent extent;
    int64_t retry_us;
    MR_TRY(keeper_room(keeper, NULL, file->size, now_us, &extent, &retry_us));
    file = map_get(&keeper->files, slot_offset(page, index)); /* room may have been made by collecting it */
    if (file == NULL) {
        keeper->ops->extent_free(keeper->context, extent);
        return MR_NOT_FOUND;
    }
    uint64_t sequence = word_sequence(slot_read(page_slot(keeper, page, index)));
    move_book *move = move_add(keeper, page, index, sequence, file->size);
    move->into = keeper_stretch_add(keeper, NULL, extent, LEASE_OWN);
    mr_status status = keeper->ops->load(keeper->context, move->ticket, file->file,
                                         arena_at(keeper->arena, extent.offset), move->size);
    if (status != MR_OK) {
        keeper_stretch_free(keeper, move->into);
        move_free(move);
        return status;
    }
    *out = move;
    return MR_OK;
}

void keeper_restore(keeper *keeper, const object_ref *ref, int64_t now_us, keeper_done_fn *done, void *argument) {
    uint32_t index = 0;
    page_book *page = keeper_page(keeper, ref->slot, &index);
    uint64_t word = page == NULL ? 0 : slot_read(page_slot(keeper, page, index));
    if (page == NULL || word_sequence(word) != ref->sequence || !word_holdable(word)) {
        done(argument, MR_NOT_FOUND);
        return;
    }
    if (word_state(word) != SLOT_SPILLED) {
        bool lost = word_state(word) == SLOT_LOST || word_state(word) == SLOT_DOOMED;
        done(argument, lost ? MR_OBJECT_LOST : MR_OK);
        return;
    }
    move_book *move = load_of(keeper, page, index);
    mr_status status = move != NULL ? MR_OK : fetch(keeper, page, index, now_us, &move);
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

void keeper_moves_end(keeper *keeper) {
    while (!list_empty(&keeper->moves)) move_end(container_of(keeper->moves.next, move_book, place), MR_CLOSED);
}

void keeper_moved(keeper *keeper, uint64_t ticket, mr_status status, int64_t now_us) {
    list_for_each (at, &keeper->moves) {
        move_book *move = container_of(at, move_book, place);
        if (move->ticket != ticket) continue;
        if (move->into == NULL)
            saved(keeper, move, status, now_us);
        else
            status = loaded(keeper, move, status);
        move_end(move, status);
        return;
    }
    MR_UNREACHABLE();
}

/* ---- Room. */

static void ask_back(keeper *keeper) {
    list_for_each (at, &keeper->processes) {
        process_book *process = container_of(at, process_book, place);
        atomic_fetch_add(&desk_of(keeper, process)->wanted, 1);
        if (keeper->ops->nudge != NULL) keeper->ops->nudge(keeper->context, process->id);
    }
}

static mr_status give_up(const keeper *keeper, uint64_t size) {
    keeper_stats stats = keeper_stats_now(keeper);
    return error_set(MR_NOMEM,
                     "no room for %" PRIu64 " bytes: %" PRIu64 " of the %" PRIu64
                     " bytes of shared memory are taken by %u objects that are held, %" PRIu64
                     " bytes are on disk; release some, or make arena_bytes larger",
                     size, stats.bytes, keeper->arena->size, stats.objects, stats.spilled_bytes);
}

mr_status keeper_room(keeper *keeper, process_book *process, uint64_t size, int64_t now_us, extent *out,
                      int64_t *retry_us) {
    mr_status status = keeper->ops->extent_alloc(keeper->context, size, out);
    if (status == MR_NOMEM) {
        keeper_collect(keeper);
        status = keeper->ops->extent_alloc(keeper->context, size, out);
    }
    if (status == MR_OK && process != NULL) process->starving_since_us = CLOCK_NEVER_US;
    if (status != MR_NOMEM) return status;
    ask_back(keeper);
    spill(keeper, size, now_us);
    *retry_us = KEEPER_RETRY_US;
    if (process == NULL) return error_set(MR_BUSY, "no room at the moment");
    if (process->starving_since_us == CLOCK_NEVER_US) process->starving_since_us = now_us;
    if (now_us - process->starving_since_us < keeper->options.patience_us || !list_empty(&keeper->moves))
        return error_set(MR_BUSY, "no room for %" PRIu64 " bytes at the moment", size);
    process->starving_since_us = CLOCK_NEVER_US;
    return give_up(keeper, size);
}
