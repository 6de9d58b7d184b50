/* round_sum.h — sum of a BSP round: the payloads of all ranks added up in rank order.
 *
 *   ROUND     the number of contributions, empty ones included
 *   DEFINE    of each table with a definition in the round, the first one
 *   then of each table, by id:
 *   ERASE     the keys that any rank erased
 *   SET_…     assigned values: of each key, and of each stretch of a block, those of the last rank
 *   ADD_…     the sums: of each key, ascending; of each block one stretch, from the first to the last item that any
 *             rank pushed, with 0 for items that no rank pushed. With a RATE before each section if a rank gave a
 *             learning rate: that of the lowest rank that did, and was not left out
 *   DROP      if any rank dropped the table
 *
 * So a round erases, assigns, and then makes one update with the sum of all contributions. Contributions are added one
 * after the other, ((a + b) + c) + …, in fp32 or int64, with the same bits as a plain loop over the ranks. (The first
 * contribution is copied, not added to 0, so that -0 stays -0.) Contributions of another dim or dtype than the first
 * one of their table are left out; so are a section that is compressed otherwise than its table (engine_packs_as), and
 * a whole malformed payload.
 *
 * Keyed values of more than ROUND_SUM_SECTION bytes are several sections, so that a sum may have any size: it can be
 * larger than its contributions, of which each has other keys or is encoded.
 *
 * Cost: the keys of a contribution are merged into those of the sum in O(both). Only changed values are touched; keyed
 * values are not moved, except a vector that becomes longer (round_sum_keys.h).
 *
 * These are the operations sum_* of state_machine.h. Memory as in section_decoder.h. */
#pragma once
#include "base/bytes.h"

enum { ROUND_SUM_SECTION = 256 << 20 }; /* bytes of values that a section with several keys has at most */

void *round_sum_begin(const void *engine);
void round_sum_add(void *sum, span payload);
size_t round_sum_size(const void *sum); /* 0: no contribution */
void round_sum_write(const void *sum, void *out);
void round_sum_end(void *sum);
