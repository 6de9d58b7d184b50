/* dense.c — see dense.h. */
#include "kv/table/dense.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "kv/table/memory.h"
#include "kv/table/narrow.h"

enum { ARRAYS_MAX = 2 + DENSE_STATES_MAX, SHOWN_LEAST = 16 << 10 };

struct dense {
    dense_options options;
    uint32_t items;
    size_t item; /* bytes of one, as it lies here */
    uint64_t version;
    uint8_t *arrays[ARRAYS_MAX]; /* values, the other values if versions are kept, state; in `memory` */
    void *memory;                /* owned */
    size_t size;
    bool shown;        /* it is the glass's */
    uint32_t words[2]; /* of the arrays of values; 0: nobody looks */
};

static bool counts(const dense_options *options) { return options->dtype == MR_I64; }

static mr_status check_shape(const dense_options *options, uint64_t *items) {
    if (options->dims < 0 || options->dims > MR_TENSOR_DIMS_MAX)
        return error_set(MR_INVALID, "%d dimensions: expected 0 to %d", options->dims, MR_TENSOR_DIMS_MAX);
    int64_t count = 1;
    for (int i = 0; i < options->dims; i++) {
        int64_t length = options->shape[i];
        if (length < 1 || length > DENSE_ITEMS_MAX / count)
            return error_set(MR_INVALID, "dimension %d is %lld: expected at least 1, and at most %lld items in all", i,
                             (long long)length, (long long)DENSE_ITEMS_MAX);
        count *= length;
    }
    *items = (uint64_t)count;
    return MR_OK;
}

mr_status dense_cut(const dense_options *options, dense_plan *out) {
    mr_dtype dtype = options->dtype;
    if (dtype != MR_F32 && dtype != MR_F16 && dtype != MR_BF16 && dtype != MR_I64)
        return error_set(MR_INVALID, "a dense table of %s: expected float32, float16, bfloat16 or int64",
                         mr_dtype_name(dtype));
    dense_plan plan = {.block = options->block == 0 ? DENSE_BLOCK : options->block};
    MR_TRY(check_shape(options, &plan.items));
    uint64_t blocks = (plan.items + plan.block - 1) / plan.block;
    if (plan.block > DENSE_BLOCK_MAX || blocks > DENSE_BLOCKS_MAX)
        return error_set(MR_INVALID, "%llu blocks of %u items: the limit is %d blocks of %d items",
                         (unsigned long long)blocks, plan.block, DENSE_BLOCKS_MAX, DENSE_BLOCK_MAX);
    if (options->states > (counts(options) ? 0 : DENSE_STATES_MAX))
        return error_set(MR_INVALID, "%u state arrays: the limit is %d, and 0 for int64", options->states,
                         DENSE_STATES_MAX);
    MR_TRY(counts(options) ? initializer_check_counters(&options->init) : initializer_check(&options->init));
    plan.blocks = (uint32_t)blocks;
    *out = plan;
    return MR_OK;
}

static uint32_t array_count(const dense_options *options) { return 1 + options->versions + options->states; }

/* Small ones are as fast in a message. What the glass has no room for lies elsewhere. */
static bool take_shown(dense *dense) {
    glass *glass = dense->options.glass;
    if (glass == NULL || dense->size < SHOWN_LEAST || glass_take(glass, dense->size, &dense->memory) != MR_OK)
        return false;
    for (int k = 0; k < 1 + dense->options.versions; k++) dense->words[k] = glass_word_take(glass);
    return true;
}

/* Arrays begin on lines of the caches. */
static mr_status take_arrays(dense *dense) {
    size_t length = (dense->items * dense->item + MEMORY_LINE - 1) & -(size_t)MEMORY_LINE;
    dense->size = length * array_count(&dense->options) + MEMORY_LINE;
    dense->shown = take_shown(dense);
    if (!dense->shown) MR_TRY(memory_take(dense->size, &dense->memory));
    uint8_t *at = (uint8_t *)(((uintptr_t)dense->memory + MEMORY_LINE - 1) & -(uintptr_t)MEMORY_LINE);
    for (uint32_t k = 0; k < array_count(&dense->options); k++) dense->arrays[k] = at + k * length;
    return MR_OK;
}

mr_status dense_create(const dense_options *options, uint32_t block, dense **out) {
    dense_plan plan = {0};
    MR_TRY(dense_cut(options, &plan));
    if (block >= plan.blocks) return error_set(MR_INVALID, "no block %u: the array has %u", block, plan.blocks);
    dense *dense = xcalloc(1, sizeof *dense);
    dense->options = *options;
    dense->items = dense_count(&plan, block);
    dense->item = counts(options) ? sizeof(int64_t) : sizeof(float);
    mr_status status = take_arrays(dense);
    if (status != MR_OK) {
        free(dense);
        return status;
    }
    if (counts(options))
        initializer_fill_counters(&options->init, dense->items, (int64_t *)dense->arrays[0]);
    else
        initializer_fill(&options->init, 0, (size_t)dense_first(&plan, block), dense->items, (float *)dense->arrays[0]);
    *out = dense;
    return MR_OK;
}

/* Whoever looks at it finds that it is another one now. */
static void give_shown(dense *dense) {
    glass *glass = dense->options.glass;
    for (int k = 0; k < 2; k++) {
        if (dense->words[k] == 0) continue;
        glass_change(glass, dense->words[k]);
        glass_changed(glass, dense->words[k]);
        glass_word_give(glass, dense->words[k]);
    }
    glass_give(glass, dense->memory);
}

void dense_destroy(dense *dense) {
    if (dense->shown)
        give_shown(dense);
    else
        memory_give(dense->memory, dense->size);
    free(dense);
}

uint32_t dense_items(const dense *dense) { return dense->items; }

/* With versions, an even one is in the first array. */
static uint32_t present(const dense *dense) { return dense->options.versions ? dense->version % 2 : 0; }

const void *dense_values(const dense *dense) { return dense->arrays[present(dense)]; }

void *dense_present(dense *dense) { return dense->arrays[present(dense)]; }

const void *dense_kept(const dense *dense) {
    return dense->options.versions && dense->version > 0 ? dense->arrays[1 - present(dense)] : NULL;
}

void *dense_next(dense *dense) { return dense->arrays[dense->options.versions ? 1 - present(dense) : 0]; }

float *dense_state(dense *dense, uint32_t k) {
    MR_ASSERT(k < dense->options.states);
    return (float *)dense->arrays[1 + dense->options.versions + k];
}

void dense_turn(dense *dense) { dense->version++; }

/* ---- For others. */

static uint32_t word_of(const dense *dense, const void *values) {
    return dense->words[dense->options.versions && values == dense->arrays[1]];
}

void dense_change(dense *dense, const void *values) {
    uint32_t word = word_of(dense, values);
    if (word != 0) glass_change(dense->options.glass, word);
}

void dense_changed(dense *dense, const void *values) {
    uint32_t word = word_of(dense, values);
    if (word != 0) glass_changed(dense->options.glass, word);
}

bool dense_is_seen(const dense *dense, const void *values, uint32_t first, uint64_t *offset, uint32_t *word,
                   uint64_t *value) {
    *word = word_of(dense, values);
    if (*word == 0 || !glass_holds(dense->options.glass, values, dense->items * dense->item, offset)) return false;
    *offset += first * dense->item;
    *value = glass_word(dense->options.glass, *word);
    return true;
}

void dense_read(const dense *dense, const void *values, uint32_t first, uint32_t count, void *out) {
    MR_ASSERT(first <= dense->items && count <= dense->items - first);
    narrow_values(dense->options.dtype, (const uint8_t *)values + first * dense->item, count, out);
}

/* ---- In pieces. Values come first, then the version before them, whichever of the two arrays they lie in. */

static uint32_t array_at(uint64_t version, bool versions, uint32_t k) {
    return versions && k < 2 ? (uint32_t)((version + k) % 2) : k;
}

size_t dense_piece_size(const dense *dense, uint32_t count) {
    return DENSE_PIECE_HEAD + (size_t)array_count(&dense->options) * count * dense->item;
}

void dense_pack(const dense *dense, uint32_t first, uint32_t count, void *out) {
    MR_ASSERT(first <= dense->items && count <= dense->items - first);
    writer writer = writer_of(out, dense_piece_size(dense, count));
    writer_u32(&writer, DENSE_MAGIC);
    writer_u32(&writer, array_count(&dense->options));
    writer_u64(&writer, dense->version);
    writer_u32(&writer, first);
    writer_u32(&writer, count);
    for (uint32_t k = 0; k < array_count(&dense->options); k++) {
        const uint8_t *array = dense->arrays[array_at(dense->version, dense->options.versions, k)];
        writer_bytes(&writer, array + first * dense->item, count * dense->item);
    }
    MR_ASSERT(!writer.failed);
}

mr_status dense_unpack(dense *dense, span piece, uint32_t *first, uint32_t *count) {
    reader reader = reader_of(piece.data, piece.size);
    uint32_t magic = reader_u32(&reader), arrays = reader_u32(&reader);
    uint64_t version = reader_u64(&reader);
    uint32_t from = reader_u32(&reader), items = reader_u32(&reader);
    if (reader.failed || magic != DENSE_MAGIC) return error_set(MR_CORRUPT, "malformed chunk of an array: %08x", magic);
    if (arrays != array_count(&dense->options) || from > dense->items || items > dense->items - from)
        return error_set(MR_INVALID, "a chunk of %u items from %u on, of %u arrays: this block has %u, of %u", items,
                         from, arrays, dense->items, array_count(&dense->options));
    if (reader_left(&reader) != (size_t)arrays * items * dense->item)
        return error_set(MR_CORRUPT, "malformed chunk: %zu bytes of %u items", reader_left(&reader), items);
    for (uint32_t k = 0; k < arrays; k++) {
        const uint8_t *bytes = reader_bytes(&reader, items * dense->item);
        uint8_t *array = dense->arrays[array_at(version, dense->options.versions, k)];
        bool values = k < 1 + (uint32_t)dense->options.versions;
        if (values) dense_change(dense, array);
        if (items > 0) memcpy(array + from * dense->item, bytes, items * dense->item);
        if (values) dense_changed(dense, array);
    }
    dense->version = version;
    *first = from;
    *count = items;
    return MR_OK;
}
