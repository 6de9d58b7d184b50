/* epoch_result.h — averages of the epoch results of several workers.
 *
 * Results are maps. If a field is a number in the first worker that has it, the average is over all workers in which it
 * is a number, added in the order of the workers, so that the same results give the same bits. Maps are averaged field
 * by field. Any other value (text, bool, list, tensor) is that of the first worker that has the field. A tensor with
 * one item is a number. nil is a map without fields.
 *
 * Pure: the result is built in a report and borrows other parts from the values. */
#pragma once
#include "runtime/common/report.h"

/* MR_INVALID: a result is not a map; the error names the worker. */
MR_MUST mr_status epoch_result_average(report *report, const mr_value *results, size_t count, mr_arg *out);

bool epoch_result_number(const mr_value *value, double *out); /* false: not a number */
