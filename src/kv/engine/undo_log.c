/* undo_log.c — see undo_log.h. */
#include "kv/engine/undo_log.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/table/key_sort.h"
#include "kv/table/row_pool.h"

enum { ENTRY_SIZE = 16 };

void undo_log_fini(undo_log *log) {
    free(log->entries);
    free(log->values);
    *log = (struct undo_log){.item = log->item};
}

void undo_log_clear(undo_log *log) {
    log->count = log->size = 0;
    log->sorted = true;
}

/* Reserves memory for so many more keys and bytes. */
static mr_status make_room(undo_log *log, size_t count, size_t bytes) {
    MR_TRY(alloc_try_grow(&log->entries, &log->room, log->count + count, sizeof *log->entries));
    return alloc_try_grow(&log->values, &log->values_room, log->size + bytes, 1);
}

static inline void put(undo_log *log, uint64_t key, const void *values, uint32_t length) {
    size_t bytes = values == NULL ? 0 : length * log->item;
    if (log->count > 0 && log->entries[log->count - 1].key >= key) log->sorted = false;
    log->entries[log->count++] =
        (undo_log_entry){.key = key, .at = log->size, .length = values == NULL ? 0 : length, .there = values != NULL};
    if (bytes > 0) row_pool_copy(log->values + log->size, values, bytes);
    log->size += bytes > 0 ? bytes : log->item; /* distinct places give the order of the records */
}

mr_status undo_log_note(undo_log *log, uint64_t key, const void *values, uint32_t length) {
    MR_TRY(make_room(log, 1, (values == NULL ? 0 : length * log->item) + log->item));
    put(log, key, values, length);
    return MR_OK;
}

mr_status undo_log_note_rows(undo_log *log, const uint64_t *keys, size_t count, void *const *rows, const bool *absent,
                             uint32_t length) {
    MR_TRY(make_room(log, count, count * (length * log->item + log->item)));
    for (size_t i = 0; i < count; i++) put(log, keys[i], absent[i] ? NULL : rows[i], length);
    return MR_OK;
}

/* Orders by key; records of one key by age. */
static int compare(const void *a, const void *b) {
    const undo_log_entry *left = a, *right = b;
    if (left->key != right->key) return left->key < right->key ? -1 : 1;
    return (left->at > right->at) - (left->at < right->at);
}

void undo_log_end(undo_log *log) {
    if (log->sorted || log->count < 2) return;
    qsort(log->entries, log->count, sizeof *log->entries, compare);
    size_t kept = 1;
    for (size_t i = 1; i < log->count; i++)
        if (log->entries[i].key != log->entries[kept - 1].key) log->entries[kept++] = log->entries[i];
    log->count = kept;
    log->sorted = true;
}

/* Exponential, then binary search: walking along another list costs at most the length of the shorter one. */
const undo_log_entry *undo_log_find(const undo_log *log, uint64_t key, size_t *from) {
    *from = key_sort_reach(log->entries, log->count, sizeof *log->entries, *from, key);
    return *from < log->count && log->entries[*from].key == key ? &log->entries[*from] : NULL;
}

/* ---- Encoding. */

size_t undo_log_size(const undo_log *log) {
    size_t size = 4;
    for (size_t i = 0; i < log->count; i++) size += ENTRY_SIZE + log->entries[i].length * log->item;
    return size;
}

void undo_log_write(const undo_log *log, writer *writer) {
    writer_u32(writer, (uint32_t)log->count);
    for (size_t i = 0; i < log->count; i++) {
        const undo_log_entry *entry = &log->entries[i];
        writer_u64(writer, entry->key);
        writer_u32(writer, entry->length);
        writer_u32(writer, entry->there);
        writer_bytes(writer, undo_log_values(log, entry), entry->length * log->item);
    }
}

mr_status undo_log_read(undo_log *log, reader *reader) {
    uint32_t count = reader_u32(reader);
    undo_log_clear(log);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t key = reader_u64(reader);
        uint32_t length = reader_u32(reader), there = reader_u32(reader);
        const uint8_t *values = reader_bytes(reader, length * log->item);
        if (reader->failed || there > 1 || (there == 0 && length != 0))
            return error_set(MR_CORRUPT, "malformed undo log: entry %u", i);
        MR_TRY(undo_log_note(log, key, there != 0 ? values : NULL, length));
    }
    if (reader->failed || !log->sorted) return error_set(MR_CORRUPT, "malformed undo log of %u keys", count);
    return MR_OK;
}
