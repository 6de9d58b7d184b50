/* vault_collect.c — garbage collection of objects that no process holds: the store server's part of the protocol in
 * slot.h.
 *
 * A round: read all tables; condemn what is held by nobody; a fence; read all tables again; take what is condemned and
 * still held by nobody, acquit the rest. Two readings for any number of objects. Tested by src/store/store_test.c. */
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/failpoint.h"
#include "base/invariants.h"
#include "base/mutation.h"
#include "store/vault_books.h"

/* ---- Marking. */

static void mark_entries(vault *vault, const hold_entry *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t entry = atomic_load_explicit(&entries[i], memory_order_acquire);
        if (entry == 0) continue;
        uint32_t index;
        page_book *page = vault_page(vault, hold_slot(entry), &index);
        if (page == NULL) continue; /* nonsense holds nothing */
        bit_set(page->held, index);
        if ((entry & HOLD_PINNED) != 0) bit_set(page->pinned, index);
    }
}

void vault_mark(vault *vault) {
    list_for_each (at, &vault->pages) {
        page_book *page = container_of(at, page_book, place);
        memset(page->held, 0, sizeof page->held);
        memset(page->pinned, 0, sizeof page->pinned);
    }
    list_for_each (at, &vault->processes) {
        process_book *process = container_of(at, process_book, place);
        mark_entries(vault, desk_of(vault, process)->entries, DESK_ENTRIES);
        list_for_each (more, &process->chunks)
            mark_entries(vault, arena_at(vault->arena, container_of(more, chunk_book, place)->extent.offset),
                         CHUNK_ENTRIES);
    }
    vault_mark_kept(vault);
}

/* ---- Condemning. */

static bool can_be_condemned(slot_state state) {
    return state == SLOT_SEALED || state == SLOT_SPILLED || state == SLOT_DOOMED || state == SLOT_LOST;
}

/* True: something in this page is to be decided. */
static bool condemn_page(vault *vault, page_book *page) {
    bool some = false;
    memset(page->candidates, 0, sizeof page->candidates);
    for (uint32_t i = 0; i < SLOTS_PER_PAGE; i++) {
        slot *slot = page_slot(vault, page, i);
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

/* It is GONE: its memory or file goes, and the slot too where no maker is left to look at it. */
static void bury(vault *vault, page_book *page, uint32_t index, slot_state was) {
    slot *slot = page_slot(vault, page, index);
    if (was == SLOT_SEALED || was == SLOT_DOOMED) vault_take_memory(vault, page, index);
    if (was == SLOT_SPILLED || was == SLOT_LOST) vault_file_forget(vault, slot_offset(page, index));
    vault->stats.collected++;
    if (page->owner != NULL) {
        page->owner->taken = true;
        return;
    }
    MR_ASSERT(page->busy > 0);
    atomic_store(&slot->word, slot_word(word_sequence(slot_read(slot)), SLOT_FREE));
    page->busy--;
}

static void decide(vault *vault, page_book *page, uint32_t index) {
    slot *slot = page_slot(vault, page, index);
    uint64_t word = slot_read(slot);
    slot_state state = word_state(word);
    if (word_condemned(word)) {
        if (bit_of(page->held, index))
            (void)slot_change(slot, word, word & ~(uint64_t)SLOT_CONDEMNED);
        else if (slot_change(slot, word, slot_word(word_sequence(word) + !MUTATED("no-sequence-bump"), SLOT_GONE)))
            bury(vault, page, index, state);
        return; /* where that failed a holder was faster */
    }
    if (state != SLOT_DOOMED || bit_of(page->pinned, index)) return;
    if (!slot_change(slot, word, slot_word(word_sequence(word), SLOT_LOST))) return;
    vault_take_memory(vault, page, index);
    atomic_fetch_add(&slot->moves, 1);
    if (page->owner != NULL) page->owner->moved = true;
}

static void decide_page(vault *vault, page_book *page) {
    for (uint32_t word = 0; word < PAGE_WORDS; word++)
        for (uint64_t bits = page->candidates[word]; bits != 0; bits &= bits - 1)
            decide(vault, page, word * 64 + (uint32_t)__builtin_ctzll(bits));
}

void vault_tell(vault *vault) {
    list_for_each (at, &vault->processes) {
        process_book *process = container_of(at, process_book, place);
        if (!process->taken && !process->moved) continue;
        if (process->taken) atomic_fetch_add(&desk_of(vault, process)->taken, 1);
        if (process->moved) atomic_fetch_add(&desk_of(vault, process)->moved, 1);
        process->taken = process->moved = false;
        if (vault->ops->nudge != NULL) vault->ops->nudge(vault->context, process->id);
    }
}

uint64_t vault_released(const vault *vault) {
    uint64_t sum = 0;
    list_for_each (at, &vault->processes)
        sum += atomic_load(&desk_of(vault, container_of(at, process_book, place))->released);
    return sum;
}

bool vault_condemn(vault *vault) {
    bool some = false;
    list_for_each (at, &vault->pages) some |= condemn_page(vault, container_of(at, page_book, place));
    FAILPOINT("store.vault_condemned");
    cpu_fence();
    return some;
}

void vault_decide(vault *vault) {
    list_for_each (at, &vault->pages) decide_page(vault, container_of(at, page_book, place));
    vault_tell(vault);
}

void vault_collect(vault *vault) {
    vault->released_seen = vault_released(vault); /* before the tables are read: later releases count again */
    vault->released = false;
    vault->stats.collections++;
    vault_mark(vault);
    if (!vault_condemn(vault)) return;
    vault_mark(vault);
    vault_decide(vault);
    CHECK_INVARIANTS(vault->stretches.count + vault->by_page.count * SLOTS_PER_PAGE, vault_check(vault));
}

int64_t vault_tick(vault *vault, int64_t now_us) {
    if (!vault->released && vault_released(vault) == vault->released_seen)
        return list_empty(&vault->processes) ? CLOCK_NEVER_US : now_us + VAULT_IDLE_US;
    if (now_us < vault->collect_at_us) return vault->collect_at_us;
    vault_collect(vault);
    vault->collect_at_us = now_us + VAULT_COLLECT_US;
    return vault->collect_at_us;
}
