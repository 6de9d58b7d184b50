/* half_kernels.c — see half_kernels.h. */
#include "train/half_kernels.h"

#include <stdbool.h>
#include <string.h>

#include "base/half.h"
#include "base/simd.h"

/* Division by the number of workers. For a power of two, a multiplication gives the same bits and is faster. */
typedef struct mean {
    size_t workers;
    bool multiplies;
    float whole, part;
} mean;

static mean mean_of(size_t workers) {
    return (mean){workers, (workers & (workers - 1)) == 0, (float)workers, 1 / (float)workers};
}

static inline float mean_end(const mean *mean, float sum) {
    return mean->multiplies ? sum * mean->part : sum / mean->whole;
}

/* ---- bf16: two neighbours are a word of 32 bits; their sums are kept in separate arrays until the end. */

enum { TILE = 512 }; /* pairs; the sums fit into the first-level cache */

static inline uint32_t pair_at(const uint16_t *row, size_t i) {
    uint32_t pair;
    memcpy(&pair, row + 2 * i, sizeof pair);
    return pair;
}

static inline float low_of(uint32_t pair) { return half_value(pair << 16); }
static inline float high_of(uint32_t pair) { return half_value(pair & 0xffff0000); }

/* half_to_bf16 with the result in the upper half of the word. */
static inline uint32_t rounded(float wide) {
    uint32_t bits = half_bits(wide);
    return wide != wide ? bits | 0x400000 : bits + 0x7fff + ((bits >> 16) & 1);
}

SIMD_CLONES static void sum_four(const uint16_t *const *rows, size_t from, float *restrict low, float *restrict high,
                                 size_t pairs) {
    const uint16_t *a = rows[0] + from, *b = rows[1] + from, *c = rows[2] + from, *d = rows[3] + from;
    for (size_t i = 0; i < pairs; i++) {
        uint32_t of_a = pair_at(a, i), of_b = pair_at(b, i), of_c = pair_at(c, i), of_d = pair_at(d, i);
        low[i] = ((low_of(of_a) + low_of(of_b)) + low_of(of_c)) + low_of(of_d);
        high[i] = ((high_of(of_a) + high_of(of_b)) + high_of(of_c)) + high_of(of_d);
    }
}

SIMD_CLONES static void sum_one(const uint16_t *row, float *restrict low, float *restrict high, size_t pairs) {
    for (size_t i = 0; i < pairs; i++) {
        low[i] = low_of(pair_at(row, i));
        high[i] = high_of(pair_at(row, i));
    }
}

SIMD_CLONES static void add_one(const uint16_t *row, float *restrict low, float *restrict high, size_t pairs) {
    for (size_t i = 0; i < pairs; i++) {
        low[i] += low_of(pair_at(row, i));
        high[i] += high_of(pair_at(row, i));
    }
}

SIMD_CLONES static void end_pairs(const mean *mean, const float *restrict low, const float *restrict high,
                                  uint16_t *restrict out, size_t pairs) {
    bool multiplies = mean->multiplies;
    float part = mean->part, whole = mean->whole;
    for (size_t i = 0; i < pairs; i++) {
        float one = multiplies ? low[i] * part : low[i] / whole, other = multiplies ? high[i] * part : high[i] / whole;
        uint32_t pair = (rounded(one) >> 16) | (rounded(other) & 0xffff0000);
        memcpy(out + 2 * i, &pair, sizeof pair);
    }
}

static void average_bf16(const uint16_t *const *rows, const mean *mean, uint16_t *out, size_t count) {
    float low[TILE], high[TILE], sum;
    for (size_t from = 0, pairs; from + 1 < count; from += 2 * pairs) {
        pairs = (count - from) / 2 < TILE ? (count - from) / 2 : TILE;
        size_t w = mean->workers >= 4 ? 4 : 1;
        if (w == 4)
            sum_four(rows, from, low, high, pairs);
        else
            sum_one(rows[0] + from, low, high, pairs);
        for (; w < mean->workers; w++) add_one(rows[w] + from, low, high, pairs);
        end_pairs(mean, low, high, out + from, pairs);
    }
    if (count % 2 == 0) return;
    sum = half_from_bf16(rows[0][count - 1]);
    for (size_t w = 1; w < mean->workers; w++) sum += half_from_bf16(rows[w][count - 1]);
    out[count - 1] = half_to_bf16(mean_end(mean, sum));
}

/* ---- fp16 with instructions of the machine. Each function returns the number of items that it has processed. */

#if defined(__x86_64__)

#include <immintrin.h>

#define WITH_FP16 __attribute__((target("avx2,f16c")))

typedef __m256 lanes;

#if __has_include(<sys/platform/x86.h>) && !defined(LIBC_WEAK)
#include <sys/platform/x86.h>
static bool has_fp16(void) { return CPU_FEATURE_ACTIVE(AVX2) && CPU_FEATURE_ACTIVE(F16C); }
#else /* glibc before 2.33; not every compiler can ask for F16C, which all processors with AVX2 have */
static bool has_fp16(void) { return __builtin_cpu_supports("avx2"); }
#endif

WITH_FP16 static inline lanes load_fp16(const uint16_t *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}
WITH_FP16 static inline void store_fp16(uint16_t *to, lanes wide) {
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#elif defined(__aarch64__)

#include <arm_neon.h>

#define WITH_FP16

typedef float32x4_t lanes;

static bool has_fp16(void) { return true; }

static inline lanes load_fp16(const uint16_t *from) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))); }
static inline void store_fp16(uint16_t *to, lanes wide) { vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32(wide))); }

#else

#define WITH_FP16

typedef float lanes;

static bool has_fp16(void) { return false; }

static inline lanes load_fp16(const uint16_t *from) { return half_from_fp16(*from); }
static inline void store_fp16(uint16_t *to, lanes wide) { *to = half_to_fp16(wide); }

#endif

enum { LANES = sizeof(lanes) / sizeof(float) };

WITH_FP16 static size_t widen_fp16(const uint16_t *from, float *to, size_t count) {
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        lanes wide = load_fp16(from + i);
        memcpy(to + i, &wide, sizeof wide);
    }
    return i;
}

WITH_FP16 static size_t narrow_fp16(const float *from, uint16_t *to, size_t count) {
    size_t i = 0;
    for (lanes wide; i + LANES <= count; i += LANES) {
        memcpy(&wide, from + i, sizeof wide);
        store_fp16(to + i, wide);
    }
    return i;
}

WITH_FP16 static size_t average_fp16(const uint16_t *const *rows, const mean *mean, uint16_t *out, size_t count) {
    size_t i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES) {
        lanes a = load_fp16(rows[0] + i), b = load_fp16(rows[0] + i + LANES);
        for (size_t w = 1; w < mean->workers; w++) {
            a = a + load_fp16(rows[w] + i);
            b = b + load_fp16(rows[w] + i + LANES);
        }
        store_fp16(out + i, mean->multiplies ? a * mean->part : a / mean->whole);
        store_fp16(out + i + LANES, mean->multiplies ? b * mean->part : b / mean->whole);
    }
    return i;
}

SIMD_CLONES static void average_fp16_rest(const uint16_t *const *rows, const mean *mean, uint16_t *out, size_t from,
                                          size_t count) {
    for (size_t i = from; i < count; i++) {
        float sum = half_from_fp16(rows[0][i]);
        for (size_t w = 1; w < mean->workers; w++) sum += half_from_fp16(rows[w][i]);
        out[i] = half_to_fp16(mean_end(mean, sum));
    }
}

/* ---- Portable code. */

SIMD_CLONES static void widen_rest(mr_dtype dtype, const uint16_t *from, float *to, size_t count) {
    if (dtype == MR_F16) {
        for (size_t i = 0; i < count; i++) to[i] = half_from_fp16(from[i]);
    } else {
        for (size_t i = 0; i < count; i++) to[i] = half_from_bf16(from[i]);
    }
}

SIMD_CLONES static void narrow_rest(mr_dtype dtype, const float *from, uint16_t *to, size_t count) {
    if (dtype == MR_F16) {
        for (size_t i = 0; i < count; i++) to[i] = half_to_fp16(from[i]);
    } else {
        for (size_t i = 0; i < count; i++) to[i] = half_to_bf16(from[i]);
    }
}

void half_widen(mr_dtype dtype, const uint16_t *from, float *to, size_t count) {
    size_t done = dtype == MR_F16 && has_fp16() ? widen_fp16(from, to, count) : 0;
    widen_rest(dtype, from + done, to + done, count - done);
}

void half_narrow(mr_dtype dtype, const float *from, uint16_t *to, size_t count) {
    size_t done = dtype == MR_F16 && has_fp16() ? narrow_fp16(from, to, count) : 0;
    narrow_rest(dtype, from + done, to + done, count - done);
}

void half_average(mr_dtype dtype, const uint16_t *const *rows, size_t workers, uint16_t *out, size_t count) {
    mean mean = mean_of(workers);
    if (dtype == MR_F16)
        average_fp16_rest(rows, &mean, out, has_fp16() ? average_fp16(rows, &mean, out, count) : 0, count);
    else
        average_bf16(rows, &mean, out, count);
}
