/* engine_rows.c — engine, rows of sparse tables: pushes, queries, erasure, eviction. See engine.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/simd.h"
#include "kv/engine/engine_internal.h"
#include "kv/table/key_sort.h"
#include "net/dtype_convert.h"

/* a sweep of the whole table takes age_max / SWEEPS; eviction removes rows_max / SPARE keys at once */
enum { SWEEPS = 8, SPARE = 16 };

enum { NARROW = 256 }; /* keys of a narrow range */

static size_t chunk(size_t left) { return left < ENGINE_CHUNK ? left : ENGINE_CHUNK; }

/* ---- Pushes. */

SIMD_CLONES static uint32_t count_infinite(const float *values, size_t count) {
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) found += (half_bits(values[i]) & 0x7f800000) == 0x7f800000;
    return found;
}

bool engine_finite(const float *values, size_t count) { return count_infinite(values, count) == 0; }

/* Finds or makes the rows of at most ENGINE_CHUNK keys for a change, and keeps their present values. */
static void touch(const engine_push *push, const uint64_t *keys, size_t count) {
    engine_table *table = push->table;
    void **rows = push->engine->rows;
    bool absent[ENGINE_CHUNK];
    bool keeps = push->engine->keeps;
    section_decoder_must(
        sparse_table_touch(table->sparse, keys, count, (uint32_t)table->now, rows, keeps ? absent : NULL));
    if (keeps) section_decoder_must(undo_log_note_rows(&table->log, keys, count, rows, absent, table->schema.dim));
}

static void set_rows(const engine_push *push, size_t count, const uint8_t *values) {
    size_t bytes = push->table->schema.dim * engine_item(push->table);
    for (size_t i = 0; i < count; i++)
        if (push->engine->rows[i] != NULL) memcpy(push->engine->rows[i], values + i * bytes, bytes);
}

static void change(const engine_push *push, const uint64_t *keys, size_t count, const uint8_t *values) {
    engine_table *table = push->table;
    uint32_t dim = table->schema.dim;
    size_t bytes = dim * engine_item(table);
    void **rows = push->engine->rows;
    float rate = push->sets ? 0 : engine_rate(table, push->section, push->moment);
    for (size_t at = 0; at < count; at += ENGINE_CHUNK, values += ENGINE_CHUNK * bytes) {
        size_t size = chunk(count - at);
        touch(push, keys + at, size);
        if (push->sets)
            set_rows(push, size, values);
        else if (table->schema.dtype == MR_I64)
            optim_count_rows(rows, size, dim, (const int64_t *)(const void *)values);
        else
            optim_rows(&table->optim, rows, size, dim, (const float *)(const void *)values, rate, push->scale);
    }
}

/* Applies only the finite rows of a section. */
static void change_finite(const engine_push *push, const float *values) {
    uint32_t dim = push->table->schema.dim, count = 0;
    uint64_t *keys;
    section_decoder_must(alloc_try(push->section->count * (sizeof *keys + dim * sizeof(float)), &keys));
    float *finite = (float *)(keys + push->section->count);
    for (uint32_t i = 0; i < push->section->count; i++, values += dim) {
        if (!engine_finite(values, dim)) continue;
        keys[count] = push->section->keys[i];
        memcpy(finite + (size_t)count++ * dim, values, dim * sizeof *finite);
    }
    push->table->left_out += push->section->count - count;
    change(push, keys, count, (const uint8_t *)finite);
    free(keys);
}

bool engine_push_rows(const engine_push *push) {
    const table_schema *schema = &push->table->schema;
    const payload_section *section = push->section;
    size_t items = (size_t)section->count * schema->dim;
    const void *values = section_decoder_values(&push->engine->decoder, section, schema->dtype, items);
    if (values == NULL) return false;
    if (schema->refuse_nan && schema->dtype != MR_I64 && !engine_finite(values, items))
        change_finite(push, values);
    else
        change(push, section->keys, section->count, values);
    return true;
}

/* ---- Erasure and eviction. */

/* Records the present rows of these keys in the undo log. */
static void note(engine_table *table, const uint64_t *keys, size_t count) {
    const void *rows[ENGINE_CHUNK];
    for (size_t at = 0; at < count; at += ENGINE_CHUNK) {
        size_t size = chunk(count - at);
        sparse_table_rows_of(table->sparse, keys + at, size, rows);
        for (size_t i = 0; i < size; i++)
            section_decoder_must(undo_log_note(&table->log, keys[at + i], rows[i], table->schema.dim));
    }
}

void engine_erase(engine *engine, engine_table *table, const uint64_t *keys, size_t count) {
    if (table->schema.kind == TABLE_SCHEMA_SPARSE) {
        if (engine->keeps) note(table, keys, count);
        (void)sparse_table_erase(table->sparse, keys, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t length;
        const void *values = vector_table_find(&table->table, keys[i], &length);
        if (engine->keeps) section_decoder_must(undo_log_note(&table->log, keys[i], values, length));
        vector_table_erase(&table->table, keys[i]);
    }
}

static void sweep(engine *engine, engine_table *table, uint64_t first, uint64_t last) {
    uint64_t keys[ENGINE_CHUNK];
    uint32_t now = (uint32_t)table->now, age = (uint32_t)table->schema.age_max;
    for (sparse_table_cursor cursor = {.from = first}; !cursor.done;) {
        size_t count = sparse_table_aged(table->sparse, now, age, last, &cursor, keys, ENGINE_CHUNK);
        engine_erase(engine, table, keys, count);
        table->evicted += count;
    }
}

/* Sweeps the hashes for the time since the last sweep; all hashes within an eighth of age_max. */
static void sweep_on(engine *engine, engine_table *table) {
    uint64_t period = table->schema.age_max / SWEEPS + 1, passed = table->now - table->swept_at;
    if (passed == 0) return;
    table->swept_at = table->now;
    if (passed >= period) {
        sweep(engine, table, 0, UINT64_MAX);
        return;
    }
    uint64_t first = table->swept, end = first + UINT64_MAX / period * passed;
    table->swept = end + 1;
    if (end < first) sweep(engine, table, 0, end);
    sweep(engine, table, first, end < first ? UINT64_MAX : end);
}

static void cut_down(engine *engine, engine_table *table) {
    sparse_table_look look = sparse_table_look_at(table->sparse);
    uint64_t limit = table->schema.rows_max, there = look.rows + look.candidates;
    if (there <= limit) return;
    size_t count = there - (limit - limit / SPARE);
    uint64_t *keys;
    section_decoder_must(alloc_try(count * sizeof *keys, &keys));
    section_decoder_must(sparse_table_oldest(table->sparse, (uint32_t)table->now, count, keys, &count));
    engine_erase(engine, table, keys, count);
    table->evicted += count;
    free(keys);
}

void engine_evict(engine *engine, engine_table *table) {
    if (table->schema.age_max != 0) sweep_on(engine, table);
    if (table->schema.rows_max != 0) cut_down(engine, table);
}

/* ---- Queries. */

/* Writes the previous values of a row. */
static void show_old(const engine_table *table, uint64_t key, const undo_log_entry *entry, mr_dtype dtype,
                     uint8_t *out) {
    const table_schema *schema = &table->schema;
    if (!entry->there)
        initializer_read(&schema->init, dtype, key, 0, schema->dim, out);
    else
        dtype_convert(dtype_convert_stored(schema->dtype), undo_log_values(&table->log, entry), dtype, schema->dim,
                      out);
}

static void read_rows(const engine_table *table, const uint64_t *keys, size_t count, engine_note *note, mr_dtype dtype,
                      void *out) {
    if (note == NULL) {
        sparse_table_read(table->sparse, keys, count, dtype, out);
        return;
    }
    uint64_t changes = sparse_table_changes(table->sparse);
    if (note->table == table->schema.id && note->changes == changes) {
        sparse_table_read_noted(table->sparse, keys, count, note->numbers, dtype, out);
        return;
    }
    sparse_table_read_noting(table->sparse, keys, count, note->numbers, dtype, out);
    note->table = table->schema.id;
    note->changes = changes;
}

void engine_show_rows(const engine_table *table, const uint64_t *keys, size_t count, bool kept, engine_note *note,
                      mr_dtype dtype, void *out) {
    size_t bytes = sparse_table_value_bytes(table->sparse, dtype), from = 0;
    read_rows(table, keys, count, note, dtype, out);
    for (size_t i = 0; kept && i < count && from < table->log.count; i++) {
        const undo_log_entry *entry = undo_log_find(&table->log, keys[i], &from);
        if (entry != NULL) show_old(table, keys[i], entry, dtype, (uint8_t *)out + i * bytes);
    }
}

/* ---- Ranges. A range of few possible keys is looked up key by key: the table needs no order for it. */

typedef struct walk { /* keys of a range that have a row at present, ascending */
    const sparse *table;
    bool narrow;
    key_order_cursor cursor; /* unless narrow */
    uint64_t last, next;     /* `next`: of a narrow range, the key that is looked up next */
    bool over, more;         /* more: `key` is the next one */
    uint64_t key;
} walk;

static void step(walk *walk) {
    walk->more = false;
    while (walk->narrow && !walk->over && !walk->more) {
        walk->key = walk->next++;
        walk->over = walk->key == walk->last;
        walk->more = sparse_table_find(walk->table, walk->key) != NULL;
    }
    if (!walk->narrow)
        walk->more = sparse_table_range_next(walk->table, &walk->cursor, &walk->key) && walk->key <= walk->last;
}

static mr_status begin_walk(sparse *table, uint64_t first, uint64_t last, walk *out) {
    *out = (walk){.table = table, .narrow = last - first < NARROW, .last = last, .next = first};
    if (!out->narrow) MR_TRY(sparse_table_range(table, first, &out->cursor));
    step(out);
    return MR_OK;
}

typedef struct key_list {
    uint64_t *keys;
    size_t count, room;
} key_list;

static mr_status add_key(key_list *list, uint64_t key) {
    MR_TRY(alloc_try_grow(&list->keys, &list->room, list->count + 1, sizeof key));
    list->keys[list->count++] = key;
    return MR_OK;
}

/* Lists the keys of the walk, or those of the version before the logged changes: without new keys, with erased ones. */
static mr_status list_keys(walk *walk, const undo_log *log, size_t at, uint32_t most, key_list *out) {
    while (most == 0 || out->count < most) {
        bool logged = at < log->count && log->entries[at].key <= walk->last;
        if (!logged && !walk->more) break;
        uint64_t key = walk->key;
        if (logged && (!walk->more || log->entries[at].key <= key)) {
            const undo_log_entry *entry = &log->entries[at++];
            if (entry->there) MR_TRY(add_key(out, entry->key));
            if (walk->more && entry->key == key) step(walk);
        } else {
            MR_TRY(add_key(out, key));
            step(walk);
        }
    }
    return MR_OK;
}

mr_status engine_range(engine_table *table, uint64_t first, uint64_t last, uint32_t most, bool kept, uint64_t **keys,
                       size_t *count) {
    static const undo_log none;
    const undo_log *log = kept ? &table->log : &none;
    key_list list = {0};
    walk walk;
    *keys = NULL;
    *count = 0;
    if (first > last) return MR_OK;
    MR_TRY(begin_walk(table->sparse, first, last, &walk));
    size_t at = key_sort_reach(log->entries, log->count, sizeof *log->entries, 0, first);
    mr_status status = list_keys(&walk, log, at, most, &list);
    if (status != MR_OK) {
        free(list.keys);
        return status;
    }
    *keys = list.keys;
    *count = list.count;
    return MR_OK;
}
