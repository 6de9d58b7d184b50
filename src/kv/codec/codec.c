/* codec.c — see codec.h. */
#include "kv/codec/codec.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/half.h"
#include "kv/codec/sparsify.h"

static const char *const names[] = {
#define X(name, number, text) [number] = text,
    CODEC_LIST(X)
#undef X
};

const char *codec_name(codec_id id) { return id >= 0 && id < CODEC_IDS ? names[id] : "unknown"; }

static bool picks(codec_id id) { return id == CODEC_TOPK || id == CODEC_RANDK; }

/* Parses digits with an optional decimal point (strtod would use the locale's point). A negative result: malformed. */
static double number_of(const char *text) {
    double value = 0, unit = 1;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) value = value * 10 + (*at - '0');
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++, unit *= 10) value = value * 10 + (*at - '0');
    return at == text || *at != 0 || at - text > 15 ? -1 : value / unit;
}

mr_status codec_parse(const char *text, codec *out) {
    size_t length = strcspn(text, ":");
    for (int id = 0; id < CODEC_IDS; id++) {
        if (strlen(names[id]) != length || memcmp(names[id], text, length) != 0) continue;
        codec codec = {.id = (codec_id)id, .part = 0.01};
        if (text[length] == ':') codec.part = picks(codec.id) ? number_of(text + length + 1) : -1;
        if (!(codec.part > 0 && codec.part <= 1))
            return error_set(MR_INVALID,
                             "codec '%s': topk and randk take a fraction above 0 and at most 1, others none", text);
        *out = codec;
        return MR_OK;
    }
    return error_set(MR_NOT_FOUND, "unknown codec '%s'; expected none, fp16, bf16, int8, sign, topk or randk", text);
}

/* ---- Sizes. */

static size_t blocks(size_t count, size_t block) { return (count + block - 1) / block; }

static size_t kept(const codec *codec, size_t count) {
    size_t k = (size_t)(codec->part * (double)count);
    return count == 0 ? 0 : k < 1 ? 1 : k > count ? count : k;
}

/* Bytes of a message behind its head. */
static size_t body_size(codec_id id, size_t count, size_t k) {
    switch (id) {
    case CODEC_NONE: return count * 4;
    case CODEC_FP16:
    case CODEC_BF16: return count * 2;
    case CODEC_INT8: return count + blocks(count, CODEC_INT8_BLOCK) * 4;
    case CODEC_SIGN: return (count + 7) / 8 + blocks(count, CODEC_SIGN_BLOCK) * 4; /* a block has full bytes */
    case CODEC_TOPK: return 4 + k * 8;
    case CODEC_RANDK: return 12 + k * 4;
    case CODEC_IDS: break;
    }
    MR_UNREACHABLE();
}

size_t codec_bound(const codec *codec, size_t count) {
    return CODEC_HEAD + body_size(codec->id, count, picks(codec->id) ? kept(codec, count) : 0);
}

/* ---- Blocks with a scale. */

static uint8_t *put_float(uint8_t *at, float value) {
    memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

/* Adding and subtracting it rounds numbers below 2^22 to the nearest even integer. */
static const float NEAREST = 0x1.8p23f;

static uint8_t *encode_int8(const float *values, size_t count, uint8_t *at) {
    for (size_t from = 0; from < count; from += CODEC_INT8_BLOCK) {
        size_t size = count - from < CODEC_INT8_BLOCK ? count - from : CODEC_INT8_BLOCK;
        const float *x = values + from;
        float largest = 0;
        for (size_t i = 0; i < size; i++) largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
        float scale = (float)((double)largest / 127);
        at = put_float(at, scale);
        for (size_t i = 0; i < size; i++) {
            float q = scale > 0 ? (x[i] / scale + NEAREST) - NEAREST : 0;
            /* a very small scale is rounded coarsely, so q may exceed 127 */
            at[i] = (uint8_t)(int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
        }
        at += size;
    }
    return at;
}

static void decode_int8(reader *reader, float *out, size_t count) {
    for (size_t from = 0; from < count; from += CODEC_INT8_BLOCK) {
        size_t size = count - from < CODEC_INT8_BLOCK ? count - from : CODEC_INT8_BLOCK;
        float scale = half_value(reader_u32(reader));
        const uint8_t *q = reader_bytes(reader, size);
        if (q == NULL) return;
        for (size_t i = 0; i < size; i++) out[from + i] = scale * (float)(int8_t)q[i];
    }
}

static uint8_t *encode_sign(const float *values, size_t count, uint8_t *at) {
    for (size_t from = 0; from < count; from += CODEC_SIGN_BLOCK) {
        size_t size = count - from < CODEC_SIGN_BLOCK ? count - from : CODEC_SIGN_BLOCK;
        const float *x = values + from;
        double sum = 0;
        for (size_t i = 0; i < size; i++) sum += (double)fabsf(x[i]);
        at = put_float(at, (float)(sum / (double)size));
        memset(at, 0, (size + 7) / 8);
        for (size_t i = 0; i < size; i++) at[i / 8] |= (uint8_t)((x[i] < 0) << i % 8);
        at += (size + 7) / 8;
    }
    return at;
}

static void decode_sign(reader *reader, float *out, size_t count) {
    for (size_t from = 0; from < count; from += CODEC_SIGN_BLOCK) {
        size_t size = count - from < CODEC_SIGN_BLOCK ? count - from : CODEC_SIGN_BLOCK;
        uint32_t scale = reader_u32(reader);
        const uint8_t *bits = reader_bytes(reader, (size + 7) / 8);
        if (bits == NULL) return;
        for (size_t i = 0; i < size; i++)
            out[from + i] = half_value(scale ^ (uint32_t)(bits[i / 8] >> i % 8 & 1) << 31);
    }
}

/* ---- Sparsifying codecs. */

static uint8_t *encode_topk(const codec *codec, const float *values, size_t count, uint8_t *at) {
    uint32_t k = (uint32_t)kept(codec, count);
    memcpy(at, &k, sizeof k);
    sparsify_largest(values, count, k, at + 4);
    for (uint32_t i = 0; i < k; i++) {
        uint32_t place;
        memcpy(&place, at + 4 + (size_t)i * 4, sizeof place);
        put_float(at + 4 + ((size_t)k + i) * 4, values[place]);
    }
    return at + 4 + (size_t)k * 8;
}

static bool decode_topk(reader *reader, float *out, size_t count) {
    uint32_t k = reader_u32(reader);
    if (reader->failed || k > count || reader_left(reader) != (size_t)k * 8) return false;
    const uint8_t *places = reader_bytes(reader, (size_t)k * 4), *values = reader_bytes(reader, (size_t)k * 4);
    memset(out, 0, count * sizeof *out);
    for (uint32_t i = 0, least = 0, place; i < k; i++, least = place + 1) {
        memcpy(&place, places + (size_t)i * 4, sizeof place);
        if (place < least || place >= count) return false;
        memcpy(&out[place], values + (size_t)i * 4, sizeof *out);
    }
    return true;
}

static uint8_t *encode_randk(const codec *codec, uint64_t step, const float *values, size_t count, uint8_t *at) {
    uint32_t k = (uint32_t)kept(codec, count);
    uint64_t seed = sparsify_seed(codec->seed, step);
    memcpy(at, &k, sizeof k);
    memcpy(at + 4, &seed, sizeof seed);
    at += 12;
    for (uint32_t i = 0; i < k; i++) at = put_float(at, values[sparsify_one(seed, count, k, i)]);
    return at;
}

static bool decode_randk(reader *reader, float *out, size_t count) {
    uint32_t k = reader_u32(reader);
    uint64_t seed = reader_u64(reader);
    if (reader->failed || k > count || reader_left(reader) != (size_t)k * 4) return false;
    const uint8_t *values = reader_bytes(reader, (size_t)k * 4);
    memset(out, 0, count * sizeof *out);
    for (uint32_t i = 0; i < k; i++) memcpy(&out[sparsify_one(seed, count, k, i)], values + (size_t)i * 4, sizeof *out);
    return true;
}

/* ---- Messages. */

mr_status codec_check(const codec *codec, const float *values, size_t count) {
    if (codec->id != CODEC_INT8 && codec->id != CODEC_SIGN && codec->id != CODEC_TOPK) return MR_OK;
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return error_set(MR_INVALID, "value %zu is %g; codec '%s' can send finite values only", i,
                             (double)values[i], names[codec->id]);
    return MR_OK;
}

static uint8_t *encode_halves(codec_id id, const float *values, size_t count, uint8_t *at) {
    for (size_t i = 0; i < count; i++) {
        uint16_t half = id == CODEC_FP16 ? half_to_fp16(values[i]) : half_to_bf16(values[i]);
        memcpy(at + i * 2, &half, sizeof half);
    }
    return at + count * 2;
}

static uint8_t *encode_body(const codec *codec, uint64_t step, const float *values, size_t count, uint8_t *at) {
    switch (codec->id) {
    case CODEC_NONE: memcpy(at, values, count * sizeof *values); return at + count * sizeof *values;
    case CODEC_FP16:
    case CODEC_BF16: return encode_halves(codec->id, values, count, at);
    case CODEC_INT8: return encode_int8(values, count, at);
    case CODEC_SIGN: return encode_sign(values, count, at);
    case CODEC_TOPK: return encode_topk(codec, values, count, at);
    case CODEC_RANDK: return encode_randk(codec, step, values, count, at);
    case CODEC_IDS: break;
    }
    MR_UNREACHABLE();
}

mr_status codec_encode(const codec *codec, uint64_t step, const float *values, size_t count, void *out, size_t room,
                       size_t *size) {
    MR_ASSERT(count <= CODEC_COUNT_MAX && room >= codec_bound(codec, count));
    MR_TRY(codec_check(codec, values, count));
    uint8_t *at = out;
    uint32_t number = (uint32_t)count;
    memset(at, 0, CODEC_HEAD);
    at[0] = (uint8_t)codec->id;
    memcpy(at + 4, &number, sizeof number);
    *size = count == 0 && !picks(codec->id) ? CODEC_HEAD
                                            : (size_t)(encode_body(codec, step, values, count, at + CODEC_HEAD) - at);
    return MR_OK;
}

static void decode_halves(codec_id id, reader *reader, float *out, size_t count) {
    const uint8_t *halves = reader_bytes(reader, count * 2);
    for (size_t i = 0; halves != NULL && i < count; i++) {
        uint16_t half;
        memcpy(&half, halves + i * 2, sizeof half);
        out[i] = id == CODEC_FP16 ? half_from_fp16(half) : half_from_bf16(half);
    }
}

static bool decode_body(codec_id id, reader *reader, float *out, size_t count) {
    if (!picks(id) && reader_left(reader) != body_size(id, count, 0)) return false;
    const uint8_t *bytes;
    switch (id) {
    case CODEC_NONE:
        bytes = reader_bytes(reader, count * sizeof *out);
        if (bytes != NULL && count > 0) memcpy(out, bytes, count * sizeof *out);
        return true;
    case CODEC_FP16:
    case CODEC_BF16: decode_halves(id, reader, out, count); return true;
    case CODEC_INT8: decode_int8(reader, out, count); return true;
    case CODEC_SIGN: decode_sign(reader, out, count); return true;
    case CODEC_TOPK: return decode_topk(reader, out, count);
    case CODEC_RANDK: return decode_randk(reader, out, count);
    case CODEC_IDS: break;
    }
    return false;
}

mr_status codec_decode(span message, float *out, size_t count) {
    reader reader = reader_of(message.data, message.size);
    uint32_t head = reader_u32(&reader), number = reader_u32(&reader);
    if (reader.failed || head >= CODEC_IDS || number != count || count > CODEC_COUNT_MAX)
        return error_set(MR_CORRUPT, "malformed encoded values: %zu bytes for %zu values", message.size, count);
    if (!decode_body((codec_id)head, &reader, out, count) || reader.failed || reader_left(&reader) > 0)
        return error_set(MR_CORRUPT, "malformed message of %zu values as %s", count, codec_name((codec_id)head));
    return MR_OK;
}
