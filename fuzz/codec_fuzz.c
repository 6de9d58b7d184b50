/* codec_fuzz.c — messages of gradient codecs and compressed messages: the decoders check every length before they use
 * it. The first two bytes are the number of expected values; the first one also selects the compressor. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/codec/codec.h"
#include "kv/codec/compress.h"

static void decode(span message, size_t count) {
    float *values = xcalloc(count + 1, sizeof *values);
    float *exact = values + 1; /* the allocation ends with the last value, so the sanitizer detects a write beyond it */
    if (codec_decode(message, exact, count) == MR_OK) {
        const codec none = {.id = CODEC_NONE};
        size_t size, bound = codec_bound(&none, count);
        uint8_t *again = xmalloc(bound);
        float *back = xcalloc(count + 1, sizeof *back);
        MR_ASSERT(codec_encode(&none, 0, exact, count, again, bound, &size) == MR_OK && size == bound);
        MR_ASSERT(codec_decode(span_of(again, size), back, count) == MR_OK);
        MR_ASSERT(memcmp(back, exact, count * sizeof *back) == 0);
        free(again);
        free(back);
    }
    free(values);
}

static void unfold(span message, compressor_id id) {
    compressor *compressor;
    size_t size;
    if (compressor_open(id, &compressor) != MR_OK) return;
    if (compressor_size(message, 1 << 16, &size) == MR_OK) {
        uint8_t *out = xmalloc(size + 1);
        if (compressor_unpack(compressor, message, out, size) == MR_OK) {
            uint8_t *again = xmalloc(compressor_bound(size));
            MR_ASSERT(compressor_pack(compressor, span_of(out, size), again) <= compressor_bound(size));
            free(again);
        }
        free(out);
    }
    compressor_close(compressor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    span message = span_of(data + 2, size - 2);
    decode(message, data[0] | (size_t)(data[1] & 0xf) << 8);
    unfold(message, (compressor_id)(data[0] % COMPRESSOR_IDS));
    return 0;
}
