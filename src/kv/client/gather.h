/* gather.h — range pull: the answers of several slots, merged in key order.
 *
 * Each slot of an ordered table holds one range of keys, so the order of the slots is the order of the keys. Answers
 * arrive in any order; each is kept until all have arrived, and then written to the caller's memory. A slot with more
 * rows than one answer may have is asked again for those that follow.
 *
 * Ownership   a gather owns its pieces; keys, values and count are the caller's, borrowed until gather_destroy.
 *             Pure. */
#pragma once
#include "kv/payload/payload.h"

typedef struct gather gather;

typedef struct gather_rows { /* values of a row, and their dtypes in the answers and in the caller's memory */
    uint32_t dim;
    mr_dtype wire, dtype;
} gather_rows;

/* Creates a gather for `pieces` slots, and keys up to `last`. MR_NOMEM. */
MR_MUST mr_status gather_create(uint32_t pieces, gather_rows rows, uint64_t last, uint64_t *keys, void *values,
                                size_t room, size_t *count, gather **out);
void gather_destroy(void *gather);
void gather_renew(gather *gather); /* drops all answers */

/* Takes an answer to a question for `most` rows. The last answer writes all rows, and *count. MR_BUSY: the slot may
 * have more rows: ask for those that follow (gather_rest). MR_TOO_LARGE: more rows than `room`; *count is the number of
 * known keys. MR_CORRUPT: malformed answer; MR_NOMEM. */
mr_status gather_take(gather *gather, uint32_t piece, uint32_t most, const payload_section *answer);
/* The range of keys that is still unknown of a piece for which gather_take returned MR_BUSY. Returns how many of its
 * rows are wanted at most: one more than there is room for, to detect a longer range. */
size_t gather_rest(const gather *gather, uint32_t piece, uint64_t *first, uint64_t *last);
