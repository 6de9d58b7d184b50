/* dense.h — dense table: arrays of any shape, cut into blocks.
 *
 * The items of an array, in row-major order, are cut into blocks of equal size, the last one shorter; each block lies
 * in a slot of its own. A block has its values, `states` arrays of as many fp32 for an optimizer (optim.h), and, where
 * versions are kept, a second array of values: the optimizer reads one and writes the other, and nothing is copied.
 *
 *     const void *from = dense_values(block);          // version v
 *     void *to = dense_next(block);                    // without versions: the same array
 *     …                                                // to[i] = update of from[i]
 *     dense_turn(block);                               // version v + 1; v is kept until the next turn
 *
 * Values are kept as fp32 (fp16 and bf16 are what dense_read narrows them to) or as int64. How they begin depends on
 * the seed, the table and the place in the whole array, not on how it is cut.
 *
 * Copies are made in pieces: stretches of a block, all arrays of each. Items never meet each other (but in LAMB), so a
 * piece may be taken at any moment, and a copy applies to it what came later.
 *
 * Export     In exported memory (net/shm/glass.h) each of the two arrays of values has a word. A writer announces a
 *            change of an array before and after it (dense_change, dense_changed): the version that is kept does not
 *            change when the next is made.
 *
 * Ownership: a block owns its memory. Threads: none. */
#pragma once
#include "base/bytes.h"
#include "kv/table/initializer.h"
#include "miniray/status.h"
#include "miniray/value.h"
#include "net/shm/glass.h"

enum { DENSE_STATES_MAX = 4, DENSE_BLOCK = 1 << 18, DENSE_BLOCK_MAX = 1 << 28, DENSE_BLOCKS_MAX = 1 << 24 };
#define DENSE_ITEMS_MAX (INT64_C(1) << 44)

typedef struct dense_options {
    mr_dtype dtype; /* MR_F32, MR_F16, MR_BF16 or MR_I64 */
    int dims;       /* 0: one item */
    int64_t shape[MR_TENSOR_DIMS_MAX];
    uint32_t block;  /* items of one; 0: DENSE_BLOCK */
    uint32_t states; /* at most DENSE_STATES_MAX; of counters none */
    bool versions;   /* the version before the present one is kept */
    initializer init;
    glass *glass; /* where its arrays lie, if they can; borrowed for its life. NULL: nobody looks at them */
} dense_options;

typedef struct dense_plan { /* how an array is cut */
    uint64_t items;
    uint32_t block, blocks;
} dense_plan;

/* MR_INVALID, and says what is wrong. */
MR_MUST mr_status dense_cut(const dense_options *options, dense_plan *out);

static inline uint64_t dense_first(const dense_plan *plan, uint32_t block) { return (uint64_t)block * plan->block; }
static inline uint32_t dense_count(const dense_plan *plan, uint32_t block) {
    uint64_t left = plan->items - dense_first(plan, block);
    return left < plan->block ? (uint32_t)left : plan->block;
}

typedef struct dense dense; /* one block */

MR_MUST mr_status dense_create(const dense_options *options, uint32_t block, dense **out); /* MR_INVALID, MR_NOMEM */
void dense_destroy(dense *dense);

uint32_t dense_items(const dense *dense);
const void *dense_values(const dense *dense);
const void *dense_kept(const dense *dense); /* the version before; NULL: there is none */
void *dense_next(dense *dense);             /* where the next version is written, all of it */
void *dense_present(dense *dense);          /* the values, to be changed further in the same version */
float *dense_state(dense *dense, uint32_t k);
void dense_turn(dense *dense);

void dense_change(dense *dense, const void *values); /* dense_next or dense_present gave that: it will be written */
void dense_changed(dense *dense, const void *values);
/* Where the item `first` of dense_values or dense_kept lies for others, and the word of that array with what it is now.
 * False: nobody can look at it. */
bool dense_is_seen(const dense *dense, const void *values, uint32_t first, uint64_t *offset, uint32_t *word,
                   uint64_t *value);

/* `count` values from the item `first` of the block on, in the table's dtype; `out` is aligned for it. `values` is what
 * dense_values or dense_kept gave. */
void dense_read(const dense *dense, const void *values, uint32_t first, uint32_t count, void *out);

/* ---- In pieces.
 *
 *   bytes    piece
 *   -------  ------------------------------------------------------------------------
 *   4 4      DENSE_MAGIC, number of arrays
 *   8        version
 *   4 4      first item, number of items
 *   …        the items of each array: values, the version before if there is one, state */

#define DENSE_MAGIC UINT32_C(0x3144534d)
enum { DENSE_PIECE_HEAD = 24 };

size_t dense_piece_size(const dense *dense, uint32_t count);
void dense_pack(const dense *dense, uint32_t first, uint32_t count, void *out); /* dense_piece_size bytes */

/* Takes a piece of the same block of a copy; *first and *count are then the stretch. MR_CORRUPT, MR_INVALID (of another
 * table): nothing has happened. All pieces of a copy that is under way bear the version of their time; the block has
 * that of the last that was taken. */
MR_MUST mr_status dense_unpack(dense *dense, span piece, uint32_t *first, uint32_t *count);
