/* sparse_table.h — sparse table of rows by 64-bit key: embeddings, features, counters.
 *
 *     sparse_table_touch(table, keys, count, round, rows, NULL);
 *                     // a push: rows are made as needed, then changed in place
 *     sparse_table_read(table, keys, count, values);
 *                     // a pull: makes nothing; an absent row has its initial value
 *
 * A row has `dim` values and, beside them, `state` bytes for an optimizer (optim.h), initially zero. Values are stored
 * as fp32, also where the table's dtype is fp16 or bf16 (narrowed when they are read), or as int64.
 *
 *   key index   hash → number of the row; with ages, its last touch             9 bytes a place, and 4 of age,
 *                                                                                       0.45 to 0.6 of them in use
 *   rows        number → values and state                                              payload only, in chunks
 *   key order   keys ascending, after the first range (key_order.h)                    8 to 11 bytes a key
 *
 * So a row costs its payload and 15 to 21 bytes (with ages 22 to 30), and a lookup waits for one line of the key index
 * and those of the row. Both grow incrementally. Keys are looked up in batches: the lines of some keys are fetched
 * while earlier keys are read.
 *
 * Deterministic: keys are enumerated in the order of their hashes (key_index.h), so that replicas of a table enumerate
 * in the same order, however they were made. No function reads a clock: `now` is a counter of the caller, such as
 * rounds or log entries, modulo 2^32.
 *
 * Admission   with `admit` = n a key gets its row when it is touched the nth time; until then the key index counts its
 *             touches, and its pushes have no effect.
 * Eviction    is done by the caller: sparse_table_aged and sparse_table_oldest list keys, sparse_table_erase removes
 *             them. (The head of a chain decides and logs the keys; the other replicas erase the logged keys.)
 *
 * Errors      MR_NOMEM changes nothing. Ownership: the table owns all its memory. Threads: none. */
#pragma once
#include "base/bytes.h"
#include "kv/table/initializer.h"
#include "kv/table/key_order.h"
#include "miniray/status.h"
#include "miniray/value.h"

enum { SPARSE_TABLE_DIM_MAX = 1 << 16, SPARSE_TABLE_STATE_MAX = 1 << 20, SPARSE_TABLE_ADMIT_MAX = 254 };

typedef struct sparse_table_options {
    mr_dtype dtype; /* MR_F32, MR_F16, MR_BF16 or MR_I64 */
    uint32_t dim;   /* values per row: 1 … SPARSE_TABLE_DIM_MAX */
    uint32_t state; /* bytes of optimizer state: a multiple of 4, at most SPARSE_TABLE_STATE_MAX */
    initializer init;
    uint32_t admit;    /* touches that a key needs for a row; 0 as 1; at most SPARSE_TABLE_ADMIT_MAX */
    uint32_t rows_max; /* 0: limited by memory only */
    bool ages;         /* records the last touch of each key, for eviction; else it is 0 */
} sparse_table_options;

typedef struct sparse sparse;

typedef struct sparse_table_look {
    uint64_t rows, candidates; /* keys with a row; keys that are only counted */
    size_t bytes;              /* taken from the system */
} sparse_table_look;

typedef struct sparse_table_cursor { /* zero-initialized: at the beginning */
    uint64_t from;                   /* next hash */
    bool done;
} sparse_table_cursor;

MR_MUST mr_status sparse_table_check(const sparse_table_options *options); /* MR_INVALID; the error names the field */
MR_MUST mr_status sparse_table_create(const sparse_table_options *options, sparse **out);
void sparse_table_destroy(sparse *table);
sparse_table_look sparse_table_look_at(const sparse *table);
size_t sparse_table_value_bytes(const sparse *table, mr_dtype dtype); /* bytes of a row in this dtype */
size_t sparse_table_row_bytes(const sparse *table);                   /* bytes of a stored row: values, then state */

/* Rows of these keys; missing ones are made, or NULL if a key is not admitted yet. A row is valid until the next touch
 * or unpack. A repeated key is touched repeatedly. absent[i], unless NULL: the key had no row before. MR_NOMEM: no key
 * was touched. */
MR_MUST mr_status sparse_table_touch(sparse *table, const uint64_t *keys, size_t count, uint32_t now, void **rows,
                                     bool *absent);

/* Reads the values of these keys, in a dtype that fits the table's (dtype_convert.h), one row after another; `out` is
 * aligned for it. */
void sparse_table_read(const sparse *table, const uint64_t *keys, size_t count, mr_dtype dtype, void *out);

/* Same, for keys that will be read again: `numbers` gets their row numbers, 0 for none. They are valid as long as
 * sparse_table_changes is unchanged, and save the lookup. */
void sparse_table_read_noting(const sparse *table, const uint64_t *keys, size_t count, uint32_t *numbers,
                              mr_dtype dtype, void *out);
void sparse_table_read_noted(const sparse *table, const uint64_t *keys, size_t count, const uint32_t *numbers,
                             mr_dtype dtype, void *out);
uint64_t sparse_table_changes(const sparse *table); /* number of times that a key got or lost a row */

const void *sparse_table_find(const sparse *table, uint64_t key); /* stored row of the key; NULL: none */
/* Same for many keys. */
void sparse_table_rows_of(const sparse *table, const uint64_t *keys, size_t count, const void **rows);

/* The keys that have a row, ascending, from `first` on; valid until a key gets or loses a row. The first call walks and
 * sorts the whole table, and later calls only the keys that got or lost a row since (key_order.h). MR_NOMEM. */
MR_MUST mr_status sparse_table_range(sparse *table, uint64_t first, key_order_cursor *out);
bool sparse_table_range_next(const sparse *table, key_order_cursor *cursor, uint64_t *key); /* false: the end */

/* ---- Eviction. Candidates are aged and erased like rows. */

/* Lists keys whose last touch was more than `age` before `now`, in the order of their hashes, from the cursor up to
 * hash `last`, at most `room` of them. Returns their number. */
size_t sparse_table_aged(const sparse *table, uint32_t now, uint32_t age, uint64_t last, sparse_table_cursor *cursor,
                         uint64_t *keys, size_t room);

/* Lists the `count` keys with the oldest last touch (or all), of equal age those with the smaller hashes, in the order
 * of their hashes. Sets their number. MR_NOMEM. */
MR_MUST mr_status sparse_table_oldest(const sparse *table, uint32_t now, size_t count, uint64_t *keys, size_t *out);

/* returns the number of keys that were present */
size_t sparse_table_erase(sparse *table, const uint64_t *keys, size_t count);

/* ---- Pieces, for replicas and checkpoints.
 *
 * A piece has all keys of an interval of hashes, rows and candidates, with their state and age. Pieces follow each
 * other and cover all hashes, so for any key it is known whether a packed piece contains it: a replica applies to the
 * keys of a piece only pushes later than its packing. A table may change between two pieces.
 *
 *   bytes    piece
 *   -------  ------------------------------------------------------------------------------
 *   4 4  SPARSE_TABLE_MAGIC, number of keys
 *   4 4      bytes of a row, the table's `admit`
 *   8 8      the first and the last hash of the interval
 *   …        keys, hashes ascending: 8 hash, 4 seen, 4 count; if that is 0, the row */

#define SPARSE_TABLE_MAGIC UINT32_C(0x3152534d)
enum { SPARSE_TABLE_PIECE_HEAD = 32, SPARSE_TABLE_PIECE_KEY = 16 };

/* Writes the next piece in at most `room` bytes, which are enough for the head and the next key; returns its size. Not
 * called when the cursor is done. */
size_t sparse_table_pack(const sparse *table, sparse_table_cursor *cursor, void *out, size_t room);

/* Reads a piece of a table with the same options; the table has no key in its interval. MR_CORRUPT: malformed;
 * MR_INVALID: of another table; MR_EXISTS: a key is present already; MR_NOMEM. On an error nothing has changed. */
MR_MUST mr_status sparse_table_unpack(sparse *table, span piece);
