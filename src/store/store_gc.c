/* store_gc.c — garbage collection of objects that no process holds: the store server's part of the protocol in
 * object_header.h.
 *
 * A collection: read all hold tables; set `condemned` on objects without a hold; fence; read all hold tables again; end
 * condemned objects that still have no hold, clear the flag of the others. The tables are read twice for any number of
 * objects. Tested by src/store/store_client_test.c. */
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/failpoint.h"
#include "base/invariants.h"
#include "base/mutation.h"
#include "store/server_internal.h"

/* ---- Reading hold tables. */

static void mark_entries(store_server *server, const hold_entry *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t entry = atomic_load_explicit(&entries[i], memory_order_acquire);
        if (entry == 0) continue;
        uint32_t index;
        page_book *page = store_server_page(server, hold_slot(entry), &index);
        if (page == NULL) continue; /* not the offset of a slot: ignored */
        bit_set(page->held, index);
        if ((entry & HOLD_PINNED) != 0) bit_set(page->pinned, index);
    }
}

void store_server_mark(store_server *server) {
    list_for_each (at, &server->pages) {
        page_book *page = container_of(at, page_book, place);
        memset(page->held, 0, sizeof page->held);
        memset(page->pinned, 0, sizeof page->pinned);
    }
    list_for_each (at, &server->processes) {
        process_book *process = container_of(at, process_book, place);
        mark_entries(server, page_of(server, process)->entries, PROCESS_PAGE_ENTRIES);
        list_for_each (more, &process->chunks)
            mark_entries(server, arena_at(server->arena, container_of(more, chunk_book, place)->extent.offset),
                         CHUNK_ENTRIES);
    }
    store_server_mark_kept(server);
}

/* ---- Candidates. */

/* True: the page has candidates. */
static bool condemn_page(store_server *server, page_book *page) {
    bool some = false;
    memset(page->candidates, 0, sizeof page->candidates);
    for (uint32_t i = 0; i < OBJECT_HEADERS_PER_PAGE; i++) {
        object_header *header = page_slot(server, page, i);
        uint64_t word = object_header_read(header);
        if (!object_word_holdable(word) || object_word_state(word) == OBJECT_HEADER_SPILLING) continue;
        bool held = bit_of(page->held, i);
        /* if the compare-and-swap fails, the object changed: the next collection reads it again */
        if (!held) held = !object_header_change(header, word, word | OBJECT_HEADER_CONDEMNED);
        if (held && !(object_word_state(word) == OBJECT_HEADER_DOOMED && !bit_of(page->pinned, i))) continue;
        bit_set(page->candidates, i);
        some = true;
    }
    return some;
}

/* ---- Ends of objects. */

/* Frees memory or file of an object that became GONE, and the slot if the creating process is dead. */
static void bury(store_server *server, page_book *page, uint32_t index, object_header_state was) {
    object_header *header = page_slot(server, page, index);
    if (was == OBJECT_HEADER_SEALED || was == OBJECT_HEADER_DOOMED) store_server_take_memory(server, page, index);
    if (was == OBJECT_HEADER_SPILLED || was == OBJECT_HEADER_LOST)
        store_server_file_forget(server, slot_offset(page, index));
    server->stats.collected++;
    if (page->owner != NULL) {
        page->owner->taken = true;
        return;
    }
    MR_ASSERT(page->busy > 0);
    atomic_store(&header->word,
                 object_header_word(object_word_sequence(object_header_read(header)), OBJECT_HEADER_FREE));
    page->busy--;
}

static void decide(store_server *server, page_book *page, uint32_t index) {
    object_header *header = page_slot(server, page, index);
    uint64_t word = object_header_read(header);
    object_header_state state = object_word_state(word);
    if (object_word_condemned(word)) {
        if (bit_of(page->held, index))
            (void)object_header_change(header, word, word & ~(uint64_t)OBJECT_HEADER_CONDEMNED);
        else if (object_header_change(
                     header, word,
                     object_header_word(object_word_sequence(word) + !MUTATED("no-sequence-bump"), OBJECT_HEADER_GONE)))
            bury(server, page, index, state);
        return; /* if the compare-and-swap failed, a holder was first */
    }
    if (state != OBJECT_HEADER_DOOMED || bit_of(page->pinned, index)) return;
    if (!object_header_change(header, word, object_header_word(object_word_sequence(word), OBJECT_HEADER_LOST))) return;
    store_server_take_memory(server, page, index);
    atomic_fetch_add(&header->moves, 1);
    if (page->owner != NULL) page->owner->moved = true;
}

static void decide_page(store_server *server, page_book *page) {
    for (uint32_t word = 0; word < PAGE_WORDS; word++)
        for (uint64_t bits = page->candidates[word]; bits != 0; bits &= bits - 1)
            decide(server, page, word * 64 + (uint32_t)__builtin_ctzll(bits));
}

void store_server_tell(store_server *server) {
    list_for_each (at, &server->processes) {
        process_book *process = container_of(at, process_book, place);
        if (!process->taken && !process->moved) continue;
        if (process->taken) atomic_fetch_add(&page_of(server, process)->taken, 1);
        if (process->moved) atomic_fetch_add(&page_of(server, process)->moved, 1);
        process->taken = process->moved = false;
        if (server->ops->nudge != NULL) server->ops->nudge(server->context, process->id);
    }
}

uint64_t store_server_released(const store_server *server) {
    uint64_t sum = 0;
    list_for_each (at, &server->processes)
        sum += atomic_load(&page_of(server, container_of(at, process_book, place))->released);
    return sum;
}

bool store_server_condemn(store_server *server) {
    bool some = false;
    list_for_each (at, &server->pages) some |= condemn_page(server, container_of(at, page_book, place));
    FAILPOINT("store.vault_condemned");
    cpu_fence();
    return some;
}

void store_server_decide(store_server *server) {
    list_for_each (at, &server->pages) decide_page(server, container_of(at, page_book, place));
    store_server_tell(server);
}

void store_server_collect(store_server *server) {
    server->released_seen =
        store_server_released(server); /* read before the tables, so that later releases cause another collection */
    server->released = false;
    server->stats.collections++;
    store_server_mark(server);
    if (!store_server_condemn(server)) return;
    store_server_mark(server);
    store_server_decide(server);
    CHECK_INVARIANTS(server->stretches.count + server->by_page.count * OBJECT_HEADERS_PER_PAGE,
                     store_server_check(server));
}

int64_t store_server_tick(store_server *server, int64_t now_us) {
    if (!server->released && store_server_released(server) == server->released_seen)
        return list_empty(&server->processes) ? CLOCK_NEVER_US : now_us + STORE_SERVER_IDLE_US;
    if (now_us < server->collect_at_us) return server->collect_at_us;
    store_server_collect(server);
    server->collect_at_us = now_us + STORE_SERVER_COLLECT_US;
    return server->collect_at_us;
}
