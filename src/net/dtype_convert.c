/* dtype_convert.c — see dtype_convert.h. */
#include "net/dtype_convert.h"

#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/half.h"
#include "base/simd.h"

enum { TILE = 512 }; /* values that are converted twice while they are in the first-level cache */

static bool is_float(mr_dtype dtype) { return dtype == MR_F32 || dtype == MR_F16 || dtype == MR_BF16; }

bool dtype_convert_fits(mr_dtype from, mr_dtype to) {
    return (is_float(from) && is_float(to)) || (from == MR_I64 && to == MR_I64);
}

SIMD_CLONES static void dtype_convert_widen(mr_dtype dtype, const uint16_t *restrict from, size_t count,
                                            float *restrict to) {
    if (dtype == MR_F16)
        for (size_t i = 0; i < count; i++) to[i] = half_from_fp16(from[i]);
    else
        for (size_t i = 0; i < count; i++) to[i] = half_from_bf16(from[i]);
}

SIMD_CLONES static void dtype_convert_narrow(mr_dtype dtype, const float *restrict from, size_t count,
                                             uint16_t *restrict to) {
    if (dtype == MR_F16)
        for (size_t i = 0; i < count; i++) to[i] = half_to_fp16(from[i]);
    else
        for (size_t i = 0; i < count; i++) to[i] = half_to_bf16(from[i]);
}

void dtype_convert(mr_dtype from_dtype, const void *from, mr_dtype to_dtype, size_t count, void *to) {
    MR_ASSERT(dtype_convert_fits(from_dtype, to_dtype));
    if (count == 0) return;
    if (from_dtype == to_dtype)
        memcpy(to, from, count * mr_dtype_size(from_dtype));
    else if (to_dtype == MR_F32)
        dtype_convert_widen(from_dtype, from, count, to);
    else if (from_dtype == MR_F32)
        dtype_convert_narrow(to_dtype, from, count, to);
    else
        dtype_convert_rounded(from_dtype, from, 0, to_dtype, count, to);
}

/* One tile, through fp32. */
static void convert_tile(mr_dtype from_dtype, const void *from, mr_dtype precision, mr_dtype to_dtype, size_t count,
                         void *to) {
    float wide[TILE];
    uint16_t narrow[TILE];
    dtype_convert(from_dtype, from, MR_F32, count, wide);
    if (precision != 0 && precision != MR_F32) {
        dtype_convert_narrow(precision, wide, count, narrow);
        dtype_convert_widen(precision, narrow, count, wide);
    }
    dtype_convert(MR_F32, wide, to_dtype, count, to);
}

void dtype_convert_rounded(mr_dtype from_dtype, const void *from, mr_dtype precision, mr_dtype to_dtype, size_t count,
                           void *to) {
    size_t item = mr_dtype_size(from_dtype), to_item = mr_dtype_size(to_dtype);
    MR_ASSERT(dtype_convert_fits(from_dtype, to_dtype) && from_dtype != MR_I64);
    for (size_t at = 0; at < count; at += TILE) {
        size_t size = count - at < TILE ? count - at : TILE;
        convert_tile(from_dtype, (const uint8_t *)from + at * item, precision, to_dtype, size,
                     (uint8_t *)to + at * to_item);
    }
}

/* ---- Values that are not finite. */

/* The smallest magnitude, as the bits of an fp32, that the dtype cannot represent as a finite number. */
static uint32_t limit_of(mr_dtype dtype) {
    return dtype == MR_F16 ? 0x477ff000 : dtype == MR_BF16 ? 0x7f7f8000 : 0x7f800000;
}

SIMD_CLONES static uint32_t dtype_convert_count(const float *values, size_t count, uint32_t limit) {
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) found += (half_bits(values[i]) & 0x7fffffff) >= limit;
    return found;
}

static size_t first_of(const float *values, size_t count, uint32_t limit) {
    for (size_t at = 0; at < count; at += TILE) {
        size_t size = count - at < TILE ? count - at : TILE;
        if (dtype_convert_count(values + at, size, limit) == 0) continue;
        while ((half_bits(values[at]) & 0x7fffffff) < limit) at++;
        return at;
    }
    return count;
}

size_t dtype_convert_first_infinite(mr_dtype dtype, const void *values, mr_dtype to_dtype, size_t count) {
    size_t item = mr_dtype_size(dtype);
    float wide[TILE];
    if (dtype == MR_I64) return count;
    if (dtype == MR_F32) return first_of(values, count, limit_of(to_dtype));
    for (size_t at = 0; at < count; at += TILE) {
        size_t size = count - at < TILE ? count - at : TILE;
        dtype_convert(dtype, (const uint8_t *)values + at * item, MR_F32, size, wide);
        size_t first = first_of(wide, size, limit_of(to_dtype));
        if (first < size) return at + first;
    }
    return count;
}
