/* codec.h — gradient codecs: fp16, bf16, int8, sign, top-k and random-k.
 *
 *   id  name   bytes of n values        decoded values
 *   --  -----  -----------------------  ---------------------------------------------------------------------------
 *   0   none   4·n                      the values
 *   1   fp16   2·n                      the nearest half
 *   2   bf16   2·n                      the nearest bfloat16
 *   3   int8   n + 4 for each 256       scale · q, scale = max|x| / 127, q = x / scale rounded to the nearest, even
 *   4   sign   n/8 + 4 for each 1024    ±scale, scale = the mean of |x|
 *   5   topk   8·k                      the k largest by |x| (of equal ones the first), 0 elsewhere
 *   6   randk  8 + 4·k                  one of each of k equal stretches, random by (seed, step), 0 elsewhere
 *
 * All codecs except none are lossy: the loss is added to the next values (residual.h). The output of an encoder is a
 * function of the values, the settings and the step, equal on every machine: scales are sums and divisions in fp64 in
 * the order of the values, rounded once. k is part·n, at least 1.
 *
 *   bytes    message
 *   -------  -------------------------------------------------------------------------------------
 *   1 3      id, zeros
 *   4        n
 *   …        fp16, bf16: n halves. int8, sign: blocks, each its scale, then its numbers or bits (1: below 0),
 *            the lowest bit first, zeros at the end. topk: 4 k, k ascending places of 4, k values.
 *            randk: 4 k, 8 seed, k values
 *
 * Ids are never reused. A table has a codec, which must be available to the table's creator (table_schema.h). A message
 * carries the id of its codec, so messages of another codec or of none can be decoded, too. */
#pragma once

#include "base/bytes.h"
#include "miniray/status.h"

enum {
    CODEC_HEAD = 8,
    CODEC_INT8_BLOCK = 256,
    CODEC_SIGN_BLOCK = 1024,
    CODEC_COUNT_MAX = 1 << 30, /* values of one message */
};

#define CODEC_LIST(X)  \
    X(NONE, 0, "none") \
    X(FP16, 1, "fp16") X(BF16, 2, "bf16") X(INT8, 3, "int8") X(SIGN, 4, "sign") X(TOPK, 5, "topk") X(RANDK, 6, "randk")

typedef enum codec_id {
#define X(name, number, text) CODEC_##name = (number),
    CODEC_LIST(X)
#undef X
        CODEC_IDS
} codec_id;

typedef struct codec {
    codec_id id;
    double part;   /* topk, randk: fraction of the values, above 0 and at most 1 */
    uint64_t seed; /* randk */
} codec;

const char *codec_name(codec_id id); /* static */

/* Parses "fp16" or "topk:0.01". MR_NOT_FOUND: the error lists the codecs; MR_INVALID: not a fraction. */
MR_MUST mr_status codec_parse(const char *text, codec *out);

size_t codec_bound(const codec *codec, size_t count); /* upper bound of a message of so many values */

/* Checks the values. MR_INVALID: a value is not finite, and the codec needs a scale or an order (int8, sign, topk). */
MR_MUST mr_status codec_check(const codec *codec, const float *values, size_t count);

/* Writes a message of count ≤ CODEC_COUNT_MAX values into `room` ≥ codec_bound bytes, and sets its size. MR_INVALID: as
 * codec_check. */
MR_MUST mr_status codec_encode(const codec *codec, uint64_t step, const float *values, size_t count, void *out,
                               size_t room, size_t *size);

/* Decodes a message of exactly `count` values, of any codec. MR_CORRUPT: `out` is undefined. */
MR_MUST mr_status codec_decode(span message, float *out, size_t count);
