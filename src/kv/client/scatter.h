/* scatter.h — distribution of a pull's answers from the values of one slot to the caller's memory.
 *
 * The keys of a request lie in many slots, and answers come in any order. Each part has the places of its keys in the
 * request.
 *
 *   ROWS      values of one size for each key, to to + place · bytes
 *   VECTORS   values of any size, to to + offsets[place], where there is room up to offsets[place + 1]; the rest is 0
 *   GATHER    vectors of unknown lengths, to a gather of all slots (vector_gather.h)
 *   BLOCK     a stretch of `bytes` bytes, to `to`: from the answer, or from the server's memory (remote_values.h)
 *   RANGE     rows of a slot, to a gather of all slots (gather.h), as the piece of that number
 *   NOWHERE   the caller has abandoned the request, and may have freed the destination
 *
 * The values of an answer have the dtype `wire`, those in the caller's memory `dtype`: the copy converts them. Values
 * that are read from the server's memory are fp32 (or int64) and rounded to `precision` first, so that the caller gets
 * the same values either way.
 *
 * The answer of a slot that has not changed since the version of the query leaves the caller's memory unchanged.
 *
 * Ownership   `to` is the caller's, borrowed until its ticket is over; places and offsets are the ticket's. Pure. */
#pragma once
#include "kv/client/gather.h"
#include "kv/client/ticket.h"
#include "kv/client/vector_gather.h"
#include "kv/payload/key_list_cache.h"
#include "kv/payload/remote_values.h"

typedef enum scatter_kind {
    SCATTER_ROWS,
    SCATTER_VECTORS,
    SCATTER_GATHER,
    SCATTER_BLOCK,
    SCATTER_RANGE,
    SCATTER_NOWHERE
} scatter_kind;

typedef struct scatter {
    ticket *ticket; /* owner of this part */
    scatter_kind kind;
    uint32_t count;          /* keys; of a range, as many rows as were asked for */
    const uint32_t *places;  /* `count` of them */
    const uint64_t *offsets; /* of vectors: offset of each place, in bytes */
    uint8_t *to;
    size_t bytes;         /* in the caller's memory: of a row, or of a stretch */
    mr_dtype wire, dtype; /* of the answer's values, of the caller's */
    mr_dtype precision;   /* of a block */
    gather *gather;       /* of a range; owned by the ticket */
    uint32_t piece;
    vector_gather *vectors;    /* of vectors of unknown lengths; owned by the ticket */
    key_list_cache_item *list; /* held: the key list, if the slot may have cached it; NULL: it has not */
    uint64_t *version;         /* destination of the version shown, the caller's; NULL: none */
    uint64_t *changed;         /* likewise: counter of the parts that were written */
    /* of a block, as is `place`: to ask again if the block changed while it was read; of a gather: to ask again in
     * smaller parts; of a range: to ask for the rows that follow */
    uint32_t table;
    payload_place place;
    const remote_values_map_view *map_view; /* NULL: the values come with the answer */
    bool streams;                           /* the pull is larger than the caches */
    uint8_t tries;                          /* failed attempts */
} scatter;

/* MR_OK: written. MR_NOT_FOUND: the table was dropped. MR_CORRUPT: not an answer to the query. MR_TOO_LARGE. MR_BUSY:
 * the block changed while it was read, or is not readable, or the vectors are too large for one answer, or the range
 * has rows beyond this answer: ask again. */
mr_status scatter_take(const scatter *scatter, const payload_section *answer);

/* The answers so far, of an attempt of a reader's pull (reader_pull.h), are void; others follow. */
void scatter_renew(const scatter *scatter);
void scatter_abandon(scatter *scatter); /* the caller's memory is not written any more */
