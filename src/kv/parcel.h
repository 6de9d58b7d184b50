/* parcel.h — payload of pushes, queries and answers between workers and slots: sections per table.
 *
 * A parcel is a sequence of sections, each about one table. Sections begin at multiples of 8, so that keys and values
 * are used where they lie; a parcel that does not begin at one is copied first (parcel_align).
 *
 *   offset bytes  section
 *   0      4      table
 *   4 5    1 1    op, flags
 *   6 7    1 1    dtype of the values (mr_dtype; of sections without any 0), 0
 *   8      4      count
 *   12     4      bytes of the body
 *   16     …      body, then zeros up to a multiple of 8
 *
 *   op                        count               body
 *   DEFINE                    0                   a definition (definition.h)
 *   DROP                      0
 *   ADD_ROWS, SET_ROWS        keys                keys, values: as many of each key
 *   ADD_VECTORS, SET_VECTORS  keys                keys, lengths (4 bytes each, zeros up to a multiple of 8), values
 *   ADD_BLOCK, SET_BLOCK      items of a stretch  place, values
 *   ERASE                     keys                keys
 *   ROUND                     members             (of the round that all behind it is the sum of)
 *   GET_ROWS, GET_VECTORS     keys                version, keys
 *   GET_RANGE                 rows at most, or 0  version, first key, last key
 *   GET_BLOCK                 items of a stretch  version, place
 *   GET_LOOK                  0                   version
 *   ROWS                      keys                version, values
 *   RANGE                     keys                version, keys, values
 *   VECTORS                   keys                version, lengths, values
 *   BLOCK                     items of a stretch  version, values
 *   LOOK                      0                   version, parcel_look
 *   SAME                      0                   version
 *   NONE                      a parcel_reason     version
 *
 * Keys are 8 bytes, ascending, all different. A place is 16: array, number of the block, items of that block, first
 * item of the stretch. A version is 8 bytes and counts the changes of the table in this slot, from 1; in a query it is
 * the one that the asker has (0: none), and where it is still the newest the answer is SAME. It means nothing across
 * generations of a deployment.
 *
 * Values are in the table's dtype or, also where that is fp16 or bf16, in fp32. With PARCEL_CODED they are a codec's
 * message (codec.h) of all values of the section. With PARCEL_PRESSED the body is a press's message (press.h) with the
 * body in it. With PARCEL_AFAR, of blocks only, the values lie in the memory of a process of the same machine
 * (net/shm/glass.h), and a parcel_afar says where; in GET_BLOCK it says that the asker could look for them there.
 *
 * With PARCEL_RUN, of rows that are pushed or asked for, the keys are one after the other, at most PARCEL_RUN_MAX, and
 * only the first of them is there (opener.h makes the others).
 *
 * With PARCEL_LISTED, of GET_ROWS and GET_VECTORS, the receiver may remember the keys by their name (lists.h); with
 * PARCEL_KNOWN only the name is there, 16 bytes, and the answer is NONE, FORGOTTEN, if the keys are not remembered.
 *
 * A query, and a push that also pulls, has one answer section for each section that asks, in their order: for GET_…,
 * and for ADD_… and SET_…, of which the values of their keys are shown; but not with PARCEL_MUTE. NONE says why there
 * are no values.
 *
 * Every length is checked before it is believed. Ownership: a reader borrows its bytes, a section what lies in them; a
 * writer owns what it writes until it is taken. Threads: none. */
#pragma once
#include "base/bale.h"
#include "base/bytes.h"
#include "kv/codec/press.h"
#include "miniray/value.h"

enum {
    PARCEL_ALIGN = 8,
    PARCEL_HEAD = 16,
    PARCEL_PLACE = 16,
    PARCEL_BYTES_MAX = 1 << 30, /* of one parcel, and of what is pressed in one of its sections */
    PARCEL_RUN_MAX = 1 << 20,   /* keys */
    PARCEL_SMALL = 512,         /* bytes that are copied to the stack */
    PARCEL_KEPT = 8192,         /* bytes of a writer that is used again */
    PARCEL_LENT = 512,          /* bytes of a parcel that is lent: whoever sends so little copies it */
    PARCEL_ROWS_MAX = 64,       /* rows of a section that is written row by row */
};

typedef enum parcel_op {
    PARCEL_DEFINE = 1,
    PARCEL_DROP,
    PARCEL_ADD_ROWS,
    PARCEL_SET_ROWS,
    PARCEL_ADD_VECTORS,
    PARCEL_SET_VECTORS,
    PARCEL_ADD_BLOCK,
    PARCEL_SET_BLOCK,
    PARCEL_ERASE,
    PARCEL_ROUND,
    PARCEL_GET_ROWS,
    PARCEL_GET_VECTORS,
    PARCEL_GET_RANGE,
    PARCEL_GET_BLOCK,
    PARCEL_GET_LOOK,
    PARCEL_ROWS,
    PARCEL_RANGE,
    PARCEL_VECTORS,
    PARCEL_BLOCK,
    PARCEL_LOOK,
    PARCEL_SAME,
    PARCEL_NONE,
    PARCEL_OPS
} parcel_op;

enum {
    PARCEL_CODED = 1,
    PARCEL_PRESSED = 2,
    PARCEL_MUTE = 4,
    PARCEL_RUN = 8,
    PARCEL_LISTED = 16,
    PARCEL_KNOWN = 32,
    PARCEL_AFAR = 64,
    PARCEL_FLAGS = 127
};

typedef enum parcel_reason { /* why there are no values */
                             PARCEL_UNKNOWN =
                                 1, /* the slot does not know the table, and no definition came with the query */
                             PARCEL_DROPPED,
                             PARCEL_MISFIT,    /* the section asks for what the table is not */
                             PARCEL_TOO_LARGE, /* beyond PARCEL_BYTES_MAX, or the server's memory */
                             PARCEL_FORGOTTEN, /* which keys have this name */
} parcel_reason;

typedef struct parcel_place {
    uint32_t array, block, items, first;
} parcel_place;

_Static_assert(sizeof(parcel_place) == PARCEL_PLACE, "a place has no gaps");

typedef struct parcel_afar {
    uint64_t process, offset; /* whose memory, and where in it */
    uint64_t word, value;     /* of an answer: which word tells that it has changed, and what it was (glass.h) */
} parcel_afar;

_Static_assert(sizeof(parcel_afar) == 32, "it has no gaps");

typedef struct parcel_look {   /* a table's part in this slot */
    uint64_t keys, candidates; /* rows, vectors or blocks; keys that are only counted (admission) */
    uint64_t bytes;            /* of memory */
    uint64_t refused;          /* sections that did not fit it */
    uint64_t left_out;         /* rows, vectors and stretches that were not finite */
    uint64_t evicted;
} parcel_look;

/* ---- Reading. */

typedef struct parcel_section {
    uint32_t table;
    parcel_op op;
    uint8_t flags;
    mr_dtype dtype;
    uint32_t count;
    span body;               /* as it lies there */
    uint64_t version;        /* of queries and answers */
    const uint64_t *keys;    /* `count` of them; NULL: it has none, or they are folded */
    const uint32_t *lengths; /* the same */
    parcel_place place;
    uint64_t first, last; /* of a range, or of a run; the two halves of the name of its keys */
    span values;          /* all else: values, or what stands for them; a definition, a look */
    parcel_afar afar;     /* of one whose values lie elsewhere */
} parcel_section;

typedef struct parcel_reader {
    reader in;
    bool failed;
} parcel_reader;

parcel_reader parcel_open(span bytes); /* aligned to PARCEL_ALIGN */

/* The next section. Of one that is pressed only the body is known: parcel_unfold. False: there is none, or it does not
 * make sense; then the reader is `failed`. */
bool parcel_next(parcel_reader *reader, parcel_section *out);

/* The section as it is with the body that was pressed in it, which is aligned. False: it does not make sense. */
bool parcel_unfold(const parcel_section *pressed, span body, parcel_section *out);

bool parcel_ascends(const parcel_section *section); /* its keys do */

/* The whole: sections that make sense, keys that ascend. MR_CORRUPT, and says which section does not. */
MR_MUST mr_status parcel_check(span bytes);
/* The same, and how many there are, and the last of them: small parcels have but that one, and need not be read again.
 */
MR_MUST mr_status parcel_check_last(span bytes, size_t *count, parcel_section *last);

/* Where a parcel is laid that is not aligned: on the stack, if it is small. */
typedef struct parcel_tray {
    void *copy; /* owned; NULL: it is small, or aligned */
    uint64_t small[PARCEL_SMALL / 8];
} parcel_tray;

/* Bytes that are aligned: these or, where they are not, a copy of them, on the tray, which is to be cleared. MR_NOMEM:
 * it need not be. */
MR_MUST mr_status parcel_align(span bytes, parcel_tray *tray, span *out);
void parcel_clear(parcel_tray *tray);

static inline bool parcel_is_push(parcel_op op) { return op >= PARCEL_ADD_ROWS && op <= PARCEL_SET_BLOCK; }
static inline bool parcel_is_set(parcel_op op) {
    return op == PARCEL_SET_ROWS || op == PARCEL_SET_VECTORS || op == PARCEL_SET_BLOCK;
}
static inline bool parcel_is_query(parcel_op op) { return op >= PARCEL_GET_ROWS && op <= PARCEL_GET_LOOK; }
static inline bool parcel_asks(const parcel_section *section) { /* it has an answer */
    return (parcel_is_push(section->op) || parcel_is_query(section->op)) && (section->flags & PARCEL_MUTE) == 0;
}

/* ---- Writing.
 *
 *     parcel_writer writer = {0};
 *     parcel_room room;
 *     parcel_head head = {.table = 3, .op = PARCEL_ADD_ROWS, .dtype = MR_F32, .count = n};
 *     MR_TRY(parcel_add(&writer, head, n * dim * sizeof(float), &room));
 *     …                                               // room.keys, room.values: written where they travel from
 *     bale *bale = parcel_take(&writer);
 *
 * All may fail with MR_NOMEM or MR_TOO_LARGE, and leave what there was. */

typedef struct parcel_writer { /* zeroed: empty */
    bale *bale;                /* owned; NULL: nothing was written */
    size_t size, room;
    size_t last;    /* where the last section begins */
    uint32_t rows;  /* of that one, while it is written row by row; else 0 */
    uint32_t row;   /* bytes of the values of each */
    uint64_t *keys; /* of those, owned; NULL: it was never written so */
} parcel_writer;

typedef struct parcel_head {
    uint32_t table;
    parcel_op op;
    uint8_t flags; /* not PARCEL_PRESSED: parcel_press */
    mr_dtype dtype;
    uint32_t count;
} parcel_head;

typedef struct parcel_room { /* in place; NULL where a section of this kind has nothing of it */
    uint64_t *version;       /* zeros at first, as are range and place */
    uint64_t *range;         /* first and last */
    parcel_place *place;
    uint64_t *keys;    /* head.count of them; of a run one, of a name two */
    uint32_t *lengths; /* the same */
    void *values;
} parcel_room;

/* A section with `value_bytes` bytes of values, or of what stands for them: with a codec the bound of its message
 * (parcel_trim). The room is good until the next section. */
MR_MUST mr_status parcel_add(parcel_writer *writer, parcel_head head, size_t value_bytes, parcel_room *out);
/* A section that is written row by row, of ADD_ROWS or SET_ROWS: one with the first row (head.count is 1), and then
 * one row more at a time, with as many bytes of values, to be written to *values. Its keys are put in front of all
 * values when it is whole: with the next section, or by parcel_seal. At most PARCEL_ROWS_MAX. */
MR_MUST mr_status parcel_add_rows(parcel_writer *writer, parcel_head head, size_t row, uint64_t key, void **values);
MR_MUST mr_status parcel_add_row(parcel_writer *writer, uint64_t key, void **values);
void parcel_seal(parcel_writer *writer); /* no-op if the last section is whole */
MR_MUST mr_status parcel_copy(parcel_writer *writer, const parcel_section *section); /* as it lies there */
/* The last section of a parcel, without its values, a multiple of PARCEL_ALIGN bytes: they follow from elsewhere. */
MR_MUST mr_status parcel_add_front(parcel_writer *writer, parcel_head head, size_t value_bytes, parcel_room *out);
size_t parcel_section_size(parcel_op op, uint32_t count, size_t value_bytes); /* head and padding included */
/* The same in memory of that size, which is aligned. */
void parcel_lay_out(void *memory, parcel_head head, size_t value_bytes, parcel_room *out);
MR_MUST mr_status parcel_reserve(parcel_writer *writer, size_t more); /* room for so many bytes of sections */

/* Of the last section the last `unused` bytes of its values go. */
void parcel_trim(parcel_writer *writer, size_t unused);
/* Compresses the last section, if it becomes smaller. */
MR_MUST mr_status parcel_press(parcel_writer *writer, press *press);
/* What was written behind the first `size` bytes, where a section begins, goes. */
void parcel_cut(parcel_writer *writer, size_t size);

span parcel_written(const parcel_writer *writer); /* whose last section is whole */
bale *parcel_take(parcel_writer *writer); /* moved; its bytes (bale_bytes) are the parcel. The writer is empty then */
/* The same, but that a small one stays the writer's, too: it is shared until parcel_empty. */
bale *parcel_lend(parcel_writer *writer);
void parcel_fini(parcel_writer *writer);
/* Empty as well; its memory is kept for what is written next, if it is little (PARCEL_KEPT) and nobody else holds it.
 */
void parcel_empty(parcel_writer *writer);
