/* payload.h — payload of pushes, queries and answers between workers and slots: sections per table.
 *
 * A payload is a sequence of sections, each about one table. Sections begin at multiples of 8, so that keys and values
 * are used in place; a payload at another alignment is copied first (payload_align).
 *
 *   offset bytes  section
 *   0      4      table
 *   4 5    1 1    op, flags
 *   6 7    1 1    dtype of the values (mr_dtype; 0 without values), 0
 *   8      4      count
 *   12     4      bytes of the body
 *   16     …      body, then zeros up to a multiple of 8
 *
 *   op                        count               body
 *   DEFINE                    0                   a schema (table_schema.h)
 *   DROP                      0
 *   ADD_ROWS, SET_ROWS        keys                keys, values: as many of each key
 *   ADD_VECTORS, SET_VECTORS  keys                keys, lengths (4 bytes each, zeros up to a multiple of 8), values
 *   ADD_BLOCK, SET_BLOCK      items of a stretch  place, values
 *   ERASE                     keys                keys
 *   ROUND                     members             (of the round whose sum follows)
 *   GET_ROWS, GET_VECTORS     keys                version, keys
 *   GET_RANGE                 rows at most, or 0  version, first key, last key
 *   GET_BLOCK                 items of a stretch  version, place
 *   GET_LOOK                  0                   version
 *   ROWS                      keys                version, values
 *   RANGE                     keys                version, keys, values
 *   VECTORS                   keys                version, lengths, values
 *   BLOCK                     items of a stretch  version, values
 *   LOOK                      0                   version, payload_look
 *   SAME                      0                   version
 *   NONE                      a payload_reason    version
 *   SKIP                      0                   (of a contribution to a round: the rank is left out of the round)
 *   RATE                      0                   rate
 *
 * Keys are 8 bytes, ascending, all different. A place is 16: array, number of the block, items of that block, first
 * item of the stretch. A version is 8 bytes and counts the changes of the table in this slot, from 1. A query has the
 * version of the caller's values (0: none); if that version is still the newest, the answer is SAME. Versions of
 * different generations of a deployment are unrelated.
 *
 * Values of int64 tables are int64. Those of other tables are fp32, fp16 or bf16, whatever the table's dtype; a query
 * has the dtype in which its answer is wanted, or 0: the table's. With PAYLOAD_CODED they are a codec's message
 * (codec.h) of all values of the section. With PAYLOAD_PRESSED the body is a compressor's message (compress.h) of the
 * body. With PAYLOAD_AFAR, of blocks only, the values lie in the memory of a process of the same machine
 * (net/shm/shm_export.h), as fp32 or int64, and a payload_afar has their place; in GET_BLOCK the flag means that the
 * caller can read that memory.
 *
 * With PAYLOAD_RUN, of pushed or queried rows, the keys are consecutive, at most PAYLOAD_RUN_MAX, and the section has
 * only the first one (section_decoder.h makes the others).
 *
 * With PAYLOAD_LISTED, of GET_ROWS and GET_VECTORS, the receiver may cache the keys by their hash (key_list_cache.h);
 * with PAYLOAD_KNOWN the section has only their hash, 16 bytes, and the answer is NONE, FORGOTTEN, if they are not
 * cached.
 *
 * A rate is a learning rate, 4 bytes: an fp32 number, finite and not negative. It replaces that of the table's schedule
 * for the next section, if that is an ADD of the same table. In a contribution to a round it may be anywhere, and is
 * this rank's rate for all ADD sections of the table; the last one counts.
 *
 * A query, and a push that also pulls, has one answer section for each section that asks, in their order: for GET_…,
 * and for ADD_… and SET_…, whose answer is the values of their keys; but not with PAYLOAD_MUTE. NONE has the reason why
 * there are no values.
 *
 * Every length is checked before it is used. Ownership: a reader borrows its bytes, a section borrows from them; a
 * writer owns its bytes until payload_take. Threads: none. */
#pragma once
#include "base/bytes.h"
#include "base/shared_bytes.h"
#include "kv/codec/compress.h"
#include "miniray/value.h"

enum {
    PAYLOAD_ALIGN = 8,
    PAYLOAD_HEAD = 16,
    PAYLOAD_PLACE = 16,
    PAYLOAD_BYTES_MAX = 1 << 30,   /* limit of a payload, and of the decompressed body of a section */
    PAYLOAD_ANSWER_MAX = 32 << 20, /* bytes of an answer up to which values are added to it; larger than any vector */
    PAYLOAD_RUN_MAX = 1 << 20,     /* keys */
    PAYLOAD_SMALL = 512,           /* bytes; smaller payloads are aligned on the stack */
    PAYLOAD_KEPT = 8192,           /* bytes; larger memory of a writer is not reused */
    PAYLOAD_BORROWED = 512,        /* bytes; smaller payloads are copied when they are sent */
    PAYLOAD_ROWS_MAX = 64,         /* rows of a section that is written row by row */
};

typedef enum payload_op {
    PAYLOAD_DEFINE = 1,
    PAYLOAD_DROP,
    PAYLOAD_ADD_ROWS,
    PAYLOAD_SET_ROWS,
    PAYLOAD_ADD_VECTORS,
    PAYLOAD_SET_VECTORS,
    PAYLOAD_ADD_BLOCK,
    PAYLOAD_SET_BLOCK,
    PAYLOAD_ERASE,
    PAYLOAD_ROUND,
    PAYLOAD_GET_ROWS,
    PAYLOAD_GET_VECTORS,
    PAYLOAD_GET_RANGE,
    PAYLOAD_GET_BLOCK,
    PAYLOAD_GET_LOOK,
    PAYLOAD_ROWS,
    PAYLOAD_RANGE,
    PAYLOAD_VECTORS,
    PAYLOAD_BLOCK,
    PAYLOAD_LOOK,
    PAYLOAD_SAME,
    PAYLOAD_NONE,
    PAYLOAD_SKIP,
    PAYLOAD_RATE,
    PAYLOAD_OPS
} payload_op;

enum {
    PAYLOAD_CODED = 1,
    PAYLOAD_PRESSED = 2,
    PAYLOAD_MUTE = 4,
    PAYLOAD_RUN = 8,
    PAYLOAD_LISTED = 16,
    PAYLOAD_KNOWN = 32,
    PAYLOAD_AFAR = 64,
    PAYLOAD_FLAGS = 127
};

typedef enum payload_reason { /* reason why an answer has no values */
                              PAYLOAD_UNKNOWN =
                                  1, /* the slot does not have the table, and the query had no schema of it */
                              PAYLOAD_DROPPED,
                              PAYLOAD_MISFIT,    /* the section does not fit the kind of the table */
                              PAYLOAD_TOO_LARGE, /* above PAYLOAD_ANSWER_MAX, or above the server's memory */
                              PAYLOAD_FORGOTTEN, /* the slot does not cache the key list with this hash */
} payload_reason;

typedef struct payload_place {
    uint32_t array, block, items, first;
} payload_place;

_Static_assert(sizeof(payload_place) == PAYLOAD_PLACE, "a place has no gaps");

typedef struct payload_afar {
    uint64_t process, offset; /* process whose memory it is; place in its export */
    /* of an answer: the word that changes with the values, and its value at the time (shm_export.h) */
    uint64_t word, value;
} payload_afar;

_Static_assert(sizeof(payload_afar) == 32, "it has no gaps");

typedef struct payload_look {  /* statistics of a table's part in a slot */
    uint64_t keys, candidates; /* rows, vectors or blocks; keys without a row, whose touches are counted (admission) */
    uint64_t bytes;            /* bytes of memory */
    uint64_t refused;          /* sections that did not fit the table */
    uint64_t left_out;         /* rows, vectors and stretches that were not finite */
    uint64_t evicted;
} payload_look;

/* ---- Reading. */

typedef struct payload_section {
    uint32_t table;
    payload_op op;
    uint8_t flags;
    mr_dtype dtype;
    uint32_t count;
    span body;               /* as received */
    uint64_t version;        /* of a query or an answer */
    const uint64_t *keys;    /* `count` keys; NULL: none, or compressed */
    const uint32_t *lengths; /* likewise */
    payload_place place;
    uint64_t first, last; /* of a range or a run; or the halves of the hash of the keys */
    span values;          /* the rest of the body: values or what replaces them, a schema, statistics */
    payload_afar afar;    /* of a section with remote values */
    bool rated;           /* RATE, and an ADD section that follows one: `rate` is valid */
    float rate;
} payload_section;

typedef struct payload_reader {
    reader in;
    bool failed;
    bool rated; /* the last section was a RATE: */
    uint32_t rate_table;
    float rate;
} payload_reader;

payload_reader payload_open(span bytes); /* `bytes` are aligned to PAYLOAD_ALIGN */

/* Reads the next section. Of a compressed section only the body is set: see payload_unfold. False: the end, or a
 * malformed section; then the reader is `failed`. */
bool payload_next(payload_reader *reader, payload_section *out);

/* Splits the decompressed, aligned body of a section. False: malformed. */
bool payload_unfold(const payload_section *pressed, span body, payload_section *out);

bool payload_ascends(const payload_section *section); /* whether the keys ascend */

/* Checks a whole payload: well-formed sections, ascending keys. MR_CORRUPT; the error names the section. */
MR_MUST mr_status payload_check(span bytes);
/* Same, and sets the number of sections and the last one: a small payload with one section need not be read again. */
MR_MUST mr_status payload_check_last(span bytes, size_t *count, payload_section *last);

/* Memory for the aligned copy of a payload; on the stack if it is small. */
typedef struct payload_scratch {
    void *copy; /* owned; NULL: on the stack, or not copied */
    uint64_t small[PAYLOAD_SMALL / 8];
} payload_scratch;

/* Aligned bytes: the same, or a copy in `scratch`, which the caller frees. MR_NOMEM: nothing to free. */
MR_MUST mr_status payload_align(span bytes, payload_scratch *scratch, span *out);
void payload_clear(payload_scratch *scratch);

static inline bool payload_is_push(payload_op op) { return op >= PAYLOAD_ADD_ROWS && op <= PAYLOAD_SET_BLOCK; }
static inline bool payload_is_set(payload_op op) {
    return op == PAYLOAD_SET_ROWS || op == PAYLOAD_SET_VECTORS || op == PAYLOAD_SET_BLOCK;
}
/* The ADD operation of the same kind; each SET follows its ADD. */
static inline payload_op payload_add_of(payload_op op) { return payload_is_set(op) ? op - 1 : op; }
static inline bool payload_is_add(payload_op op) { return payload_is_push(op) && !payload_is_set(op); }
static inline bool payload_is_query(payload_op op) { return op >= PAYLOAD_GET_ROWS && op <= PAYLOAD_GET_LOOK; }
static inline bool payload_asks(const payload_section *section) { /* whether the section has an answer */
    return (payload_is_push(section->op) || payload_is_query(section->op)) && (section->flags & PAYLOAD_MUTE) == 0;
}

/* ---- Writing.
 *
 *    payload_writer writer = {0};
 *    payload_room room;
 *    payload_head head = {.table = 3, .op = PAYLOAD_ADD_ROWS, .dtype = MR_F32, .count = n};
 *    MR_TRY(payload_add(&writer, head, n * dim * sizeof(float), &room));
 *     …                                               // room.keys, room.values: written in place
 *    shared_bytes *bytes = payload_take(&writer);
 *
 * A failed call returns MR_NOMEM or MR_TOO_LARGE, and changes nothing. */

typedef struct payload_writer { /* zero-initialized: empty */
    shared_bytes *bytes;        /* owned; NULL: nothing was written */
    size_t size, room;
    size_t last;    /* begin of the last section */
    uint32_t rows;  /* rows of the last section while it is written row by row; else 0 */
    uint32_t row;   /* bytes of values per row */
    uint64_t *keys; /* keys of those rows, owned; NULL: none was written so */
} payload_writer;

typedef struct payload_head {
    uint32_t table;
    payload_op op;
    uint8_t flags; /* without PAYLOAD_PRESSED (payload_press sets it) */
    mr_dtype dtype;
    uint32_t count;
} payload_head;

typedef struct payload_room { /* destinations in the payload; NULL: a section of this kind has no such part */
    uint64_t *version;        /* initially 0, as are range and place */
    uint64_t *range;          /* first and last key */
    payload_place *place;
    uint64_t *keys;    /* head.count keys; one for a run, two words for a hash */
    uint32_t *lengths; /* likewise */
    void *values;
} payload_room;

/* Adds a section with `value_bytes` bytes of values or of what replaces them; with a codec the bound of its message
 * (payload_trim). The room is valid until the next section. */
MR_MUST mr_status payload_add(payload_writer *writer, payload_head head, size_t value_bytes, payload_room *out);
/* Adds a row to an ADD_ROWS or SET_ROWS section that is written row by row. The first row begins the section
 * (head.count is 1); every row has `row` bytes of values, which the caller writes to *values. The keys are put in
 * front of the values when the section is complete: with the next section, or by payload_seal. At most
 * PAYLOAD_ROWS_MAX rows. */
MR_MUST mr_status payload_add_rows(payload_writer *writer, payload_head head, size_t row, uint64_t key, void **values);
MR_MUST mr_status payload_add_row(payload_writer *writer, uint64_t key, void **values);
void payload_seal(payload_writer *writer); /* no-op if the last section is complete */
/* Sets the version of the last section, a query, to 0. */
void payload_forget_version(payload_writer *writer);
MR_MUST mr_status payload_copy(payload_writer *writer, const payload_section *section); /* adds the section unchanged */
void payload_forget_version(payload_writer *writer); /* sets the version of the last section, a query, to 0 */
/* Adds the last section of a payload without its values, which follow from other memory and have a multiple of
 * PAYLOAD_ALIGN bytes. */
MR_MUST mr_status payload_add_front(payload_writer *writer, payload_head head, size_t value_bytes, payload_room *out);
size_t payload_section_size(payload_op op, uint32_t count, size_t value_bytes); /* with head and padding */
/* Same as payload_add, in aligned memory of that size. */
void payload_lay_out(void *memory, payload_head head, size_t value_bytes, payload_room *out);
/* Adds a RATE. */
MR_MUST mr_status payload_add_rate(payload_writer *writer, uint32_t table, float rate);
MR_MUST mr_status payload_reserve(payload_writer *writer, size_t more); /* reserves so many bytes for sections */

/* Removes the last `unused` bytes of the values of the last section. */
void payload_trim(payload_writer *writer, size_t unused);
/* Compresses the last section if that makes it smaller. */
MR_MUST mr_status payload_press(payload_writer *writer, compressor *compressor);
/* Removes everything behind the first `size` bytes, at the begin of a section. */
void payload_cut(payload_writer *writer, size_t size);

span payload_written(const payload_writer *writer); /* the last section must be complete */
/* Moves the payload (shared_bytes_bytes of the result) to the caller. The writer is then empty. */
shared_bytes *payload_take(payload_writer *writer);
/* Same, but a small payload is shared with the writer until payload_empty. */
shared_bytes *payload_lend(payload_writer *writer);
void payload_fini(payload_writer *writer);
/* Empties the writer; its memory is reused if it is small (PAYLOAD_KEPT) and not shared. */
void payload_empty(payload_writer *writer);
