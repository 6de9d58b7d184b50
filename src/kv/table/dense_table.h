/* dense_table.h — dense table: arrays of any shape, cut into blocks.
 *
 * The items of an array, in row-major order, are cut into blocks of equal size, the last one shorter; each block is
 * stored in one slot. A block has its values, `states` arrays of as many fp32 for an optimizer (optim.h), and, if
 * versions are kept, a second array of values: the optimizer reads one and writes the other, without a copy.
 *
 *     const void *from = dense_table_values(block);    // version v
 *     void *to = dense_table_next(block);              // without versions: the same array
 *     …                                                // to[i] = update of from[i]
 *     dense_table_turn(block);                         // version v + 1; v is kept until the next turn
 *
 * Values are stored as fp32 (dense_table_read narrows them to fp16 and bf16) or as int64. Initial values depend on the
 * seed, the table and the place in the whole array, not on the blocks.
 *
 * Snapshots consist of pieces: a piece has a stretch of a block in all its arrays. Items are independent of each other
 * (except in LAMB), so a piece may be packed at any time, and its receiver applies later pushes to it.
 *
 * Export     In exported memory (net/shm/shm_export.h) each of the two arrays of values has a word. A writer announces
 *            a change of an array before and after it (dense_table_change, dense_table_changed): the kept version does
 *            not change while the next one is made.
 *
 * Ownership: a block owns its memory. Threads: none. */
#pragma once
#include "base/bytes.h"
#include "kv/table/initializer.h"
#include "miniray/status.h"
#include "miniray/value.h"
#include "net/shm/shm_export.h"
#include "ps/stable_hash.h"

enum {
    DENSE_TABLE_STATES_MAX = 4,
    DENSE_TABLE_BLOCK = 1 << 18,
    DENSE_TABLE_BLOCK_MAX = 1 << 28,
    DENSE_TABLE_BLOCKS_MAX = 1 << 24
};
#define DENSE_TABLE_ITEMS_MAX (INT64_C(1) << 44)

typedef struct dense_table_options {
    mr_dtype dtype; /* MR_F32, MR_F16, MR_BF16 or MR_I64 */
    int dims;       /* 0: a single item */
    int64_t shape[MR_TENSOR_DIMS_MAX];
    uint32_t block;  /* items of a block; 0: DENSE_TABLE_BLOCK */
    uint32_t states; /* at most DENSE_TABLE_STATES_MAX; 0 for counters */
    bool versions;   /* keeps the previous version */
    initializer init;
    /* memory for the arrays, while it has room; borrowed until the table is destroyed. NULL: not exported */
    shm_export *export;
} dense_table_options;

typedef struct dense_table_plan { /* division of an array into blocks */
    uint64_t items;
    uint32_t block, blocks;
} dense_table_plan;

/* MR_INVALID; the error names the field. */
MR_MUST mr_status dense_table_cut(const dense_table_options *options, dense_table_plan *out);

static inline uint64_t dense_table_first(const dense_table_plan *plan, uint32_t block) {
    return (uint64_t)block * plan->block;
}
static inline uint32_t dense_table_count(const dense_table_plan *plan, uint32_t block) {
    uint64_t left = plan->items - dense_table_first(plan, block);
    return left < plan->block ? (uint32_t)left : plan->block;
}

/* Slot, of `slots`, of a block; `number` counts the blocks of all arrays of the table. */
static inline uint32_t dense_table_slot(uint32_t table, uint64_t number, uint32_t slots) {
    return (uint32_t)((stable_hash(table) % slots + number) % slots);
}

typedef struct dense_table dense_table; /* a block */

/* MR_INVALID, MR_NOMEM */
MR_MUST mr_status dense_table_create(const dense_table_options *options, uint32_t block, dense_table **out);
void dense_table_destroy(dense_table *table);

uint32_t dense_table_items(const dense_table *table);
void *dense_table_values(const dense_table *table);     /* for reading, or for further changes in the same version */
const void *dense_table_kept(const dense_table *table); /* the previous version; NULL: none */
void *dense_table_next(dense_table *table);             /* destination of the complete next version */
float *dense_table_state(dense_table *table, uint32_t k);
void dense_table_turn(dense_table *table);

/* Announces a change of the array that dense_table_next or dense_table_values returned. */
void dense_table_change(dense_table *table, const void *values);
void dense_table_changed(dense_table *table, const void *values);
/* Place in the export of item `first` of dense_table_values or dense_table_kept, and the array's word with its present
 * value. False: not exported. */
bool dense_table_is_seen(const dense_table *table, const void *values, uint32_t first, uint64_t *offset, uint32_t *word,
                         uint64_t *value);

/* Reads `count` values from item `first` of the block, in a dtype that fits the table's (dtype_convert.h); `out` is
 * aligned for it. `values` is a result of dense_table_values or dense_table_kept. */
void dense_table_read(const dense_table *table, const void *values, uint32_t first, uint32_t count, mr_dtype dtype,
                      void *out);

/* ---- Pieces.
 *
 *   bytes    piece
 *   -------  ------------------------------------------------------------------------
 *   4 4  DENSE_TABLE_MAGIC, number of arrays
 *   8        version
 *   4 4      first item, number of items
 *   …        the items of each array: values, the previous version if there is one, state */

#define DENSE_TABLE_MAGIC UINT32_C(0x3144534d)
enum { DENSE_TABLE_PIECE_HEAD = 24 };

size_t dense_table_piece_size(const dense_table *table, uint32_t count);
/* Writes dense_table_piece_size bytes. */
void dense_table_pack(const dense_table *table, uint32_t first, uint32_t count, void *out);

/* Reads a piece of a replica of the same block; *first and *count are set to its stretch. The block gets the version of
 * the piece, which is that of its packing. MR_CORRUPT, MR_INVALID (of another table): nothing has changed. */
MR_MUST mr_status dense_table_unpack(dense_table *table, span piece, uint32_t *first, uint32_t *count);
