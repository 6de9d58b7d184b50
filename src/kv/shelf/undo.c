/* undo.c — see undo.h. */
#include "kv/shelf/undo.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/shelf/order.h"
#include "kv/table/rows.h"

enum { ENTRY_SIZE = 16 };

void undo_fini(undo *undo) {
    free(undo->entries);
    free(undo->values);
    *undo = (struct undo){.item = undo->item};
}

void undo_clear(undo *undo) {
    undo->count = undo->size = 0;
    undo->sorted = true;
}

/* Of so many more keys, with so many bytes. */
static mr_status make_room(undo *undo, size_t count, size_t bytes) {
    MR_TRY(alloc_try_grow(&undo->entries, &undo->room, undo->count + count, sizeof *undo->entries));
    return alloc_try_grow(&undo->values, &undo->values_room, undo->size + bytes, 1);
}

static inline void put(undo *undo, uint64_t key, const void *values, uint32_t length) {
    size_t bytes = values == NULL ? 0 : length * undo->item;
    if (undo->count > 0 && undo->entries[undo->count - 1].key >= key) undo->sorted = false;
    undo->entries[undo->count++] =
        (undo_entry){.key = key, .at = undo->size, .length = values == NULL ? 0 : length, .there = values != NULL};
    if (bytes > 0) rows_copy(undo->values + undo->size, values, bytes);
    undo->size += bytes > 0 ? bytes : undo->item; /* a place of its own: it says what was noted first */
}

mr_status undo_note(undo *undo, uint64_t key, const void *values, uint32_t length) {
    MR_TRY(make_room(undo, 1, (values == NULL ? 0 : length * undo->item) + undo->item));
    put(undo, key, values, length);
    return MR_OK;
}

mr_status undo_note_rows(undo *undo, const uint64_t *keys, size_t count, void *const *rows, const bool *absent,
                         uint32_t length) {
    MR_TRY(make_room(undo, count, count * (length * undo->item + undo->item)));
    for (size_t i = 0; i < count; i++) put(undo, keys[i], absent[i] ? NULL : rows[i], length);
    return MR_OK;
}

/* By key; of one key, what was noted first. */
static int compare(const void *a, const void *b) {
    const undo_entry *left = a, *right = b;
    if (left->key != right->key) return left->key < right->key ? -1 : 1;
    return (left->at > right->at) - (left->at < right->at);
}

void undo_end(undo *undo) {
    if (undo->sorted || undo->count < 2) return;
    qsort(undo->entries, undo->count, sizeof *undo->entries, compare);
    size_t kept = 1;
    for (size_t i = 1; i < undo->count; i++)
        if (undo->entries[i].key != undo->entries[kept - 1].key) undo->entries[kept++] = undo->entries[i];
    undo->count = kept;
    undo->sorted = true;
}

/* Doubling steps, then halving ones: a walk along another list costs no more than the shorter of them. */
const undo_entry *undo_find(const undo *undo, uint64_t key, size_t *from) {
    *from = order_reach(undo->entries, undo->count, sizeof *undo->entries, *from, key);
    return *from < undo->count && undo->entries[*from].key == key ? &undo->entries[*from] : NULL;
}

/* ---- As bytes. */

size_t undo_size(const undo *undo) {
    size_t size = 4;
    for (size_t i = 0; i < undo->count; i++) size += ENTRY_SIZE + undo->entries[i].length * undo->item;
    return size;
}

void undo_write(const undo *undo, writer *writer) {
    writer_u32(writer, (uint32_t)undo->count);
    for (size_t i = 0; i < undo->count; i++) {
        const undo_entry *entry = &undo->entries[i];
        writer_u64(writer, entry->key);
        writer_u32(writer, entry->length);
        writer_u32(writer, entry->there);
        writer_bytes(writer, undo_values(undo, entry), entry->length * undo->item);
    }
}

mr_status undo_read(undo *undo, reader *reader) {
    uint32_t count = reader_u32(reader);
    undo_clear(undo);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t key = reader_u64(reader);
        uint32_t length = reader_u32(reader), there = reader_u32(reader);
        const uint8_t *values = reader_bytes(reader, length * undo->item);
        if (reader->failed || there > 1 || (there == 0 && length != 0))
            return error_set(MR_CORRUPT, "malformed undo log: entry %u", i);
        MR_TRY(undo_note(undo, key, there != 0 ? values : NULL, length));
    }
    if (reader->failed || !undo->sorted) return error_set(MR_CORRUPT, "malformed undo log of %u keys", count);
    return MR_OK;
}
