/* residual.h — error feedback: the loss of a codec is added to the next values sent.
 *
 * x = values + rest is encoded; rest becomes x minus the values that the receiver will decode. A value above the fp16
 * range (65,504) is sent as the largest fp16 number, and the remainder follows with the next push. If a value is not
 * finite its rest becomes 0; if only the sum with the rest is not finite, the rest is dropped.
 *
 * The residuals are the only state of a rank that is saved (feedback_file.h), so that a restarted rank sends the same
 * bytes. Pure. */
#pragma once
#include "kv/codec/codec.h"

/* As codec_encode, and changes `rest` in place; `scratch` has room for `count` values. A failed call leaves `rest`
 * unchanged. */
MR_MUST mr_status residual_encode(const codec *codec, uint64_t step, const float *values, float *rest, float *scratch,
                                  size_t count, void *out, size_t room, size_t *size);
