/* sparse_table.h — sparse table of rows by 64-bit key: embeddings, features, counters.
 *
 *     sparse_table_touch(table, keys, count, round, rows, NULL);
 *                     // a push: rows are made as needed, then changed in place
 *     sparse_table_read(table, keys, count, values);
 *                     // a pull: makes nothing; an absent row has its initial value
 *
 * A row has `dim` values and, beside them, `state` bytes for an optimizer (optim.h), which begin with zeros. Values are
 * kept as fp32, also where the table's dtype is fp16 or bf16 (narrowed when they are read), or as int64.
 *
 *   key index   hash → number of the row; with ages, when it was seen last             9 bytes a place, and 4 of age,
 *                                                                                       0.45 to 0.6 of them in use
 *   rows        number → values and state                                              payload only, in chunks
 *
 * So a row costs its payload and 15 to 21 bytes (with ages 22 to 30), and a lookup waits for one line of the key index
 * and the row's. Both grow a little at a time. Many keys are looked up at once: the lines of some are fetched while
 * those before them are read.
 *
 * Same operations, same bytes: keys are enumerated in the order of the hashes, which depends on the keys alone
 * (key_index.h), so that replicas of a table enumerate alike however they were made. Nothing here reads a clock: `now`
 * is a counter of the caller, rounds or entries of a log, modulo 2^32.
 *
 * Admission   with `admit` = n a key gets its row when it is touched the nth time; until then it is counted, in its
 *             place of the key index, and its pushes are lost.
 * Eviction    is up to the caller: sparse_table_aged and sparse_table_oldest name keys, sparse_table_erase removes
 *             them. (The head of a chain decides and logs the keys; the other replicas erase the logged keys.)
 *
 * Errors      MR_NOMEM changes nothing. Ownership: the table owns all its memory. Threads: none. */
#pragma once
#include "base/bytes.h"
#include "kv/table/initializer.h"
#include "miniray/status.h"
#include "miniray/value.h"

enum { SPARSE_TABLE_DIM_MAX = 1 << 16, SPARSE_TABLE_STATE_MAX = 1 << 20, SPARSE_TABLE_ADMIT_MAX = 254 };

typedef struct sparse_table_options {
    mr_dtype dtype; /* MR_F32, MR_F16, MR_BF16 or MR_I64 */
    uint32_t dim;   /* values of a row: 1 … SPARSE_TABLE_DIM_MAX */
    uint32_t state; /* bytes beside them: a multiple of 4, at most SPARSE_TABLE_STATE_MAX */
    initializer init;
    uint32_t admit;    /* touches that a key needs: 0 and 1, the first; at most SPARSE_TABLE_ADMIT_MAX */
    uint32_t rows_max; /* 0: as many as fit into memory */
    bool ages;         /* records when a key is touched: for eviction. Else all keys are seen at 0 */
} sparse_table_options;

typedef struct sparse sparse;

typedef struct sparse_table_look {
    uint64_t rows, candidates; /* keys with a row; keys that are only counted */
    size_t bytes;              /* taken from the system */
} sparse_table_look;

typedef struct sparse_table_cursor { /* zeroed: at the beginning */
    uint64_t from;                   /* the next hash */
    bool done;
} sparse_table_cursor;

MR_MUST mr_status sparse_table_check(const sparse_table_options *options); /* MR_INVALID, and names the field */
MR_MUST mr_status sparse_table_create(const sparse_table_options *options, sparse **out);
void sparse_table_destroy(sparse *table);
sparse_table_look sparse_table_look_at(const sparse *table);
size_t sparse_table_value_bytes(const sparse *table); /* of a row as sparse_table_read writes it */
size_t sparse_table_row_bytes(const sparse *table);   /* of a stored row: values, then state */

/* The rows of these keys, made where they are missing; NULL where a key is not admitted yet. Each is valid until the
 * next touch or unpack. A key that comes several times is touched several times. absent[i], unless NULL: the key had
 * no row before. MR_NOMEM: nothing was touched. */
MR_MUST mr_status sparse_table_touch(sparse *table, const uint64_t *keys, size_t count, uint32_t now, void **rows,
                                     bool *absent);

/* The values of these keys, in the table's dtype, one row after another; `out` is aligned for it. */
void sparse_table_read(const sparse *table, const uint64_t *keys, size_t count, void *out);

/* The same for keys that will be asked for again: `numbers` gets the numbers of their rows, 0 for none. They are valid
 * as long as sparse_table_changes returns the same, and save the lookup. */
void sparse_table_read_noting(const sparse *table, const uint64_t *keys, size_t count, uint32_t *numbers, void *out);
void sparse_table_read_noted(const sparse *table, const uint64_t *keys, size_t count, const uint32_t *numbers,
                             void *out);
uint64_t sparse_table_changes(const sparse *table); /* how often a key has got a row, or lost it */

const void *sparse_table_find(const sparse *table, uint64_t key); /* its stored row; NULL: none */
/* the same for many */
void sparse_table_rows_of(const sparse *table, const uint64_t *keys, size_t count, const void **rows);

/* How many keys from first to last have a row; as many of them as there is room for, in the order of their hashes.
 * Scans the whole table. */
size_t sparse_table_range(const sparse *table, uint64_t first, uint64_t last, uint64_t *keys, size_t room);

/* ---- Eviction. Candidates are aged and erased like rows. */

/* Keys that were last seen more than `age` before `now`, in the order of their hashes, from the cursor up to the hash
 * `last`, at most `room` of them. Returns their number. */
size_t sparse_table_aged(const sparse *table, uint32_t now, uint32_t age, uint64_t last, sparse_table_cursor *cursor,
                         uint64_t *keys, size_t room);

/* The `count` keys that were seen longest before `now` (all, if there are fewer), of equal age those with the smaller
 * hashes; listed in the order of their hashes. Returns their number. MR_NOMEM. */
MR_MUST mr_status sparse_table_oldest(const sparse *table, uint32_t now, size_t count, uint64_t *keys, size_t *out);

size_t sparse_table_erase(sparse *table, const uint64_t *keys, size_t count); /* returns how many were there */

/* ---- In pieces: for replicas and checkpoints.
 *
 * A piece has all keys of an interval of hashes, rows and candidates, with their state and age. Pieces follow each
 * other and cover all hashes, so for any key it is known whether it was in a piece under way: a replica applies to the
 * keys of a piece only pushes that came after the piece was packed. A table may change between two pieces.
 *
 *   bytes    piece
 *   -------  ------------------------------------------------------------------------------
 *   4 4  SPARSE_TABLE_MAGIC, number of keys
 *   4 4      bytes of a row, the table's `admit`
 *   8 8      the first and the last hash of the interval
 *   …        keys, hashes ascending: 8 hash, 4 seen, 4 count; if that is 0, the row */

#define SPARSE_TABLE_MAGIC UINT32_C(0x3152534d)
enum { SPARSE_TABLE_PIECE_HEAD = 32, SPARSE_TABLE_PIECE_KEY = 16 };

/* Writes the next piece, in at most `room` bytes, which is enough for the head and for the next key, if there is one;
 * returns its size. Not when done. */
size_t sparse_table_pack(const sparse *table, sparse_table_cursor *cursor, void *out, size_t room);

/* Takes a piece of a table with the same options; the table has no key of its interval. MR_CORRUPT: not a piece;
 * MR_INVALID: of another table; MR_EXISTS: a key is present already; MR_NOMEM. Nothing has changed then. */
MR_MUST mr_status sparse_table_unpack(sparse *table, span piece);
