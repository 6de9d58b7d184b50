/* feedback_file_fuzz.c — the feedback file of a rank as arbitrary bytes: a refused file leaves no feedback. The
 * checksum of a record would stop most inputs, so residuals are also read without it; residuals that are read are
 * written and read again with the same bytes. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/client/feedback_file.h"

static void pieces(span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    error_feedback *feedback = error_feedback_create(1, ERROR_FEEDBACK_BYTES_MAX);
    uint32_t table;
    while (reader_left(&reader) > 0 && error_feedback_peek(&reader, &table) && error_feedback_load(feedback, &reader))
        continue;
    size_t size = error_feedback_size(feedback, true);
    uint8_t *written = xmalloc(size + 1), *again = xmalloc(size + 1);
    error_feedback_save(feedback, true, written);
    struct error_feedback *copy = error_feedback_create(1, ERROR_FEEDBACK_BYTES_MAX);
    reader = reader_of(written, size);
    while (reader_left(&reader) > 0) MR_ASSERT(error_feedback_load(copy, &reader));
    MR_ASSERT(error_feedback_size(copy, true) == size);
    error_feedback_save(copy, true, again);
    MR_ASSERT(memcmp(written, again, size) == 0);
    error_feedback_destroy(feedback);
    error_feedback_destroy(copy);
    free(written);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pieces(span_of(data, size));
    feedback_file *file = feedback_file_create(0);
    if (!feedback_file_read(file, span_of(data, size), 2, 77, 1)) MR_ASSERT(feedback_file_look_at(file).bytes == 0);
    feedback_file_destroy(file);
    return 0;
}
