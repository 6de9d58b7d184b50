/* residual.c — see residual.h. */
#include "kv/codec/residual.h"

#include "base/assert.h"
#include "base/half.h"
#include "base/simd.h"

static bool is_finite(float value) { return (half_bits(value) & 0x7f800000) != 0x7f800000; }

/* Adds values to the residuals where the sum is finite; else the value replaces the residual. */
SIMD_CLONES static void residual_add(const float *restrict values, float *restrict rest, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float sum = values[i] + rest[i];
        rest[i] = is_finite(sum) ? sum : values[i];
    }
}

/* The part of the wanted values that fp16 can represent. */
SIMD_CLONES static void residual_bound(const float *restrict wanted, float *restrict out, size_t count) {
    const float most = 65504;
    for (size_t i = 0; i < count; i++) {
        float bounded = wanted[i] > most ? most : wanted[i] < -most ? -most : wanted[i];
        out[i] = is_finite(wanted[i]) ? bounded : wanted[i];
    }
}

SIMD_CLONES static void residual_subtract(float *restrict wanted, const float *restrict sent, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float lost = wanted[i] - sent[i];
        wanted[i] = is_finite(lost) ? lost : 0;
    }
}

mr_status residual_encode(const codec *codec, uint64_t step, const float *values, float *rest, float *scratch,
                          size_t count, void *out, size_t room, size_t *size) {
    MR_TRY(codec_check(codec, values, count));
    residual_add(values, rest, count);
    if (codec->id == CODEC_FP16) residual_bound(rest, scratch, count);
    mr_status status = codec_encode(codec, step, codec->id == CODEC_FP16 ? scratch : rest, count, out, room, size);
    if (status == MR_OK) status = codec_decode(span_of(out, *size), scratch, count);
    MR_ASSERT(status == MR_OK); /* a message that was just encoded */
    residual_subtract(rest, scratch, count);
    return MR_OK;
}
