/* epoch_result.h — averages of the epoch results of several workers.
 *
 * Results are maps. A field that is a number for the first worker that has it is averaged over all workers that have a
 * number there, in their order, so that the same results give the same bits; a map is averaged field by field; anything
 * else (texts, bools, lists, tensors) is that of the first worker that has it. A tensor with one item is a number. nil
 * is a map without fields.
 *
 * Pure: the result is built in a report, and what it takes over from the values is borrowed from them. */
#pragma once
#include "runtime/common/report.h"

/* MR_INVALID: one of them is not a map, and which. */
MR_MUST mr_status epoch_result_average(report *report, const mr_value *results, size_t count, mr_arg *out);

bool epoch_result_number(const mr_value *value, double *out); /* false: it is none */
