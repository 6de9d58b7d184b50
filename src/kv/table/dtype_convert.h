/* dtype_convert.h — conversion between stored values (fp32 or int64) and the table's dtype. */
#pragma once
#include <string.h>

#include "base/half.h"
#include "miniray/value.h"

static inline void dtype_convert_values(mr_dtype dtype, const void *values, size_t count, void *out) {
    const float *from = (const float *)values;
    uint16_t *to = (uint16_t *)out;
    if (dtype == MR_F16)
        for (size_t i = 0; i < count; i++) to[i] = half_to_fp16(from[i]);
    else if (dtype == MR_BF16)
        for (size_t i = 0; i < count; i++) to[i] = half_to_bf16(from[i]);
    else
        memcpy(out, values, count * (dtype == MR_I64 ? sizeof(int64_t) : sizeof(float)));
}
