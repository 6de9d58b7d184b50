/* memoir_fuzz.c — the file of a rank from anywhere: what is read is of that rank and step, and is written again with
 * the same bytes. Behind a record's head its checksum would stop all else, so pieces are read without one, too. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/worker/memoir.h"

static void pieces(span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    feedback *feedback = feedback_create(1, FEEDBACK_BYTES_MAX);
    uint32_t table;
    while (reader_left(&reader) > 0 && feedback_peek(&reader, &table) && feedback_load(feedback, &reader)) continue;
    size_t size = feedback_size(feedback, true);
    uint8_t *written = xmalloc(size + 1), *again = xmalloc(size + 1);
    feedback_save(feedback, true, written);
    struct feedback *copy = feedback_create(1, FEEDBACK_BYTES_MAX);
    reader = reader_of(written, size);
    while (reader_left(&reader) > 0) MR_ASSERT(feedback_load(copy, &reader));
    MR_ASSERT(feedback_size(copy, true) == size);
    feedback_save(copy, true, again);
    MR_ASSERT(memcmp(written, again, size) == 0);
    feedback_destroy(feedback);
    feedback_destroy(copy);
    free(written);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pieces(span_of(data, size));
    memoir *memoir = memoir_create(0);
    if (!memoir_read(memoir, span_of(data, size), 2, 77, 1)) MR_ASSERT(memoir_look_at(memoir).bytes == 0);
    memoir_destroy(memoir);
    return 0;
}
