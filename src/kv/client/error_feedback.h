/* error_feedback.h — error feedback of one table: the loss of the codec in one worker's pushes, added to the next
 * pushes (residual.h).
 *
 *   arrays   of a dense table: a rest for each item, in memory that an array has from its first push on
 *   keys     of other tables: the rests of a key's values. They are bounded: beyond `bytes_max` those of the keys that
 *            were pushed to longest ago are forgotten, and counted
 *
 * What has changed since the last time (error_feedback_settle) is known, and can be written as bytes and read again,
 * alone or as a part of everything: that is how it is kept (feedback_file.h). Both give the same rests, in the same
 * order of ages.
 *
 *   bytes    what is written: pieces, one after the other
 *   -------  --------------------------------------------------------------------------------------------
 *   4 4      table, kind: 1 rests of keys, 2 keys that were forgotten, 3 a stretch of an array
 *   8        count: of keys; of items
 *   …        1: for each, the one that was pushed to longest ago first: 8 key, 8 length, its rests and zeros up to 8
 *            2: the keys. 3: 8 array, 8 items of it, 8 first item, the rests and zeros up to 8
 *
 * Ownership   it owns its memory. Errors: where there is no memory for a rest it is forgotten. Threads: none. */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"

#define ERROR_FEEDBACK_BYTES_MAX (UINT64_C(256) << 20) /* of the rests of keys of one table */
#define ERROR_FEEDBACK_ITEMS_MAX (UINT64_C(1) << 36)   /* of an array */
enum { ERROR_FEEDBACK_ARRAYS_MAX = 1024 };

typedef struct error_feedback error_feedback;

typedef struct error_feedback_look {
    uint64_t keys, bytes; /* that have rests; of memory */
    uint64_t forgotten;   /* keys, for want of room */
} error_feedback_look;

error_feedback *error_feedback_create(uint32_t table, uint64_t bytes_max);
void error_feedback_destroy(error_feedback *feedback);

uint32_t error_feedback_table(const error_feedback *feedback);
error_feedback_look error_feedback_look_at(const error_feedback *feedback);

/* Values of keys lie one after the other, lengths[i] of each, or `dim` of all where lengths is NULL. */
typedef struct error_feedback_keys {
    const uint64_t *keys;
    const uint32_t *lengths;
    size_t count;
    uint32_t dim;
} error_feedback_keys;

/* 0 where there are none */
void error_feedback_read(const error_feedback *feedback, const error_feedback_keys *keys, float *rests);
void error_feedback_write(error_feedback *feedback, const error_feedback_keys *keys, const float *rests);
void error_feedback_forget(error_feedback *feedback, const uint64_t *keys, size_t count);

/* The rests of a stretch of an array of `items` items, where they lie: they are about to change. MR_NOMEM. */
MR_MUST mr_status error_feedback_stretch(error_feedback *feedback, uint32_t array, uint64_t items, uint64_t first,
                                         size_t count, float **rests);
void error_feedback_clear(error_feedback *feedback, uint32_t array, uint64_t first, size_t count); /* zeros */

/* ---- As bytes. */

size_t error_feedback_size(const error_feedback *feedback, bool all); /* of what has changed, or of all there is */
void error_feedback_save(const error_feedback *feedback, bool all, void *out);
void error_feedback_settle(error_feedback *feedback); /* from now on nothing has changed */

/* The next piece is about this table. False: it is none. */
bool error_feedback_peek(const reader *reader, uint32_t *table);
/* Takes a piece of this table; nothing has changed by that. False: it makes no sense, or there is no memory. */
bool error_feedback_load(error_feedback *feedback, reader *reader);
