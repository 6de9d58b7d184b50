/* shelf_rows.c — engine, rows of sparse tables: pushes, queries, erasure, eviction. See shelf.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/vector.h"
#include "kv/shelf/order.h"
#include "kv/shelf/shelf_core.h"
#include "kv/table/narrow.h"

enum { SWEEPS = 8, SPARE = 16 }; /* parts of age_max and of rows_max */

static size_t chunk(size_t left) { return left < SHELF_CHUNK ? left : SHELF_CHUNK; }

/* ---- Pushes. */

VECTOR_CLONES static uint32_t count_infinite(const float *values, size_t count) {
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) found += (half_bits(values[i]) & 0x7f800000) == 0x7f800000;
    return found;
}

bool shelf_finite(const float *values, size_t count) { return count_infinite(values, count) == 0; }

/* The rows of these keys, at most SHELF_CHUNK, which will be changed; as they are they are kept. */
static void touch(const shelf_push *push, const uint64_t *keys, size_t count) {
    shelf_table *table = push->table;
    void **rows = push->shelf->rows;
    bool absent[SHELF_CHUNK];
    if (!push->shelf->keeps) {
        opener_must(sparse_touch(table->sparse, keys, count, (uint32_t)table->now, rows));
        return;
    }
    opener_must(sparse_touch_telling(table->sparse, keys, count, (uint32_t)table->now, rows, absent));
    opener_must(undo_note_rows(&table->undo, keys, count, rows, absent, table->definition.dim));
}

static void set_rows(const shelf_push *push, size_t count, const uint8_t *values) {
    size_t bytes = push->table->definition.dim * shelf_item(push->table);
    for (size_t i = 0; i < count; i++)
        if (push->shelf->rows[i] != NULL) memcpy(push->shelf->rows[i], values + i * bytes, bytes);
}

static void change(const shelf_push *push, const uint64_t *keys, size_t count, const uint8_t *values) {
    shelf_table *table = push->table;
    uint32_t dim = table->definition.dim;
    size_t bytes = dim * shelf_item(table);
    void **rows = push->shelf->rows;
    float rate = push->sets ? 0 : shelf_rate(table, push->moment);
    for (size_t at = 0; at < count; at += SHELF_CHUNK, values += SHELF_CHUNK * bytes) {
        size_t size = chunk(count - at);
        touch(push, keys + at, size);
        if (push->sets)
            set_rows(push, size, values);
        else if (table->definition.dtype == MR_I64)
            optim_count_rows(rows, size, dim, (const int64_t *)(const void *)values);
        else
            optim_rows(&table->optim, rows, size, dim, (const float *)(const void *)values, rate, push->scale);
    }
}

/* Some of the rows are not finite: the others go on. */
static void change_finite(const shelf_push *push, const float *values) {
    uint32_t dim = push->table->definition.dim, count = 0;
    void *memory;
    opener_must(alloc_try(push->section->count * (sizeof(uint64_t) + dim * sizeof(float)), &memory));
    uint64_t *keys = memory;
    float *finite = (float *)(keys + push->section->count);
    for (uint32_t i = 0; i < push->section->count; i++, values += dim) {
        if (!shelf_finite(values, dim)) continue;
        keys[count] = push->section->keys[i];
        memcpy(finite + (size_t)count++ * dim, values, dim * sizeof *finite);
    }
    push->table->left_out += push->section->count - count;
    change(push, keys, count, memory == NULL ? NULL : (const uint8_t *)finite);
    free(memory);
}

bool shelf_push_rows(const shelf_push *push) {
    const definition *definition = &push->table->definition;
    const parcel_section *section = push->section;
    size_t items = (size_t)section->count * definition->dim;
    const void *values = opener_values(&push->shelf->opener, section, definition->dtype, items);
    if (values == NULL) return false;
    if (definition->refuse_nan && definition->dtype != MR_I64 && !shelf_finite(values, items))
        change_finite(push, values);
    else
        change(push, section->keys, section->count, values);
    return true;
}

/* ---- Keys that go. */

/* Keeps the rows of these keys as they are. */
static void note(shelf_table *table, const uint64_t *keys, size_t count) {
    const void *rows[SHELF_CHUNK];
    for (size_t at = 0; at < count; at += SHELF_CHUNK) {
        size_t size = chunk(count - at);
        sparse_rows_of(table->sparse, keys + at, size, rows);
        for (size_t i = 0; i < size; i++)
            opener_must(undo_note(&table->undo, keys[at + i], rows[i], table->definition.dim));
    }
}

void shelf_erase(shelf *shelf, shelf_table *table, const uint64_t *keys, size_t count) {
    if (table->definition.kind == DEFINITION_SPARSE) {
        if (shelf->keeps) note(table, keys, count);
        (void)sparse_erase(table->sparse, keys, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t length;
        const void *values = vectors_find(&table->vectors, keys[i], &length);
        if (shelf->keeps) opener_must(undo_note(&table->undo, keys[i], values, length));
        vectors_erase(&table->vectors, keys[i]);
    }
}

static void sweep(shelf *shelf, shelf_table *table, uint64_t first, uint64_t last) {
    uint64_t keys[SHELF_CHUNK];
    uint32_t now = (uint32_t)table->now, age = (uint32_t)table->definition.age_max;
    for (sparse_cursor cursor = {.from = first}; !cursor.done;) {
        size_t count = sparse_aged(table->sparse, now, age, last, &cursor, keys, SHELF_CHUNK);
        shelf_erase(shelf, table, keys, count);
        table->evicted += count;
    }
}

/* As much of the hashes as time has gone on since it was swept last: all of them in an eighth of age_max. */
static void sweep_on(shelf *shelf, shelf_table *table) {
    uint64_t period = table->definition.age_max / SWEEPS + 1, passed = table->now - table->swept_at;
    if (passed == 0) return;
    table->swept_at = table->now;
    if (passed >= period) {
        sweep(shelf, table, 0, UINT64_MAX);
        return;
    }
    uint64_t first = table->swept, end = first + UINT64_MAX / period * passed;
    table->swept = end + 1;
    if (end < first) sweep(shelf, table, 0, end);
    sweep(shelf, table, first, end < first ? UINT64_MAX : end);
}

static void cut_down(shelf *shelf, shelf_table *table) {
    sparse_look look = sparse_look_at(table->sparse);
    uint64_t limit = table->definition.rows_max, there = look.rows + look.candidates;
    if (there <= limit) return;
    size_t count = there - (limit - limit / SPARE);
    void *keys;
    opener_must(alloc_try(count * sizeof(uint64_t), &keys));
    opener_must(sparse_oldest(table->sparse, (uint32_t)table->now, count, keys, &count));
    shelf_erase(shelf, table, keys, count);
    table->evicted += count;
    free(keys);
}

void shelf_evict(shelf *shelf, shelf_table *table) {
    if (table->definition.age_max != 0) sweep_on(shelf, table);
    if (table->definition.rows_max != 0) cut_down(shelf, table);
}

/* ---- Queries. */

/* The values as they were, in the table's dtype. */
static void show_old(const shelf_table *table, uint64_t key, const undo_entry *entry, uint8_t *out) {
    const definition *definition = &table->definition;
    if (!entry->there)
        initializer_read(&definition->init, definition->dtype, key, 0, definition->dim, out);
    else
        narrow_values(definition->dtype, undo_values(&table->undo, entry), definition->dim, out);
}

static void read_rows(const shelf_table *table, const uint64_t *keys, size_t count, shelf_note *note, void *out) {
    if (note == NULL) {
        sparse_read(table->sparse, keys, count, out);
        return;
    }
    uint64_t changes = sparse_changes(table->sparse);
    if (note->table == table->definition.id && note->changes == changes) {
        sparse_read_noted(table->sparse, keys, count, note->numbers, out);
        return;
    }
    sparse_read_noting(table->sparse, keys, count, note->numbers, out);
    note->table = table->definition.id;
    note->changes = changes;
}

void shelf_show_rows(const shelf_table *table, const uint64_t *keys, size_t count, bool kept, shelf_note *note,
                     void *out) {
    size_t bytes = sparse_value_bytes(table->sparse), from = 0;
    read_rows(table, keys, count, note, out);
    for (size_t i = 0; kept && i < count && from < table->undo.count; i++) {
        const undo_entry *entry = undo_find(&table->undo, keys[i], &from);
        if (entry != NULL) show_old(table, keys[i], entry, (uint8_t *)out + i * bytes);
    }
}

/* Keys of the range that have a row now, ascending. */
static mr_status list_now(const shelf_table *table, uint64_t first, uint64_t last, size_t more, uint64_t **out,
                          size_t *count) {
    const sparse *sparse = table->sparse;
    uint64_t rows = sparse_look_at(sparse).rows;
    bool narrow = last - first < rows;
    size_t room = narrow ? last - first + 1 : sparse_range(sparse, first, last, NULL, 0), found = 0;
    void *memory;
    MR_TRY(alloc_try((room + more) * sizeof(uint64_t), &memory));
    uint64_t *keys = memory;
    if (!narrow) {
        found = sparse_range(sparse, first, last, keys, room);
        order_keys(keys, found);
    }
    for (uint64_t i = 0; narrow && i < room; i++)
        if (sparse_find(sparse, first + i) != NULL) keys[found++] = first + i;
    *out = keys;
    *count = found;
    return MR_OK;
}

/* Takes out what is new, and puts in what has gone. There is room for it. */
static size_t list_before(const undo *undo, uint64_t first, uint64_t last, uint64_t *keys, size_t count) {
    size_t from = 0, kept = 0;
    for (size_t i = 0; i < count; i++) {
        const undo_entry *entry = undo_find(undo, keys[i], &from);
        if (entry == NULL || entry->there) keys[kept++] = keys[i];
    }
    size_t there = kept, at = 0;
    for (size_t i = 0; i < undo->count; i++) {
        const undo_entry *entry = &undo->entries[i];
        if (!entry->there || entry->key < first || entry->key > last) continue;
        at = order_reach(keys, there, sizeof *keys, at, entry->key);
        if (at == there || keys[at] != entry->key) keys[kept++] = entry->key;
    }
    if (kept > there) order_keys(keys, kept);
    return kept;
}

mr_status shelf_range(const shelf_table *table, uint64_t first, uint64_t last, uint32_t most, bool kept,
                      uint64_t **keys, size_t *count) {
    *keys = NULL;
    *count = 0;
    if (first > last) return MR_OK;
    MR_TRY(list_now(table, first, last, kept ? table->undo.count : 0, keys, count));
    if (kept && table->undo.count > 0) *count = list_before(&table->undo, first, last, *keys, *count);
    if (most != 0 && *count > most) *count = most;
    return MR_OK;
}
