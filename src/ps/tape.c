/* tape.c — see tape.h. */
#include "ps/tape.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

static tape_entry *place(const tape *tape, size_t index) {
    return &tape->entries[(tape->head + index) & (tape->capacity - 1)];
}

static void settle(tape *tape, const tape_entry *entry) {
    credit_return(tape->credit, entry->account, entry->rank, entry->payload.size);
}

static void drop(tape *tape) {
    MR_ASSERT(tape->count > 0 && tape->base <= tape->applied);
    const tape_entry *first = place(tape, 0);
    if (tape->base == tape->applied) settle(tape, first); /* it never will be applied */
    if (tape->base == tape->applied) tape->applied++;
    tape->base_total = first->total;
    bale_unref(first->bale);
    tape->head = (tape->head + 1) & (tape->capacity - 1);
    tape->count--;
    tape->base++;
}

void tape_reset(tape *tape, uint64_t applied) {
    while (tape->count != 0) drop(tape);
    tape->base = tape->applied = applied;
}

void tape_fini(tape *tape) {
    tape_reset(tape, 0);
    free(tape->entries);
    *tape = (struct tape){0};
}

static void grow(tape *tape) {
    size_t capacity = tape->capacity == 0 ? 8 : 2 * tape->capacity;
    MR_ASSERT(capacity <= TAPE_MAX);
    tape_entry *entries = xcalloc(capacity, sizeof *entries);
    for (size_t i = 0; i < tape->count; i++) entries[i] = *place(tape, i);
    free(tape->entries);
    tape->entries = entries;
    tape->capacity = capacity;
    tape->head = 0;
}

void tape_add(tape *tape, const tape_entry *entry) {
    MR_ASSERT(entry->kind < TAPE_KIND_COUNT && entry->account <= CREDIT_LINK);
    if (tape->count == tape->capacity) grow(tape);
    uint64_t before = tape->count == 0 ? tape->base_total : place(tape, tape->count - 1)->total;
    tape_entry *at = place(tape, tape->count++);
    *at = *entry;
    at->total = before + entry->payload.size;
    at->bale = entry->payload.size == 0 ? NULL : bale_ref(entry->bale);
    credit_take(tape->credit, at->account, at->rank, at->payload.size);
}

void tape_apply(tape *tape) {
    MR_ASSERT(tape->applied < tape_last(tape));
    tape->applied++;
    settle(tape, tape_at(tape, tape->applied));
}

void tape_trim(tape *tape, uint64_t lsn) {
    while (tape->base < lsn && tape->base < tape->applied) drop(tape);
    MR_ASSERT(tape->base <= tape->applied);
}

const tape_entry *tape_at(const tape *tape, uint64_t lsn) {
    MR_ASSERT(lsn > tape->base && lsn <= tape_last(tape));
    return place(tape, lsn - tape->base - 1);
}

static uint64_t total_at(const tape *tape, uint64_t lsn) {
    return lsn <= tape->base ? tape->base_total : tape_at(tape, lsn)->total;
}

uint64_t tape_bytes(const tape *tape, uint64_t from, uint64_t to) {
    return from < to ? total_at(tape, to) - total_at(tape, from) : 0;
}

bool tape_holds(const tape *tape, tape_kind kind, uint32_t rank, uint64_t name) {
    for (uint64_t lsn = tape->applied + 1; lsn <= tape_last(tape); lsn++) {
        const tape_entry *entry = tape_at(tape, lsn);
        if (entry->kind == kind && entry->rank == rank && entry->name == name) return true;
    }
    return false;
}

void tape_check(const tape *tape) {
    MR_ASSERT(tape->base <= tape->applied && tape->applied <= tape_last(tape));              /* 1 */
    MR_ASSERT(tape->count <= tape->capacity && tape->capacity <= TAPE_MAX);                  /* 1 */
    MR_ASSERT((tape->capacity & (tape->capacity - 1)) == 0 && tape->head <= tape->capacity); /* 1 */
    uint64_t before = tape->base_total;
    for (size_t i = 0; i < tape->count; i++) {
        const tape_entry *entry = place(tape, i);
        MR_ASSERT(entry->total == before + entry->payload.size); /* 2 */
        before = entry->total;
        MR_ASSERT(entry->payload.size != 0 || entry->bale == NULL); /* 3 */
    }
}
