/* round_sum.h — sum of a BSP round: the payloads of all ranks added up in rank order.
 *
 *   ROUND     how many contributions there were, those with nothing in them included
 *   DEFINE    of each table that somebody defined, the first definition
 *   then of each table, by id:
 *   ERASE     the keys that anybody erased
 *   SET_…     what was set: of each key, and of each stretch of a block, by the last rank that did
 *   ADD_…     the sums: of each key, ascending; of each block one stretch, from the first to the last item that anybody
 *             pushed, in which what nobody pushed is 0
 *   DROP      if anybody did
 *
 * So a round is: erased, set, and then one update with the sum of all. Sums are made one contribution after the other,
 * ((a + b) + c) + …, in fp32 or int64: their bits are those of a plain loop over the ranks. (The first is copied: the
 * sum begins with nothing, not with 0, so that -0 stays what it is.) Contributions of another dim or dtype than the
 * first one of their table are left out; so is a whole payload that makes no sense.
 *
 * What a sum costs: keys of a new contribution are merged into those that are there, O(both); values are touched where
 * they change, and never moved.
 *
 * These are the operations sum_* of state_machine.h. Memory as in section_decoder.h. */
#pragma once
#include "base/bytes.h"

void *round_sum_begin(void *context, uint32_t slot);
void round_sum_add(void *sum, span payload);
size_t round_sum_size(const void *sum); /* 0: nobody pushed anything */
void round_sum_write(const void *sum, void *out);
void round_sum_end(void *sum);
