/* residual.c — see residual.h. */
#include "kv/codec/residual.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

mr_status residual_init(residual *residual, size_t count) {
    void *memory;
    MR_ASSERT(count <= CODEC_COUNT_MAX);
    MR_TRY(alloc_try(2 * count * sizeof(float), &memory));
    *residual = (struct residual){memory, (float *)memory + count, count};
    return MR_OK;
}

void residual_fini(residual *residual) {
    free(residual->rest);
    *residual = (struct residual){0};
}

mr_status residual_encode(residual *residual, const codec *codec, uint64_t step, const float *values, void *out,
                          size_t room, size_t *size) {
    float *rest = residual->rest, *wanted = residual->scratch;
    size_t count = residual->count;
    for (size_t i = 0; i < count; i++) wanted[i] = values[i] + rest[i];
    MR_TRY(codec_encode(codec, step, wanted, count, out, room, size));
    mr_status status = codec_decode(span_of(out, *size), rest, count);
    MR_ASSERT(status == MR_OK); /* it was written here */
    for (size_t i = 0; i < count; i++) {
        float lost = wanted[i] - rest[i];
        rest[i] = isfinite(lost) ? lost : 0; /* what no half can hold is not fed back */
    }
    return MR_OK;
}
