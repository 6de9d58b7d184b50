/* frame_fuzz.c — bytes of a stream, for frame_decode.
 *
 * Random bytes fail the checksum, so each input is tried as it is, and again with the correct checksum. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "net/frame.h"

static const frame_limits limits = {.head_max = 4096, .body_max = 1 << 20, .plain = true};

/* A prefix decodes, has the same error as the whole input, or needs more bytes. */
static void try_prefixes(const uint8_t *data, size_t size, mr_status whole) {
    static const size_t steps[] = {0, 1, 4, 5, 8, FRAME_HEADER_SIZE - 1, FRAME_HEADER_SIZE, FRAME_HEADER_SIZE + 1};
    for (size_t i = 0; i < sizeof steps / sizeof *steps && steps[i] < size; i++) {
        frame frame;
        size_t need = 0;
        mr_status status = frame_decode(span_of(data, steps[i]), &limits, &frame, &need);
        if (status != MR_OK)
            MR_ASSERT(status == whole);
        else
            MR_ASSERT(need == 0 || need > steps[i]);
    }
}

static mr_status try(const uint8_t *data, size_t size) {
    frame frame;
    size_t need = SIZE_MAX;
    mr_status status = frame_decode(span_of(data, size), &limits, &frame, &need);
    if (status != MR_OK) {
        MR_ASSERT(status == MR_CORRUPT || status == MR_TOO_LARGE);
        MR_ASSERT(mr_last_error()[0] != '\0');
        return status;
    }
    if (need != 0) {
        MR_ASSERT(need > size && need <= FRAME_HEADER_SIZE + limits.head_max);
        return status;
    }
    MR_ASSERT(frame.head.data == data + FRAME_HEADER_SIZE && frame.head.size <= size - FRAME_HEADER_SIZE);
    MR_ASSERT(frame.head.size <= limits.head_max && frame.body_size <= limits.body_max);
    uint8_t again[FRAME_HEADER_SIZE];
    frame_encode_header(again, &frame);
    MR_ASSERT(memcmp(again, data, sizeof again) == 0);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_prefixes(data, size, try(data, size));
    frame_header header;
    if (size < sizeof header) return 0;
    memcpy(&header, data, sizeof header);
    if (header.head_size > size - sizeof header) return 0;
    header.checksum = frame_checksum(&header, span_of(data + sizeof header, header.head_size));
    uint8_t *repaired = malloc(size);
    MR_ASSERT(repaired != NULL);
    memcpy(repaired, data, size);
    memcpy(repaired, &header, sizeof header);
    try_prefixes(repaired, size, try(repaired, size));
    free(repaired);
    return 0;
}
