/* gather.h — range pull: the answers of several slots, merged in key order.
 *
 * Each slot of an ordered table holds one range of keys, so the order of the slots is the order of the keys. Answers
 * arrive in any order; each is kept until all have arrived, and then written to the caller's memory.
 *
 * Ownership   a gather owns its pieces; keys, values and count are the caller's, borrowed until gather_destroy.
 *             Pure. */
#pragma once
#include "kv/payload/payload.h"

typedef struct gather gather;

/* Creates a gather for `pieces` answers with rows of `row` bytes. MR_NOMEM. */
MR_MUST mr_status gather_create(uint32_t pieces, size_t row, uint64_t *keys, void *values, size_t room, size_t *count,
                                gather **out);
void gather_destroy(void *gather);

/* The last piece writes all rows, and *count. MR_TOO_LARGE: more rows than `room`; *count is the number of known keys.
 * MR_CORRUPT: malformed answer; MR_NOMEM. */
mr_status gather_take(gather *gather, uint32_t piece, const payload_section *answer);
