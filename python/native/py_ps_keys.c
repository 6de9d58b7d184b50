/* py_ps_keys.c — see py_ps_keys.h. */
#include "python/native/py_ps_keys.h"

#include <stdlib.h>
#include <string.h>

/* ---- Sorting. */

static bool ascends(const uint64_t *keys, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (keys[i - 1] >= keys[i]) return false;
    return true;
}

enum { DIGITS = 8, DIGIT_VALUES = 256 };

static unsigned digit_of(uint64_t key, unsigned digit) { return (unsigned)(key >> (8 * digit)) & 0xff; }

/* Sorts the places by one digit of their keys, stably: a pass of a radix sort. False: all keys have the same digit. */
static bool sort_by_digit(const uint64_t *keys, const uint32_t *from, uint32_t *to, size_t count, unsigned digit) {
    size_t begin[DIGIT_VALUES + 1] = {0};
    for (size_t i = 0; i < count; i++) begin[digit_of(keys[i], digit) + 1]++;
    if (begin[digit_of(keys[0], digit) + 1] == count) return false;
    for (size_t i = 0; i < DIGIT_VALUES; i++) begin[i + 1] += begin[i];
    for (size_t i = 0; i < count; i++) to[begin[digit_of(keys[from[i]], digit)]++] = from[i];
    return true;
}

static void sort(py_ps_keys *self, const uint64_t *given, uint32_t *spare) {
    for (size_t i = 0; i < self->given; i++) self->order[i] = (uint32_t)i;
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        if (!sort_by_digit(given, self->order, spare, self->given, digit)) continue;
        uint32_t *sorted = spare;
        spare = self->order;
        self->order = sorted;
    }
    self->place = spare; /* memory for the numbers that are written next */
}

static void number(py_ps_keys *self, const uint64_t *given) {
    self->count = 0;
    for (size_t i = 0; i < self->given; i++) {
        uint64_t key = given[self->order[i]];
        if (self->count == 0 || self->keys[self->count - 1] != key) self->keys[self->count++] = key;
        self->place[self->order[i]] = (uint32_t)(self->count - 1);
    }
}

bool py_ps_keys_init(py_ps_keys *self, const uint64_t *given, size_t count) {
    *self = (py_ps_keys){.given = count, .count = count};
    if (ascends(given, count)) return true;
    self->keys = malloc(count * sizeof *self->keys);
    self->order = malloc(count * sizeof *self->order);
    uint32_t *spare = malloc(count * sizeof *spare);
    if (self->keys == NULL || self->order == NULL || spare == NULL) {
        free(spare);
        py_ps_keys_fini(self);
        return false;
    }
    sort(self, given, spare);
    number(self, given);
    return true;
}

void py_ps_keys_fini(py_ps_keys *self) {
    free(self->keys);
    free(self->order);
    free(self->place);
    *self = (py_ps_keys){0};
}

/* ---- 16-bit floats. */

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float from_bf16(uint16_t half) { return float_of_bits((uint32_t)half << 16); }

static uint16_t to_bf16(float value) {
    uint32_t bits = bits_of_float(value);
    if (value != value) return (uint16_t)(bits >> 16 | 0x40); /* a NaN stays NaN */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* An f16 is a float whose exponent is 112 larger; the product adjusts it, also for subnormal numbers. */
static float from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = (uint32_t)(half & 0x7fff) << 13;
    if (rest >= 0x0f800000) return float_of_bits(sign | rest | 0x70000000 | 0x7f800000);
    return float_of_bits(sign | bits_of_float(float_of_bits(rest) * 0x1p112f));
}

static uint16_t to_f16(float value) {
    uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* rounds to infinity */
    if (rest < 0x38800000) {                                  /* subnormal */
        float shifted = float_of_bits(rest) + 0x1p-1f;        /* last bit: 2⁻²⁴, as of a subnormal f16 */
        return (uint16_t)(sign | (bits_of_float(shifted) - 0x3f000000));
    }
    return (uint16_t)(sign | ((rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13));
}

/* ---- Rows. */

#define ADD(type, plus)                                                  \
    do {                                                                 \
        const type *item = from;                                         \
        type *sum = to;                                                  \
        for (size_t k = 0; k < dim; k++) sum[k] = plus(sum[k], item[k]); \
    } while (0)

static float plus_f32(float a, float b) { return a + b; }
static uint64_t plus_i64(uint64_t a, uint64_t b) { return a + b; }
static uint16_t plus_f16(uint16_t a, uint16_t b) { return to_f16(from_f16(a) + from_f16(b)); }
static uint16_t plus_bf16(uint16_t a, uint16_t b) { return to_bf16(from_bf16(a) + from_bf16(b)); }

static void add(mr_dtype dtype, size_t dim, const void *from, void *to) {
    switch (dtype) {
    case MR_F32: ADD(float, plus_f32); break;
    case MR_F16: ADD(uint16_t, plus_f16); break;
    case MR_BF16: ADD(uint16_t, plus_bf16); break;
    default: ADD(uint64_t, plus_i64); break;
    }
}

void py_ps_keys_gather(const py_ps_keys *self, mr_dtype dtype, size_t dim, bool last, const void *from, void *to) {
    size_t row = dim * mr_dtype_size(dtype);
    uint32_t before = UINT32_MAX;
    for (size_t i = 0; i < self->given; i++) {
        uint32_t place = self->place[self->order[i]];
        const char *item = (const char *)from + (size_t)self->order[i] * row;
        char *sum = (char *)to + (size_t)place * row;
        if (place == before && !last)
            add(dtype, dim, item, sum);
        else
            memcpy(sum, item, row);
        before = place;
    }
}

void py_ps_keys_scatter(const py_ps_keys *self, size_t row_bytes, const void *from, void *to) {
    for (size_t i = 0; i < self->given; i++)
        memcpy((char *)to + i * row_bytes, (const char *)from + (size_t)self->place[i] * row_bytes, row_bytes);
}

/* ---- Vectors. */

void py_ps_keys_gather_vectors(const py_ps_keys *self, const uint64_t *offsets, const void *from, void *to) {
    char *at = to;
    for (size_t i = 0; i < self->given; i++) {
        const uint64_t *offset = &offsets[self->order[i]];
        memcpy(at, (const char *)from + offset[0], offset[1] - offset[0]);
        at += offset[1] - offset[0];
    }
}

void py_ps_keys_scatter_vectors(const py_ps_keys *self, const uint64_t *offsets, const void *from, void *to) {
    const char *at = from;
    for (size_t i = 0; i < self->given; i++) {
        const uint64_t *offset = &offsets[self->order[i]];
        memcpy((char *)to + offset[0], at, offset[1] - offset[0]);
        at += offset[1] - offset[0];
    }
}
