/* residual.h — error feedback: the loss of a codec is added to the next values sent.
 *
 * x = values + rest is encoded; rest becomes x minus what the other side will decode. What no half can hold (fp16: more
 * than 65,504) goes as the largest that it can, and the rest follows with the next. Where values are not finite the
 * rest is 0; where only their sum with the rest is not, the rest is forgotten.
 *
 * So that a restarted rank can send the same again, the rests are its state and are kept with it (feedback_file.h);
 * nothing else is. Pure. */
#pragma once
#include "kv/codec/codec.h"

/* As codec_encode. `rest` is changed in place; `scratch` has room for `count` values. What fails leaves `rest` as it
 * was. */
MR_MUST mr_status residual_encode(const codec *codec, uint64_t step, const float *values, float *rest, float *scratch,
                                  size_t count, void *out, size_t room, size_t *size);
