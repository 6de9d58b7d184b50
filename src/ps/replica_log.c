/* replica_log.c — see replica_log.h. */
#include "ps/replica_log.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

static replica_log_entry *place(const replica_log *log, size_t index) {
    return &log->entries[(log->head + index) & (log->capacity - 1)];
}

static void settle(replica_log *log, const replica_log_entry *entry) {
    credit_return(log->credit, entry->account, entry->rank, entry->payload.size);
}

static void drop(replica_log *log) {
    MR_ASSERT(log->count > 0 && log->base <= log->applied);
    const replica_log_entry *first = place(log, 0);
    if (log->base == log->applied) settle(log, first); /* the entry is dropped without being applied */
    if (log->base == log->applied) log->applied++;
    log->base_total = first->total;
    shared_bytes_unref(first->bytes);
    log->head = (log->head + 1) & (log->capacity - 1);
    log->count--;
    log->base++;
}

void replica_log_reset(replica_log *log, uint64_t applied) {
    while (log->count != 0) drop(log);
    log->base = log->applied = applied;
}

void replica_log_fini(replica_log *log) {
    replica_log_reset(log, 0);
    free(log->entries);
    *log = (struct replica_log){0};
}

static void grow(replica_log *log) {
    size_t capacity = log->capacity == 0 ? 8 : 2 * log->capacity;
    MR_ASSERT(capacity <= REPLICA_LOG_MAX);
    replica_log_entry *entries = xcalloc(capacity, sizeof *entries);
    for (size_t i = 0; i < log->count; i++) entries[i] = *place(log, i);
    free(log->entries);
    log->entries = entries;
    log->capacity = capacity;
    log->head = 0;
}

void replica_log_add(replica_log *log, const replica_log_entry *entry) {
    MR_ASSERT(entry->kind < REPLICA_LOG_KIND_COUNT && entry->account <= CREDIT_LINK);
    if (log->count == log->capacity) grow(log);
    uint64_t before = log->count == 0 ? log->base_total : place(log, log->count - 1)->total;
    replica_log_entry *at = place(log, log->count++);
    *at = *entry;
    at->total = before + entry->payload.size;
    at->bytes = entry->payload.size == 0 ? NULL : shared_bytes_ref(entry->bytes);
    credit_take(log->credit, at->account, at->rank, at->payload.size);
}

void replica_log_apply(replica_log *log) {
    MR_ASSERT(log->applied < replica_log_last(log));
    log->applied++;
    settle(log, replica_log_at(log, log->applied));
}

void replica_log_trim(replica_log *log, uint64_t lsn) {
    while (log->base < lsn && log->base < log->applied) drop(log);
    MR_ASSERT(log->base <= log->applied);
}

const replica_log_entry *replica_log_at(const replica_log *log, uint64_t lsn) {
    MR_ASSERT(lsn > log->base && lsn <= replica_log_last(log));
    return place(log, lsn - log->base - 1);
}

static uint64_t total_at(const replica_log *log, uint64_t lsn) {
    return lsn <= log->base ? log->base_total : replica_log_at(log, lsn)->total;
}

uint64_t replica_log_bytes(const replica_log *log, uint64_t from, uint64_t to) {
    return from < to ? total_at(log, to) - total_at(log, from) : 0;
}

bool replica_log_holds(const replica_log *log, replica_log_kind kind, uint32_t rank, uint64_t name) {
    for (uint64_t lsn = log->applied + 1; lsn <= replica_log_last(log); lsn++) {
        const replica_log_entry *entry = replica_log_at(log, lsn);
        if (entry->kind == kind && entry->rank == rank && entry->name == name) return true;
    }
    return false;
}

void replica_log_check(const replica_log *log) {
    MR_ASSERT(log->base <= log->applied && log->applied <= replica_log_last(log));       /* 1 */
    MR_ASSERT(log->count <= log->capacity && log->capacity <= REPLICA_LOG_MAX);          /* 1 */
    MR_ASSERT((log->capacity & (log->capacity - 1)) == 0 && log->head <= log->capacity); /* 1 */
    uint64_t before = log->base_total;
    for (size_t i = 0; i < log->count; i++) {
        const replica_log_entry *entry = place(log, i);
        MR_ASSERT(entry->total == before + entry->payload.size); /* 2 */
        before = entry->total;
        MR_ASSERT(entry->payload.size != 0 || entry->bytes == NULL); /* 3 */
    }
}
