/* sparse.c — options, touching, reading. See sparse.h. */
#include "kv/table/sparse.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "kv/table/memory.h"
#include "kv/table/narrow.h"
#include "kv/table/sparse_core.h"

enum {
    PREFETCH_MAX = 4, /* lines of a row; the processor sees by itself how it goes on */
    SETTLE = 1        /* buckets that move with each key that is touched while the finder grows */
};

static bool counts(const sparse_options *options) { return options->dtype == MR_I64; }

mr_status sparse_check(const sparse_options *options) {
    mr_dtype dtype = options->dtype;
    if (dtype != MR_F32 && dtype != MR_F16 && dtype != MR_BF16 && dtype != MR_I64)
        return error_set(MR_INVALID, "a sparse table of %s: it has float32, float16, bfloat16 or int64",
                         mr_dtype_name(dtype));
    if (options->dim == 0 || options->dim > SPARSE_DIM_MAX)
        return error_set(MR_INVALID, "a row of %u values: it has 1 to %d", options->dim, SPARSE_DIM_MAX);
    if (options->state % 4 != 0 || options->state > SPARSE_STATE_MAX)
        return error_set(MR_INVALID, "%u bytes of state: a multiple of 4 up to %d", options->state, SPARSE_STATE_MAX);
    if (options->admit > SPARSE_ADMIT_MAX)
        return error_set(MR_INVALID, "admission after %u touches: at most %d", options->admit, SPARSE_ADMIT_MAX);
    if (options->rows_max > ROWS_MAX - 1)
        return error_set(MR_INVALID, "at most %u rows: a table has at most %u", options->rows_max, ROWS_MAX - 1);
    return counts(options) ? initializer_check_counters(&options->init) : initializer_check(&options->init);
}

mr_status sparse_create(const sparse_options *options, sparse **out) {
    MR_TRY(sparse_check(options));
    sparse *table = xcalloc(1, sizeof *table);
    table->options = *options;
    if (table->options.admit == 0) table->options.admit = 1;
    table->value_bytes = options->dim * (counts(options) ? sizeof(int64_t) : sizeof(float));
    size_t align = counts(options) ? sizeof(int64_t) : sizeof(float);
    rows_init(&table->rows, (sparse_row_bytes(table) + align - 1) / align * align);
    mr_status status = finder_init(&table->finder, options->ages);
    if (status != MR_OK) {
        free(table);
        return status;
    }
    *out = table;
    return MR_OK;
}

void sparse_destroy(sparse *table) {
    finder_fini(&table->finder);
    rows_fini(&table->rows);
    free(table);
}

sparse_look sparse_look_at(const sparse *table) {
    return (sparse_look){.rows = table->rows.count,
                         .candidates = table->finder.count - table->rows.count,
                         .bytes = sizeof *table + finder_bytes(&table->finder) + rows_bytes(&table->rows)};
}

size_t sparse_value_bytes(const sparse *table) { return table->options.dim * mr_dtype_size(table->options.dtype); }
size_t sparse_row_bytes(const sparse *table) { return table->value_bytes + table->options.state; }

/* ---- Finding, in steps that each are LAG keys behind the one before: a key's home is fetched, its entry is looked for
 * and its row fetched, the row is used. So about as many lines are under way all the time as a core can wait for. A
 * step takes a group of keys at once; fewer than a group are looked for one after the other. */

enum {
    GROUP = 8,
    LAG = 32,
    RING = 64 /* the keys between two steps, and the group that comes */
};

_Static_assert(LAG % GROUP == 0 && RING % GROUP == 0 && RING >= LAG + GROUP, "a group lies in one piece");

static inline size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* No step waits for more keys than there are. */
static inline size_t lag_of(size_t count) {
    return count < GROUP ? 0 : least(LAG, (count + GROUP - 1) & -(size_t)GROUP);
}

/* The group that begins with the key `at`, if there is one. */
static inline void want(const sparse *table, const uint64_t *keys, size_t at, size_t count, finder_wanted *ring) {
    finder_wanted *group = ring + at % RING;
    for (size_t end = least(at + GROUP, count); at < end; at++, group++) {
        *group = finder_begin(&table->finder, sparse_hash(keys[at]));
        __builtin_prefetch(group->bucket);
    }
}

/* The number of its row; 0: it has none. */
static inline uint32_t find(const sparse *table, const finder_wanted *wanted) {
    uint32_t number = finder_look(&table->finder, wanted);
    return number < SPARSE_CANDIDATE ? number : 0;
}
static inline uint32_t find_key(const sparse *table, uint64_t key) {
    finder_wanted wanted = finder_begin(&table->finder, sparse_hash(key));
    return find(table, &wanted);
}

static inline const void *row_of(const sparse *table, uint32_t number) {
    return number == 0 ? NULL : rows_at(&table->rows, number);
}

static void prefetch_row(const uint8_t *row, size_t size) {
    size_t lines = (size + MEMORY_LINE - 1) / MEMORY_LINE;
    for (size_t i = 0; i < lines && i < PREFETCH_MAX; i++) __builtin_prefetch(row + i * MEMORY_LINE);
}

/* ---- Touching. While it goes on, rows[i] is the row's number shifted by one, with its lowest bit set if this touch
 * made it; 0: the key is only counted. Rows may move until all are made. */

static void *note(uint32_t number, bool made) { return (void *)((uintptr_t)number << 1 | made); }
static uint32_t noted(const void *row) { return (uint32_t)((uintptr_t)row >> 1); }
static bool was_made(const void *row) { return ((uintptr_t)row & 1) != 0; }

/* Notes the rows that are there, which will be written; gives how many are not. A whole lot of them is more than the
 * nearest cache has, so they come to the next one. */
static size_t look_up(const sparse *table, const uint64_t *keys, size_t count, void **rows) {
    finder_wanted ring[RING];
    size_t missing = 0, lag = lag_of(count);
    for (size_t at = 0; at < count + lag; at += GROUP) {
        if (lag != 0) want(table, keys, at, count, ring);
        for (size_t i = at - lag, end = least(i + GROUP, count); at >= lag && i < end; i++) {
            uint32_t number = lag != 0 ? find(table, &ring[i % RING]) : find_key(table, keys[i]);
            rows[i] = note(number, false);
            if (number != 0) __builtin_prefetch(rows_at(&table->rows, number), 1, 2);
            missing += number == 0;
        }
    }
    return missing;
}

static void begin_row(const sparse *table, uint64_t key, void *row) {
    const sparse_options *options = &table->options;
    if (counts(options))
        initializer_fill_counters(&options->init, options->dim, row);
    else
        initializer_fill(&options->init, key, 0, options->dim, row);
    memset((uint8_t *)row + table->value_bytes, 0, options->state);
}

static mr_status make_row(sparse *table, uint64_t key, uint32_t *out) {
    if (table->options.rows_max != 0 && table->rows.count >= table->options.rows_max)
        return error_set(MR_NOMEM, "the table has %u rows, which is its limit", table->rows.count);
    MR_TRY(rows_take(&table->rows, out));
    begin_row(table, key, rows_at(&table->rows, *out));
    return MR_OK;
}

/* A key that had no row when it was looked up. */
static mr_status touch_new(sparse *table, uint64_t key, void **row) {
    uint64_t hash = sparse_hash(key);
    uint32_t before = finder_find(&table->finder, hash);
    if (sparse_is_row(before)) { /* it was there twice */
        *row = note(before, false);
        return MR_OK;
    }
    uint32_t touches = (before == 0 ? 0 : before - SPARSE_CANDIDATE) + 1, number = SPARSE_CANDIDATE + touches;
    bool admitted = touches >= table->options.admit;
    if (admitted) MR_TRY(make_row(table, key, &number));
    if (before != 0) {
        finder_set(&table->finder, hash, number);
    } else {
        mr_status status = finder_add(&table->finder, (finder_entry){hash, number, 0});
        if (status != MR_OK && admitted) rows_give(&table->rows, number);
        if (status != MR_OK) return status;
    }
    *row = note(admitted ? number : 0, admitted);
    return MR_OK;
}

/* Undoes one touch_new. */
static void untouch(sparse *table, uint64_t key, const void *row) {
    uint64_t hash = sparse_hash(key);
    uint32_t touches = table->options.admit;
    if (was_made(row))
        rows_give(&table->rows, noted(row));
    else
        touches = finder_find(&table->finder, hash) - SPARSE_CANDIDATE;
    if (touches > 1)
        finder_set(&table->finder, hash, SPARSE_CANDIDATE + (touches - 1));
    else
        finder_remove(&table->finder, hash);
}

static mr_status touch_missing(sparse *table, const uint64_t *keys, size_t count, void **rows) {
    for (size_t i = 0; i < count; i++) {
        if (rows[i] != NULL) continue;
        mr_status status = touch_new(table, keys[i], &rows[i]);
        if (status == MR_OK) continue;
        while (i-- > 0) /* what was there before is neither made nor counted */
            if (rows[i] == NULL || was_made(rows[i])) untouch(table, keys[i], rows[i]);
        return status;
    }
    return MR_OK;
}

static void mark(sparse *table, const uint64_t *keys, size_t count, uint32_t now) {
    for (size_t i = 0; i < count; i++) finder_saw(&table->finder, sparse_hash(keys[i]), now);
}

mr_status sparse_touch_telling(sparse *table, const uint64_t *keys, size_t count, uint32_t now, void **rows,
                               bool *absent) {
    finder_settle(&table->finder, SETTLE * (uint64_t)count);
    size_t missing = look_up(table, keys, count, rows);
    if (missing > 0) {
        MR_TRY(finder_reserve(&table->finder, missing));
        MR_TRY(touch_missing(table, keys, count, rows));
    }
    if (table->options.ages) mark(table, keys, count, now);
    for (size_t i = 0; absent != NULL && i < count; i++) absent[i] = rows[i] == NULL || was_made(rows[i]);
    for (size_t i = 0; i < count; i++) rows[i] = rows[i] == NULL ? NULL : rows_at(&table->rows, noted(rows[i]));
    return MR_OK;
}

mr_status sparse_touch(sparse *table, const uint64_t *keys, size_t count, uint32_t now, void **rows) {
    return sparse_touch_telling(table, keys, count, now, rows, NULL);
}

/* ---- Reading. */

static void read_absent(const sparse *table, uint64_t key, void *out) {
    initializer_read(&table->options.init, table->options.dtype, key, 0, table->options.dim, out);
}

static inline void read_row(const sparse *table, const void *row, void *out) {
    mr_dtype dtype = table->options.dtype;
    if (dtype == MR_F32 || dtype == MR_I64)
        rows_copy(out, row, table->value_bytes);
    else
        narrow_values(dtype, row, table->options.dim, out);
}

static inline void read_key(const sparse *table, uint64_t key, const void *row, void *out) {
    if (row != NULL)
        read_row(table, row, out);
    else
        read_absent(table, key, out);
}

static inline void read_all(const sparse *table, const uint64_t *keys, size_t count, uint32_t *numbers, void *out) {
    finder_wanted ring[RING];
    const void *rows[RING];
    size_t bytes = sparse_value_bytes(table), lag = lag_of(count);
    uint8_t *to = out;
    for (size_t at = 0; at < count + 2 * lag; at += GROUP) {
        if (lag != 0) want(table, keys, at, count, ring);
        for (size_t i = at - lag, end = least(i + GROUP, count); at >= lag && i < end; i++) {
            uint32_t number = lag != 0 ? find(table, &ring[i % RING]) : find_key(table, keys[i]);
            const void *row = row_of(table, number);
            if (numbers != NULL) numbers[i] = number;
            rows[i % RING] = row;
            if (row != NULL) prefetch_row(row, table->value_bytes);
        }
        for (size_t i = at - 2 * lag, end = least(i + GROUP, count); at >= 2 * lag && i < end; i++, to += bytes)
            read_key(table, keys[i], rows[i % RING], to);
    }
}

void sparse_read(const sparse *table, const uint64_t *keys, size_t count, void *out) {
    read_all(table, keys, count, NULL, out);
}
void sparse_read_noting(const sparse *table, const uint64_t *keys, size_t count, uint32_t *numbers, void *out) {
    read_all(table, keys, count, numbers, out);
}

void sparse_read_noted(const sparse *table, const uint64_t *keys, size_t count, const uint32_t *numbers, void *out) {
    size_t bytes = sparse_value_bytes(table);
    uint8_t *to = out;
    for (size_t i = 0; i < count + LAG; i++) {
        const void *coming = i < count ? row_of(table, numbers[i]) : NULL;
        if (coming != NULL) prefetch_row(coming, table->value_bytes);
        if (i < LAG) continue;
        read_key(table, keys[i - LAG], row_of(table, numbers[i - LAG]), to);
        to += bytes;
    }
}

uint64_t sparse_changes(const sparse *table) { return table->rows.changes; }

void sparse_rows_of(const sparse *table, const uint64_t *keys, size_t count, const void **rows) {
    finder_wanted ring[RING];
    size_t lag = lag_of(count);
    for (size_t at = 0; at < count + lag; at += GROUP) {
        if (lag != 0) want(table, keys, at, count, ring);
        for (size_t i = at - lag, end = least(i + GROUP, count); at >= lag && i < end; i++) {
            rows[i] = row_of(table, lag != 0 ? find(table, &ring[i % RING]) : find_key(table, keys[i]));
            if (rows[i] != NULL) prefetch_row(rows[i], table->value_bytes);
        }
    }
}

const void *sparse_find(const sparse *table, uint64_t key) { return row_of(table, find_key(table, key)); }
