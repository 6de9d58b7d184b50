/* sparse_table.c — sparse table: options, access to rows, reading. See sparse_table.h. */
#include "kv/table/sparse_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/simd.h"
#include "kv/table/huge_pages.h"
#include "kv/table/sparse_internal.h"
#include "net/dtype_convert.h"

enum {
    FETCHED_MAX = 4, /* prefetched cache lines of a row */
    SETTLE = 1       /* buckets moved with each touched key while the key index grows */
};

mr_status sparse_table_check(const sparse_table_options *options) {
    mr_dtype dtype = options->dtype;
    if (dtype != MR_F32 && dtype != MR_F16 && dtype != MR_BF16 && dtype != MR_I64)
        return error_set(MR_INVALID, "a sparse table of %s: expected float32, float16, bfloat16 or int64",
                         mr_dtype_name(dtype));
    if (options->dim == 0 || options->dim > SPARSE_TABLE_DIM_MAX)
        return error_set(MR_INVALID, "dim is %u; expected 1 to %d", options->dim, SPARSE_TABLE_DIM_MAX);
    if (options->state % 4 != 0 || options->state > SPARSE_TABLE_STATE_MAX)
        return error_set(MR_INVALID, "%u bytes of state: expected a multiple of 4 up to %d", options->state,
                         SPARSE_TABLE_STATE_MAX);
    if (options->admit > SPARSE_TABLE_ADMIT_MAX)
        return error_set(MR_INVALID, "admit is %u; the limit is %d", options->admit, SPARSE_TABLE_ADMIT_MAX);
    if (options->rows_max > ROW_POOL_MAX - 1)
        return error_set(MR_INVALID, "rows_max is %u; the limit is %u", options->rows_max, ROW_POOL_MAX - 1);
    return initializer_check(&options->init, dtype);
}

mr_status sparse_table_create(const sparse_table_options *options, sparse **out) {
    key_index index;
    MR_TRY(sparse_table_check(options));
    MR_TRY(key_index_init(&index, options->ages));
    sparse *table = XNEW(sparse, .options = *options, .index = index);
    if (table->options.admit == 0) table->options.admit = 1;
    size_t align = options->dtype == MR_I64 ? sizeof(int64_t) : sizeof(float);
    table->value_bytes = options->dim * align;
    row_pool_init(&table->pool, (sparse_table_row_bytes(table) + align - 1) / align * align);
    *out = table;
    return MR_OK;
}

void sparse_table_destroy(sparse *table) {
    key_index_fini(&table->index);
    row_pool_fini(&table->pool);
    key_order_destroy(table->order);
    free(table);
}

sparse_table_look sparse_table_look_at(const sparse *table) {
    return (sparse_table_look){.rows = table->pool.count,
                               .candidates = table->index.count - table->pool.count,
                               .bytes = sizeof *table + key_index_bytes(&table->index) + row_pool_bytes(&table->pool) +
                                        key_order_bytes(table->order)};
}

size_t sparse_table_value_bytes(const sparse *table, mr_dtype dtype) {
    return table->options.dim * mr_dtype_size(dtype);
}
size_t sparse_table_row_bytes(const sparse *table) { return table->value_bytes + table->options.state; }

/* ---- Lookup. A lookup waits for two cache lines at unpredictable addresses: of the key index and of the row. So a
 * batch of keys is walked twice, and each walk prefetches AHEAD keys ahead, so that as many loads are in flight as a
 * core supports. */

enum { AHEAD = 32, GROUP = 16, RING = 64, LOT = 1024 };

_Static_assert(AHEAD % GROUP == 0 && RING % GROUP == 0 && RING >= AHEAD + GROUP, "a group lies in one piece");

static inline size_t least(size_t a, size_t b) { return a < b ? a : b; }

static inline uint32_t find_key(const sparse *table, uint64_t key) {
    uint32_t number = key_index_find(&table->index, sparse_hash(key));
    return number < SPARSE_CANDIDATE ? number : 0;
}

/* Copy of a key index's fields, so that the compiler knows that stores do not change them. (Likewise the copies of row
 * pools below.) */
typedef struct search {
    key_index_part parts[2]; /* now, old */
    uint64_t frontier;       /* in `old` */
    key_index_wanted ring[RING];
    uint8_t part[RING]; /* part of each wanted hash */
} search;

/* Prefetches the home buckets of the keys `from` … `to` - 1. `grows` is a constant where this is inlined. */
static inline __attribute__((always_inline)) void want(search *search, const uint64_t *keys, size_t from, size_t to,
                                                       bool grows) {
    for (size_t i = from, at = from % RING; i < to; i++, at++) {
        uint64_t hash = sparse_hash(keys[i]);
        bool is_old = grows && key_index_home(&search->parts[1], hash) >= search->frontier;
        search->ring[at] = key_index_begin(&search->parts[is_old], hash);
        if (grows) search->part[at] = is_old;
        __builtin_prefetch(search->ring[at].bucket);
    }
}

/* Keys that are not in their buckets are looked up last: so no other key waits for them, and the loop has no
 * unpredictable branch. */
static inline __attribute__((always_inline)) void find_all(const key_index *index, const uint64_t *keys, size_t count,
                                                           bool grows, uint32_t *numbers) {
    search search;
    uint16_t elsewhere[LOT + 1];
    size_t others = 0;
    search.parts[0] = index->now;
    search.parts[1] = index->old;
    search.frontier = index->frontier;
    for (size_t at = 0; at < count + AHEAD; at += GROUP) {
        want(&search, keys, at, least(at + GROUP, count), grows);
        if (at < AHEAD) continue;
        for (size_t i = at - AHEAD, in = i % RING, end = least(i + GROUP, count); i < end; i++, in++) {
            const key_index_part *part = &search.parts[grows && search.part[in]];
            uint32_t number;
            bool found = key_index_look(part, &search.ring[in], &number);
            numbers[i] = number < SPARSE_CANDIDATE ? number : 0;
            elsewhere[others] = (uint16_t)i;
            others += !found;
        }
    }
    for (size_t i = 0; i < others; i++) {
        uint32_t number = key_index_look_further(index, sparse_hash(keys[elsewhere[i]]));
        numbers[elsewhere[i]] = number < SPARSE_CANDIDATE ? number : 0;
    }
}

SIMD_CLONES static void find_settled(const key_index *index, const uint64_t *keys, size_t count, uint32_t *numbers) {
    find_all(index, keys, count, false, numbers);
}
SIMD_CLONES static void find_growing(const key_index *index, const uint64_t *keys, size_t count, uint32_t *numbers) {
    find_all(index, keys, count, true, numbers);
}

/* Row numbers of a batch of keys; 0: none. A single key needs no prefetch. */
static void find(const sparse *table, const uint64_t *keys, size_t count, uint32_t *numbers) {
    const key_index *index = &table->index;
    if (count == 1)
        numbers[0] = find_key(table, keys[0]);
    else
        (index->old.buckets == NULL ? find_settled : find_growing)(index, keys, count, numbers);
}

static inline const void *row_of(const row_pool *pool, uint32_t number) {
    return number == 0 ? NULL : row_pool_at(pool, number);
}

/* Prefetches the first `lines` of a row, perhaps for writing; the processor prefetches the rest by itself. */
static inline void fetch_row(const void *row, size_t lines) {
    for (size_t i = 0; i < lines; i++) __builtin_prefetch((const uint8_t *)row + i * HUGE_PAGES_LINE);
}
static size_t lines_of(const sparse *table) {
    return least((table->value_bytes + HUGE_PAGES_LINE - 1) / HUGE_PAGES_LINE, FETCHED_MAX);
}

/* ---- Touching. Meanwhile rows[i] is the row's number shifted left by one, with the lowest bit set if this touch made
 * the row; 0: the key is only counted. Rows may move until all are made. */

static void *note(uint32_t number, bool made) { return (void *)((uintptr_t)number << 1 | made); }
static uint32_t noted(const void *row) { return (uint32_t)((uintptr_t)row >> 1); }
static bool was_made(const void *row) { return ((uintptr_t)row & 1) != 0; }

/* Records the existing rows; returns the number of missing ones. */
static size_t look_up(const sparse *table, const uint64_t *keys, size_t count, void **rows) {
    uint32_t numbers[LOT];
    size_t missing = 0;
    for (size_t at = 0; at < count; at += LOT) {
        size_t lot = least(count - at, LOT);
        find(table, keys + at, lot, numbers);
        for (size_t i = 0; i < lot; i++) {
            rows[at + i] = note(numbers[i], false);
            missing += numbers[i] == 0;
        }
    }
    return missing;
}

static void begin_row(const sparse *table, uint64_t key, void *row) {
    const sparse_table_options *options = &table->options;
    initializer_fill(&options->init, options->dtype, key, 0, options->dim, row);
    memset((uint8_t *)row + table->value_bytes, 0, options->state);
}

static mr_status make_row(sparse *table, uint64_t key, uint32_t *out) {
    if (table->options.rows_max != 0 && table->pool.count >= table->options.rows_max)
        return error_set(MR_NOMEM, "the table has %u rows, which is its limit", table->pool.count);
    MR_TRY(row_pool_take(&table->pool, out));
    begin_row(table, key, row_pool_at(&table->pool, *out));
    sparse_note(table, key);
    return MR_OK;
}

/* Touches a key that had no row when it was looked up. */
static mr_status touch_new(sparse *table, uint64_t key, void **row) {
    uint64_t hash = sparse_hash(key);
    uint32_t before = key_index_find(&table->index, hash);
    if (sparse_is_row(before)) { /* the key is repeated in the batch */
        *row = note(before, false);
        return MR_OK;
    }
    uint32_t touches = (before == 0 ? 0 : before - SPARSE_CANDIDATE) + 1, number = SPARSE_CANDIDATE + touches;
    bool admitted = touches >= table->options.admit;
    if (admitted) MR_TRY(make_row(table, key, &number));
    if (before != 0) {
        key_index_set(&table->index, hash, number);
    } else {
        mr_status status = key_index_add(&table->index, (key_index_entry){hash, number, 0});
        if (status != MR_OK && admitted) row_pool_give(&table->pool, number);
        if (status != MR_OK) return status;
    }
    *row = note(admitted ? number : 0, admitted);
    return MR_OK;
}

/* Undoes a touch_new. */
static void untouch(sparse *table, uint64_t key, const void *row) {
    uint64_t hash = sparse_hash(key);
    uint32_t touches = table->options.admit;
    if (was_made(row)) {
        row_pool_give(&table->pool, noted(row));
        sparse_note(table, key);
    } else {
        touches = key_index_find(&table->index, hash) - SPARSE_CANDIDATE;
    }
    if (touches > 1)
        key_index_set(&table->index, hash, SPARSE_CANDIDATE + (touches - 1));
    else
        key_index_remove(&table->index, hash);
}

static mr_status touch_missing(sparse *table, const uint64_t *keys, size_t count, void **rows) {
    for (size_t i = 0; i < count; i++) {
        if (rows[i] != NULL) continue;
        mr_status status = touch_new(table, keys[i], &rows[i]);
        if (status == MR_OK) continue;
        while (i-- > 0) /* rows that existed before are neither made nor counted */
            if (rows[i] == NULL || was_made(rows[i])) untouch(table, keys[i], rows[i]);
        return status;
    }
    return MR_OK;
}

static void mark(sparse *table, const uint64_t *keys, size_t count, uint32_t now) {
    for (size_t i = 0; i < count; i++) key_index_saw(&table->index, sparse_hash(keys[i]), now);
}

/* Replaces numbers by pointers and prefetches the rows for writing, into the second-level cache, since a batch exceeds
 * the first. */
static void show_rows(const row_pool *all, size_t count, void **rows) {
    const struct row_pool table = *all;
    for (size_t i = 0; i < count; i++) {
        if (rows[i] == NULL) continue;
        rows[i] = row_pool_at(&table, noted(rows[i]));
        __builtin_prefetch(rows[i], 1, 2);
    }
}

/* Touches one existing row. False: absent. */
static bool touch_one(sparse *table, uint64_t key, uint32_t now, void **row) {
    uint32_t number = find_key(table, key);
    if (number == 0) return false;
    if (table->options.ages) mark(table, &key, 1, now);
    *row = row_pool_at(&table->pool, number);
    return true;
}

mr_status sparse_table_touch(sparse *table, const uint64_t *keys, size_t count, uint32_t now, void **rows,
                             bool *absent) {
    key_index_settle(&table->index, SETTLE * (uint64_t)count);
    if (count == 1 && touch_one(table, keys[0], now, rows)) {
        if (absent != NULL) absent[0] = false;
        return MR_OK;
    }
    size_t missing = look_up(table, keys, count, rows);
    if (missing > 0) {
        MR_TRY(key_index_reserve(&table->index, missing));
        MR_TRY(touch_missing(table, keys, count, rows));
    }
    if (table->options.ages) mark(table, keys, count, now);
    for (size_t i = 0; absent != NULL && i < count; i++) absent[i] = rows[i] == NULL || was_made(rows[i]);
    show_rows(&table->pool, count, rows);
    return MR_OK;
}

/* ---- Reading. */

static void read_absent(const sparse *table, uint64_t key, mr_dtype dtype, void *out) {
    initializer_read(&table->options.init, dtype, key, 0, table->options.dim, out);
}

/* Rows of a size known to the compiler are copied in a few instructions. */
#define READ_EACH(how)                                                                                              \
    for (size_t i = 0; i < count; i++, to += bytes) {                                                               \
        if (i + AHEAD < count && numbers[i + AHEAD] != 0) fetch_row(row_pool_at(&pool, numbers[i + AHEAD]), lines); \
        const void *row = row_of(&pool, numbers[i]);                                                                \
        if (__builtin_expect(row == NULL, 0))                                                                       \
            read_absent(table, keys[i], dtype, to);                                                                 \
        else                                                                                                        \
            how;                                                                                                    \
    }

void sparse_table_read_noted(const sparse *table, const uint64_t *keys, size_t count, const uint32_t *numbers,
                             mr_dtype dtype, void *out) {
    const row_pool pool = table->pool;
    size_t bytes = sparse_table_value_bytes(table, dtype), lines = lines_of(table);
    uint8_t *to = out;
    for (size_t i = 0; i < least(AHEAD, count); i++)
        if (numbers[i] != 0) fetch_row(row_pool_at(&pool, numbers[i]), lines);
    if (dtype == MR_F16 || dtype == MR_BF16)
        READ_EACH(dtype_convert(MR_F32, row, dtype, table->options.dim, to))
    else if (bytes == sizeof(float))
        READ_EACH(memcpy(to, row, sizeof(float)))
    else if (bytes == HUGE_PAGES_LINE)
        READ_EACH(memcpy(to, row, HUGE_PAGES_LINE))
    else
        READ_EACH(row_pool_copy(to, row, bytes))
}

void sparse_table_read_noting(const sparse *table, const uint64_t *keys, size_t count, uint32_t *numbers,
                              mr_dtype dtype, void *out) {
    size_t bytes = sparse_table_value_bytes(table, dtype);
    for (size_t at = 0; at < count; at += LOT) {
        size_t lot = least(count - at, LOT);
        find(table, keys + at, lot, numbers + at);
        sparse_table_read_noted(table, keys + at, lot, numbers + at, dtype, (uint8_t *)out + at * bytes);
    }
}

/* Reads a single row, without prefetching. */
static void read_one(const sparse *table, uint64_t key, mr_dtype dtype, void *out) {
    const void *row = row_of(&table->pool, find_key(table, key));
    if (row == NULL)
        read_absent(table, key, dtype, out);
    else if (dtype == MR_F16 || dtype == MR_BF16)
        dtype_convert(MR_F32, row, dtype, table->options.dim, out);
    else
        row_pool_copy(out, row, table->value_bytes);
}

static void read_many(const sparse *table, const uint64_t *keys, size_t count, mr_dtype dtype, void *out) {
    uint32_t numbers[LOT];
    size_t bytes = sparse_table_value_bytes(table, dtype);
    for (size_t at = 0; at < count; at += LOT)
        sparse_table_read_noting(table, keys + at, least(count - at, LOT), numbers, dtype, (uint8_t *)out + at * bytes);
}

void sparse_table_read(const sparse *table, const uint64_t *keys, size_t count, mr_dtype dtype, void *out) {
    MR_ASSERT(dtype_convert_fits(table->options.dtype, dtype));
    if (count == 1)
        read_one(table, keys[0], dtype, out);
    else
        read_many(table, keys, count, dtype, out);
}

uint64_t sparse_table_changes(const sparse *table) { return table->pool.changes; }

void sparse_table_rows_of(const sparse *table, const uint64_t *keys, size_t count, const void **rows) {
    uint32_t numbers[LOT];
    size_t lines = lines_of(table);
    for (size_t at = 0; at < count; at += LOT) {
        size_t lot = least(count - at, LOT);
        find(table, keys + at, lot, numbers);
        for (size_t i = 0; i < lot; i++) {
            rows[at + i] = row_of(&table->pool, numbers[i]);
            if (numbers[i] != 0) fetch_row(rows[at + i], lines);
        }
    }
}

const void *sparse_table_find(const sparse *table, uint64_t key) { return row_of(&table->pool, find_key(table, key)); }

/* ---- Ranges. */

static bool has_row(const void *table, uint64_t key) { return sparse_table_find(table, key) != NULL; }

/* Makes the order of all keys. */
static mr_status make_order(sparse *table) {
    uint64_t *keys;
    size_t count = 0;
    key_index_entry e;
    MR_TRY(alloc_try(table->pool.count * sizeof *keys, &keys));
    for (bool more = key_index_next(&table->index, 0, &e); more; more = sparse_following(table, e.hash, &e))
        if (sparse_is_row(e.row)) keys[count++] = sparse_key(e.hash);
    MR_ASSERT(count == table->pool.count);
    mr_status status = key_order_create(keys, count, &table->order);
    free(keys);
    return status;
}

mr_status sparse_table_range(sparse *table, uint64_t first, key_order_cursor *out) {
    if (table->order == NULL) MR_TRY(make_order(table));
    mr_status status = key_order_settle(table->order, has_row, table);
    if (status != MR_OK) {
        key_order_destroy(table->order);
        table->order = NULL;
        return status;
    }
    *out = key_order_seek(table->order, first);
    return MR_OK;
}

bool sparse_table_range_next(const sparse *table, key_order_cursor *cursor, uint64_t *key) {
    return key_order_next(table->order, cursor, key);
}
