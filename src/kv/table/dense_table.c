/* dense_table.c — see dense_table.h. */
#include "kv/table/dense_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "kv/table/huge_pages.h"
#include "net/dtype_convert.h"

enum { ARRAYS_MAX = 2 + DENSE_TABLE_STATES_MAX, SHOWN_LEAST = 16 << 10 };

struct dense_table {
    dense_table_options options;
    uint32_t items;
    size_t item; /* bytes of a stored item */
    uint64_t version;
    /* values, the second array of values if versions are kept, optimizer state; all inside `memory` */
    uint8_t *arrays[ARRAYS_MAX];
    void *memory; /* owned */
    size_t size;
    bool shown;        /* the memory is in the export */
    uint32_t words[2]; /* words of the arrays of values; 0: not exported */
};

static mr_status check_shape(const dense_table_options *options, uint64_t *items) {
    if (options->dims < 0 || options->dims > MR_TENSOR_DIMS_MAX)
        return error_set(MR_INVALID, "%d dimensions: expected 0 to %d", options->dims, MR_TENSOR_DIMS_MAX);
    int64_t count = 1;
    for (int i = 0; i < options->dims; i++) {
        int64_t length = options->shape[i];
        if (length < 1 || length > DENSE_TABLE_ITEMS_MAX / count)
            return error_set(MR_INVALID, "dimension %d is %lld: expected at least 1, and at most %lld items in all", i,
                             (long long)length, (long long)DENSE_TABLE_ITEMS_MAX);
        count *= length;
    }
    *items = (uint64_t)count;
    return MR_OK;
}

mr_status dense_table_cut(const dense_table_options *options, dense_table_plan *out) {
    mr_dtype dtype = options->dtype;
    if (dtype != MR_F32 && dtype != MR_F16 && dtype != MR_BF16 && dtype != MR_I64)
        return error_set(MR_INVALID, "a dense table of %s: expected float32, float16, bfloat16 or int64",
                         mr_dtype_name(dtype));
    dense_table_plan plan = {.block = options->block == 0 ? DENSE_TABLE_BLOCK : options->block};
    MR_TRY(check_shape(options, &plan.items));
    uint64_t blocks = (plan.items + plan.block - 1) / plan.block;
    if (plan.block > DENSE_TABLE_BLOCK_MAX || blocks > DENSE_TABLE_BLOCKS_MAX)
        return error_set(MR_INVALID, "%llu blocks of %u items: the limit is %d blocks of %d items",
                         (unsigned long long)blocks, plan.block, DENSE_TABLE_BLOCKS_MAX, DENSE_TABLE_BLOCK_MAX);
    if (options->states > (dtype == MR_I64 ? 0 : DENSE_TABLE_STATES_MAX))
        return error_set(MR_INVALID, "%u state arrays: the limit is %d, and 0 for int64", options->states,
                         DENSE_TABLE_STATES_MAX);
    MR_TRY(initializer_check(&options->init, dtype));
    plan.blocks = (uint32_t)blocks;
    *out = plan;
    return MR_OK;
}

static uint32_t array_count(const dense_table_options *options) { return 1 + options->versions + options->states; }

/* Takes memory of the export. False for small blocks, which are as fast in a message, and if the export is full. */
static bool take_shown(dense_table *table) {
    shm_export *export = table->options.export;
    if (export == NULL || table->size < SHOWN_LEAST || shm_export_take(export, table->size, &table->memory) != MR_OK)
        return false;
    for (int k = 0; k < 1 + table->options.versions; k++) table->words[k] = shm_export_word_take(export);
    return true;
}

/* Allocates the arrays, each aligned to a cache line. */
static mr_status take_arrays(dense_table *table) {
    size_t length = (table->items * table->item + HUGE_PAGES_LINE - 1) & -(size_t)HUGE_PAGES_LINE;
    table->size = length * array_count(&table->options) + HUGE_PAGES_LINE;
    table->shown = take_shown(table);
    if (!table->shown) MR_TRY(huge_pages_take(table->size, &table->memory));
    uint8_t *at = (uint8_t *)(((uintptr_t)table->memory + HUGE_PAGES_LINE - 1) & -(uintptr_t)HUGE_PAGES_LINE);
    for (uint32_t k = 0; k < array_count(&table->options); k++) table->arrays[k] = at + k * length;
    return MR_OK;
}

mr_status dense_table_create(const dense_table_options *options, uint32_t block, dense_table **out) {
    dense_table_plan plan = {0};
    MR_TRY(dense_table_cut(options, &plan));
    if (block >= plan.blocks) return error_set(MR_INVALID, "no block %u: the array has %u", block, plan.blocks);
    dense_table table = {.options = *options, .items = dense_table_count(&plan, block)};
    table.item = options->dtype == MR_I64 ? sizeof(int64_t) : sizeof(float);
    MR_TRY(take_arrays(&table));
    initializer_fill(&options->init, options->dtype, 0, (size_t)dense_table_first(&plan, block), table.items,
                     table.arrays[0]);
    *out = xcopy(&table, sizeof table);
    return MR_OK;
}

/* Returns exported memory; the changed words inform readers. */
static void give_shown(dense_table *table) {
    shm_export *export = table->options.export;
    for (int k = 0; k < 2; k++) {
        if (table->words[k] == 0) continue;
        shm_export_change(export, table->words[k]);
        shm_export_changed(export, table->words[k]);
        shm_export_word_give(export, table->words[k]);
    }
    shm_export_give(export, table->memory);
}

void dense_table_destroy(dense_table *table) {
    if (table->shown)
        give_shown(table);
    else
        huge_pages_give(table->memory, table->size);
    free(table);
}

uint32_t dense_table_items(const dense_table *table) { return table->items; }

/* Index of the array with the present version: with versions, even versions are in the first array. */
static uint32_t present(const dense_table *table) { return table->options.versions ? table->version % 2 : 0; }

void *dense_table_values(const dense_table *table) { return table->arrays[present(table)]; }

const void *dense_table_kept(const dense_table *table) {
    return table->options.versions && table->version > 0 ? table->arrays[1 - present(table)] : NULL;
}

void *dense_table_next(dense_table *table) { return table->arrays[table->options.versions ? 1 - present(table) : 0]; }

float *dense_table_state(dense_table *table, uint32_t k) {
    MR_ASSERT(k < table->options.states);
    return (float *)table->arrays[1 + table->options.versions + k];
}

void dense_table_turn(dense_table *table) { table->version++; }

/* ---- Export. */

static uint32_t word_of(const dense_table *table, const void *values) {
    return table->words[table->options.versions && values == table->arrays[1]];
}

void dense_table_change(dense_table *table, const void *values) {
    uint32_t word = word_of(table, values);
    if (word != 0) shm_export_change(table->options.export, word);
}

void dense_table_changed(dense_table *table, const void *values) {
    uint32_t word = word_of(table, values);
    if (word != 0) shm_export_changed(table->options.export, word);
}

bool dense_table_is_seen(const dense_table *table, const void *values, uint32_t first, uint64_t *offset, uint32_t *word,
                         uint64_t *value) {
    *word = word_of(table, values);
    if (*word == 0 || !shm_export_holds(table->options.export, values, table->items * table->item, offset))
        return false;
    *offset += first * table->item;
    *value = shm_export_word(table->options.export, *word);
    return true;
}

void dense_table_read(const dense_table *table, const void *values, uint32_t first, uint32_t count, mr_dtype dtype,
                      void *out) {
    MR_ASSERT(first <= table->items && count <= table->items - first);
    dtype_convert(dtype_convert_stored(table->options.dtype), (const uint8_t *)values + first * table->item, dtype,
                  count, out);
}

/* ---- Chunks. Values come first, then the previous version, regardless of which of the two arrays has which. */

static uint32_t array_at(uint64_t version, bool versions, uint32_t k) {
    return versions && k < 2 ? (uint32_t)((version + k) % 2) : k;
}

size_t dense_table_piece_size(const dense_table *table, uint32_t count) {
    return DENSE_TABLE_PIECE_HEAD + (size_t)array_count(&table->options) * count * table->item;
}

void dense_table_pack(const dense_table *table, uint32_t first, uint32_t count, void *out) {
    MR_ASSERT(first <= table->items && count <= table->items - first);
    writer writer = writer_of(out, dense_table_piece_size(table, count));
    writer_u32(&writer, DENSE_TABLE_MAGIC);
    writer_u32(&writer, array_count(&table->options));
    writer_u64(&writer, table->version);
    writer_u32(&writer, first);
    writer_u32(&writer, count);
    for (uint32_t k = 0; k < array_count(&table->options); k++) {
        const uint8_t *array = table->arrays[array_at(table->version, table->options.versions, k)];
        writer_bytes(&writer, array + first * table->item, count * table->item);
    }
    MR_ASSERT(!writer.failed);
}

mr_status dense_table_unpack(dense_table *table, span piece, uint32_t *first, uint32_t *count) {
    reader reader = reader_of(piece.data, piece.size);
    uint32_t magic = reader_u32(&reader), arrays = reader_u32(&reader);
    uint64_t version = reader_u64(&reader);
    uint32_t from = reader_u32(&reader), items = reader_u32(&reader);
    if (reader.failed || magic != DENSE_TABLE_MAGIC)
        return error_set(MR_CORRUPT, "malformed chunk of an array: %08x", magic);
    if (arrays != array_count(&table->options) || from > table->items || items > table->items - from)
        return error_set(MR_INVALID, "a chunk of %u items from %u on, of %u arrays: this block has %u, of %u", items,
                         from, arrays, table->items, array_count(&table->options));
    if (reader_left(&reader) != (size_t)arrays * items * table->item)
        return error_set(MR_CORRUPT, "malformed chunk: %zu bytes of %u items", reader_left(&reader), items);
    for (uint32_t k = 0; k < arrays; k++) {
        const uint8_t *bytes = reader_bytes(&reader, items * table->item);
        uint8_t *array = table->arrays[array_at(version, table->options.versions, k)];
        bool values = k < 1 + (uint32_t)table->options.versions;
        if (values) dense_table_change(table, array);
        if (items > 0) memcpy(array + from * table->item, bytes, items * table->item);
        if (values) dense_table_changed(table, array);
    }
    table->version = version;
    *first = from;
    *count = items;
    return MR_OK;
}
