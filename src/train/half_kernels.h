/* half_kernels.h — rows of sixteen-bit floats (half.h): widened, narrowed, and averaged without leaving the registers.
 *
 * bf16 is the upper half of an fp32, so two neighbours are a 32-bit word: one of them is the word shifted, the other
 * one the word masked. A loop over words needs nothing else, and becomes vector code on every machine. fp16 has an
 * instruction on arm64 and on every amd64 with AVX2; where it is missing the functions of half.h do. Both ways give the
 * same bits. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "miniray/value.h"

/* dtype: MR_F16 or MR_BF16. Nothing overlaps. */
void half_widen(mr_dtype dtype, const uint16_t *from, float *to, size_t count);
void half_narrow(mr_dtype dtype, const float *from, uint16_t *to, size_t count);

/* The result of fold_f32 (REDUCTION_AVERAGE) of the widened rows, narrowed. */
void half_average(mr_dtype dtype, const uint16_t *const *rows, size_t workers, uint16_t *out, size_t count);
