/* keeper_collect.c — objects that nobody holds; see object.h for the game between holders and the keeper, whose part of
 * it is here.
 *
 * A round: read all tables; condemn what is held by nobody; a fence; read all tables again; take what is condemned and
 * still held by nobody, acquit the rest. Two readings for any number of objects. */
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/failpoint.h"
#include "store/keeper_books.h"

/* ---- Marking. */

static void mark_entries(keeper *keeper, const hold_entry *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t entry = atomic_load_explicit(&entries[i], memory_order_acquire);
        if (entry == 0) continue;
        uint32_t index;
        page_book *page = keeper_page(keeper, hold_slot(entry), &index);
        if (page == NULL) continue; /* nonsense holds nothing */
        bit_set(page->held, index);
        if ((entry & HOLD_PINNED) != 0) bit_set(page->pinned, index);
    }
}

void keeper_mark(keeper *keeper) {
    list_for_each (at, &keeper->pages) {
        page_book *page = container_of(at, page_book, place);
        memset(page->held, 0, sizeof page->held);
        memset(page->pinned, 0, sizeof page->pinned);
    }
    list_for_each (at, &keeper->processes) {
        process_book *process = container_of(at, process_book, place);
        mark_entries(keeper, desk_of(keeper, process)->entries, DESK_ENTRIES);
        list_for_each (more, &process->chunks)
            mark_entries(keeper, arena_at(keeper->arena, container_of(more, chunk_book, place)->extent.offset),
                         CHUNK_ENTRIES);
    }
}

/* ---- Condemning. */

static bool can_be_condemned(slot_state state) {
    return state == SLOT_SEALED || state == SLOT_SPILLED || state == SLOT_DOOMED || state == SLOT_LOST;
}

/* True: something in this page is to be decided. */
static bool condemn_page(keeper *keeper, page_book *page) {
    bool some = false;
    memset(page->candidates, 0, sizeof page->candidates);
    for (uint32_t i = 0; i < SLOTS_PER_PAGE; i++) {
        slot *slot = page_slot(keeper, page, i);
        uint64_t word = slot_read(slot);
        if (!can_be_condemned(word_state(word))) continue;
        bool held = bit_of(page->held, i);
        if (!held) held = !slot_change(slot, word, word | SLOT_CONDEMNED); /* else it changed: next time */
        if (held && !(word_state(word) == SLOT_DOOMED && !bit_of(page->pinned, i))) continue;
        bit_set(page->candidates, i);
        some = true;
    }
    return some;
}

/* ---- Deciding. */

static void note_taken(page_book *page) {
    if (page->owner != NULL) page->owner->taken = true;
}

/* It is GONE: its memory or file goes, and the slot too where no maker is left to look at it. */
static void bury(keeper *keeper, page_book *page, uint32_t index, slot_state was) {
    slot *slot = page_slot(keeper, page, index);
    if (was == SLOT_SEALED || was == SLOT_DOOMED) keeper_take_memory(keeper, page, index);
    if (was == SLOT_SPILLED || was == SLOT_LOST) keeper_file_forget(keeper, slot_offset(page, index));
    keeper->stats.collected++;
    note_taken(page);
    if (page->owner != NULL) return;
    atomic_store(&slot->word, slot_word(word_sequence(slot_read(slot)), SLOT_FREE));
    page->busy--;
}

static void decide(keeper *keeper, page_book *page, uint32_t index) {
    slot *slot = page_slot(keeper, page, index);
    uint64_t word = slot_read(slot);
    slot_state state = word_state(word);
    if (word_condemned(word)) {
        if (bit_of(page->held, index))
            (void)slot_change(slot, word, word & ~(uint64_t)SLOT_CONDEMNED);
        else if (slot_change(slot, word, slot_word(word_sequence(word) + 1, SLOT_GONE)))
            bury(keeper, page, index, state);
        return; /* where that failed a holder was faster */
    }
    if (state != SLOT_DOOMED || bit_of(page->pinned, index)) return;
    if (!slot_change(slot, word, slot_word(word_sequence(word), SLOT_LOST))) return;
    keeper_take_memory(keeper, page, index);
    atomic_fetch_add(&slot->moves, 1);
    note_taken(page);
}

static void decide_page(keeper *keeper, page_book *page) {
    for (uint32_t word = 0; word < PAGE_WORDS; word++)
        for (uint64_t bits = page->candidates[word]; bits != 0; bits &= bits - 1)
            decide(keeper, page, word * 64 + (uint32_t)__builtin_ctzll(bits));
}

void keeper_tell_taken(keeper *keeper) {
    list_for_each (at, &keeper->processes) {
        process_book *process = container_of(at, process_book, place);
        if (!process->taken) continue;
        process->taken = false;
        atomic_fetch_add(&desk_of(keeper, process)->taken, 1);
        if (keeper->ops->nudge != NULL) keeper->ops->nudge(keeper->context, process->id);
    }
}

uint64_t keeper_released(const keeper *keeper) {
    uint64_t sum = 0;
    list_for_each (at, &keeper->processes)
        sum += atomic_load(&desk_of(keeper, container_of(at, process_book, place))->released);
    return sum;
}

bool keeper_condemn(keeper *keeper) {
    bool some = false;
    list_for_each (at, &keeper->pages) some |= condemn_page(keeper, container_of(at, page_book, place));
    FAILPOINT("store.keeper_condemned");
    cpu_fence();
    return some;
}

void keeper_decide(keeper *keeper) {
    list_for_each (at, &keeper->pages) decide_page(keeper, container_of(at, page_book, place));
    keeper_tell_taken(keeper);
}

void keeper_collect(keeper *keeper) {
    keeper->released_seen = keeper_released(keeper); /* before the tables are read: later releases count again */
    keeper->released = false;
    keeper->stats.collections++;
    keeper_mark(keeper);
    if (!keeper_condemn(keeper)) return;
    keeper_mark(keeper);
    keeper_decide(keeper);
}

int64_t keeper_tick(keeper *keeper, int64_t now_us) {
    if (!keeper->released && keeper_released(keeper) == keeper->released_seen)
        return list_empty(&keeper->processes) ? CLOCK_NEVER_US : now_us + KEEPER_IDLE_US;
    if (now_us < keeper->collect_at_us) return keeper->collect_at_us;
    keeper_collect(keeper);
    keeper->collect_at_us = now_us + KEEPER_COLLECT_US;
    return keeper->collect_at_us;
}
