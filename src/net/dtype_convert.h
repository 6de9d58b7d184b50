/* dtype_convert.h — conversion of values between fp32, fp16 and bf16.
 *
 * Tables store floats as fp32. Requests have their own dtype, and the wire a third one; a value is converted once, in
 * one of these places (docs/decisions/040-precision.md). Narrowing rounds to nearest, ties to even; a value that is too
 * large becomes an infinity (half.h). Every function gives the same bits on every machine. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "miniray/value.h"

/* Whether values of one dtype can be converted to the other: both are floats of tables, or both are int64. */
bool dtype_convert_fits(mr_dtype from, mr_dtype to);

/* The dtype in which a table of this dtype stores its values. */
static inline mr_dtype dtype_convert_stored(mr_dtype dtype) { return dtype == MR_I64 ? MR_I64 : MR_F32; }

/* Converts `count` values; `from` and `to` do not overlap. Equal dtypes are copied. */
void dtype_convert(mr_dtype from_dtype, const void *from, mr_dtype to_dtype, size_t count, void *to);

/* Same for floats, rounded to `precision` on the way; 0: not rounded. */
void dtype_convert_rounded(mr_dtype from_dtype, const void *from, mr_dtype precision, mr_dtype to_dtype, size_t count,
                           void *to);

/* Index of the first value that is not finite, or is not after a conversion to `to_dtype`; `count`: there is none. */
size_t dtype_convert_first_infinite(mr_dtype dtype, const void *values, mr_dtype to_dtype, size_t count);
