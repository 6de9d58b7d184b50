/* error_feedback.h — error feedback of one table: the loss of the codec in one worker's pushes, added to the next
 * pushes (residual.h).
 *
 *   arrays   of a dense table: a residual for each item, in memory that is allocated with the array's first push
 *   keys     of other tables: the residuals of a key's values. They are bounded: beyond `bytes_max` the least
 *            recently pushed keys lose theirs, and are counted
 *
 * Changes since the last error_feedback_settle are tracked, and can be written as bytes and read again, alone or with
 * all residuals (feedback_file.h). Both give the same residuals, in the same order of ages.
 *
 *   bytes    pieces, one after the other
 *   -------  --------------------------------------------------------------------------------------------
 *   4 4      table, kind: 1 residuals of keys, 2 dropped keys, 3 a stretch of an array
 *   8        count: of keys; of items
 *   …        1: for each, the least recently pushed key first: 8 key, 8 length, its residuals and zeros up to
 *            8. 2: the keys. 3: 8 array, 8 items of it, 8 first item, the residuals and zeros up to 8
 *
 * Ownership   an error feedback owns its memory. Errors: a residual without memory is dropped. Threads: none. */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"

#define ERROR_FEEDBACK_BYTES_MAX (UINT64_C(256) << 20) /* bytes: limit of the residuals of one table's keys */
#define ERROR_FEEDBACK_ITEMS_MAX (UINT64_C(1) << 36)   /* limit of an array's items */
enum { ERROR_FEEDBACK_ARRAYS_MAX = 1000000 };

typedef struct error_feedback error_feedback;

typedef struct error_feedback_look {
    uint64_t keys, bytes; /* keys with residuals; bytes of their memory */
    uint64_t forgotten;   /* keys whose residuals were dropped at the limit */
} error_feedback_look;

error_feedback *error_feedback_create(uint32_t table, uint64_t bytes_max);
void error_feedback_destroy(error_feedback *feedback);

uint32_t error_feedback_table(const error_feedback *feedback);
error_feedback_look error_feedback_look_at(const error_feedback *feedback);

/* The values of the keys are consecutive: lengths[i] of each key, or `dim` of each if lengths is NULL. */
typedef struct error_feedback_keys {
    const uint64_t *keys;
    const uint32_t *lengths;
    size_t count;
    uint32_t dim;
} error_feedback_keys;

/* Reads the residuals of the keys; 0 where a key has none. */
void error_feedback_read(const error_feedback *feedback, const error_feedback_keys *keys, float *rests);
void error_feedback_write(error_feedback *feedback, const error_feedback_keys *keys, const float *rests);
void error_feedback_forget(error_feedback *feedback, const uint64_t *keys, size_t count);

/* Residuals of a stretch of an array of `items` items, in place and writable. MR_NOMEM. */
MR_MUST mr_status error_feedback_stretch(error_feedback *feedback, uint32_t array, uint64_t items, uint64_t first,
                                         size_t count, float **rests);
void error_feedback_clear(error_feedback *feedback, uint32_t array, uint64_t first, size_t count); /* sets them to 0 */

/* ---- Encoding. */

size_t error_feedback_size(const error_feedback *feedback, bool all); /* bytes of the changes, or of all residuals */
void error_feedback_save(const error_feedback *feedback, bool all, void *out);
void error_feedback_settle(error_feedback *feedback); /* clears the list of changes */

/* Whether the next piece is about a table, whose id it sets. False also at the end. */
bool error_feedback_peek(const reader *reader, uint32_t *table);
/* Reads one piece of this table, without recording it as a change. False: malformed, or no memory. */
bool error_feedback_load(error_feedback *feedback, reader *reader);
