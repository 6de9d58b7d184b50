/* gather.h — range pull: the answers of several slots, merged in key order.
 *
 * The slots of an ordered table have runs of keys, so pieces in the order of the slots are in the order of the keys.
 * Pieces come in any order; each is kept until all are there, and then written to the caller's memory.
 *
 * Ownership   it owns its pieces; keys, values and count are the caller's, borrowed until it is destroyed. Pure. */
#pragma once
#include "kv/payload/payload.h"

typedef struct gather gather;

/* For `pieces` answers with rows of `row` bytes. MR_NOMEM. */
MR_MUST mr_status gather_create(uint32_t pieces, size_t row, uint64_t *keys, void *values, size_t room, size_t *count,
                                gather **out);
void gather_destroy(void *gather);

/* The last piece writes all of them, and *count. MR_TOO_LARGE: there are more than there is room for; *count is the
 * number of known keys. MR_CORRUPT: not a range; MR_NOMEM. */
mr_status gather_take(gather *gather, uint32_t piece, const payload_section *answer);
