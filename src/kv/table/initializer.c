/* initializer.c — see initializer.h. */
#include "kv/table/initializer.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/portable_math.h"
#include "net/dtype_convert.h"
#include "ps/stable_hash.h"

enum { ATTEMPTS = 256 }; /* attempts of a normal value; all of them fail with a probability of 2^-568 */

static mr_status check_floats(const initializer *init) {
    if (!isfinite(init->a) || !isfinite(init->b))
        return error_set(MR_INVALID, "initializer %d needs finite numbers", (int)init->kind);
    switch (init->kind) {
    case INITIALIZER_ZEROS:
    case INITIALIZER_CONSTANT: return MR_OK;
    case INITIALIZER_UNIFORM:
        if (init->a <= init->b && isfinite(init->b - init->a)) return MR_OK;
        return error_set(MR_INVALID, "uniform from %g to %g: not a range", (double)init->a, (double)init->b);
    case INITIALIZER_NORMAL:
        if (init->b >= 0) return MR_OK;
        return error_set(MR_INVALID, "normal with a deviation of %g: the minimum is 0", (double)init->b);
    }
    return error_set(MR_INVALID, "unknown initializer %d", (int)init->kind);
}

mr_status initializer_check(const initializer *init, mr_dtype dtype) {
    MR_TRY(check_floats(init));
    if (dtype != MR_I64) return MR_OK;
    if (init->kind != INITIALIZER_ZEROS && init->kind != INITIALIZER_CONSTANT)
        return error_set(MR_INVALID, "initializer %d: int64 tables begin with zeros or a constant", (int)init->kind);
    if (init->kind == INITIALIZER_CONSTANT && (truncf(init->a) != init->a || fabsf(init->a) > 0x1p62f))
        return error_set(MR_INVALID, "int64 tables begin with a whole number below 2^62, not with %g", (double)init->a);
    return MR_OK;
}

static float normal(uint64_t row, size_t i) {
    double u = 0, square = 0;
    for (uint64_t attempt = 0; attempt < ATTEMPTS && !(square > 0 && square < 1); attempt++) {
        uint64_t word = stable_hash(row + ATTEMPTS * (uint64_t)i + attempt);
        u = (double)(int32_t)(word >> 32) * 0x1p-31;
        double v = (double)(int32_t)(uint32_t)word * 0x1p-31;
        square = u * u + v * v;
    }
    return square > 0 && square < 1 ? (float)(u * sqrt(-2 * math_log(square) / square)) : 0;
}

static void fill_floats(const initializer *init, uint64_t key, size_t first, size_t count, float *out) {
    uint64_t row = stable_hash2(stable_hash2(init->seed, init->table), key);
    float a = init->a, b = init->b, width = b - a;
    switch (init->kind) {
    case INITIALIZER_ZEROS: memset(out, 0, count * sizeof *out); break;
    case INITIALIZER_CONSTANT:
        for (size_t i = 0; i < count; i++) out[i] = a;
        break;
    case INITIALIZER_UNIFORM:
        for (size_t i = 0; i < count; i++)
            out[i] = a + width * ((float)(stable_hash(row + (first + i)) >> 40) * 0x1p-24f);
        break;
    case INITIALIZER_NORMAL:
        for (size_t i = 0; i < count; i++) out[i] = a + b * normal(row, first + i);
        break;
    }
}

void initializer_fill(const initializer *init, mr_dtype dtype, uint64_t key, size_t first, size_t count, void *out) {
    if (dtype != MR_I64) {
        fill_floats(init, key, first, count, out);
        return;
    }
    int64_t value = init->kind == INITIALIZER_CONSTANT ? (int64_t)init->a : 0, *counters = out;
    for (size_t i = 0; i < count; i++) counters[i] = value;
}

void initializer_read(const initializer *init, mr_dtype dtype, uint64_t key, size_t first, size_t count, void *out) {
    enum { STEP = 64 };
    float values[STEP];
    if (dtype == MR_I64 || dtype == MR_F32) {
        initializer_fill(init, dtype, key, first, count, out);
        return;
    }
    for (size_t at = 0; at < count; at += STEP) {
        size_t size = count - at < STEP ? count - at : STEP;
        fill_floats(init, key, first + at, size, values);
        dtype_convert(MR_F32, values, dtype, size, (uint16_t *)out + at);
    }
}
