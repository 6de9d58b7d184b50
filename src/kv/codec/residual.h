/* residual.h — what a codec loses is not lost: it is added to what is sent next (error feedback).
 *
 * A worker has one for each array, or each row, that it sends through a lossy codec. x = values + rest is encoded; rest
 * becomes x minus what the other side will decode (0 where that is not finite). So that a restarted rank can send the
 * same again, `rest` is its state and is kept with it; nothing else is in here. */
#pragma once
#include "kv/codec/codec.h"

typedef struct residual { /* zero-initialized it is empty: residual_init */
    float *rest;          /* owned */
    float *scratch;       /* in the same memory */
    size_t count;
} residual;

MR_MUST mr_status residual_init(residual *residual, size_t count); /* zeros; MR_NOMEM */
void residual_fini(residual *residual);

/* As codec_encode, of residual->count values. What fails leaves `rest` as it was. */
MR_MUST mr_status residual_encode(residual *residual, const codec *codec, uint64_t step, const float *values, void *out,
                                  size_t room, size_t *size);
