/* half_kernels.h — vector kernels for rows of 16-bit floats (half.h): widening, narrowing, and averaging in registers.
 *
 * A bf16 is the upper half of an fp32. Of two neighbours in a 32-bit word, one is widened by a shift, the other by a
 * mask, so that loops over words compile to vector code on every machine. fp16 has conversion instructions on arm64 and
 * on every amd64 with AVX2; without them, the functions of half.h are used. Both ways give the same bits. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "miniray/value.h"

/* dtype: MR_F16 or MR_BF16. `from` and `to` do not overlap. */
void half_widen(mr_dtype dtype, const uint16_t *from, float *to, size_t count);
void half_narrow(mr_dtype dtype, const float *from, uint16_t *to, size_t count);

/* The same bits as widening the rows, fold_f32 with REDUCTION_AVERAGE, and narrowing the result. */
void half_average(mr_dtype dtype, const uint16_t *const *rows, size_t workers, uint16_t *out, size_t count);
