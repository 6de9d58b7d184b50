/* half.h — conversion of 16-bit floats (fp16 and bf16) to and from float.
 *
 * fp16   1 sign, 5 exponent, 10 mantissa bits: up to 65,504, subnormals down to 2^-24
 * bf16   the upper half of an fp32
 *
 * Widening is exact. Narrowing rounds to nearest, ties to even, as the hardware does; a number that is too large
 * becomes an infinity, and a NaN stays a NaN with its upper bits. The functions have no branches, so that compilers
 * vectorize a plain loop over them, with the same bits on every machine. */
#pragma once
#include <stdint.h>
#include <string.h>

static inline uint32_t half_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float half_value(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float half_from_bf16(uint16_t half) { return half_value((uint32_t)half << 16); }

static inline uint16_t half_to_bf16(float value) {
    uint32_t bits = half_bits(value);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static inline float half_from_fp16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = (uint32_t)(half & 0x7fff) << 13;
    uint32_t exponent = rest & 0x0f800000;
    uint32_t normal = rest + (112u << 23);                                /* the exponents' biases differ */
    uint32_t small = half_bits(half_value(rest + 0x38800000) - 0x1p-14f); /* a subnormal has no leading one */
    uint32_t wide = exponent == 0 ? small : exponent == 0x0f800000 ? rest | 0x7f800000 : normal;
    return half_value(wide | sign);
}

static inline uint16_t half_to_fp16(float value) {
    uint32_t bits = half_bits(value), sign = (bits >> 16) & 0x8000;
    bits &= 0x7fffffff;
    uint32_t normal = (bits - (112u << 23) + 0xfff + ((bits >> 13) & 1)) >> 13;
    uint32_t small = half_bits(half_value(bits) + 0.5f) - 0x3f000000; /* the addition rounds */
    uint32_t large = bits > 0x7f800000 ? 0x7e00 | ((bits >> 13) & 0x3ff) : 0x7c00;
    uint32_t narrow = bits >= 0x47800000 ? large : bits < 0x38800000 ? small : normal;
    return (uint16_t)(narrow | sign);
}
