/* failure_fuzz.c — a failure from another process: it is refused, or its chain of causes can be printed and encoded
 * again. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "runtime/refs/failure.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    reader reader = reader_of(data, size);
    failure *got, *again;
    if (failure_decode(&reader, &got) != MR_OK) {
        MR_ASSERT(reader.failed && mr_last_error()[0] != '\0');
        return 0;
    }
    char text[256], text_again[256];
    failure_text(got, text, sizeof text);
    size_t encoded = failure_encoded_size(got);
    MR_ASSERT(encoded <= size);
    uint8_t *bytes = xmalloc(encoded);
    writer writer = writer_of(bytes, encoded);
    failure_encode(got, &writer);
    MR_ASSERT(!writer.failed && writer_size(&writer) == encoded);
    reader = reader_of(bytes, encoded);
    MR_ASSERT(failure_decode(&reader, &again) == MR_OK && reader_left(&reader) == 0);
    failure_text(again, text_again, sizeof text_again);
    MR_ASSERT(again->code == got->code && strcmp(text, text_again) == 0);
    failure_unref(again);
    failure_unref(got);
    free(bytes);
    return 0;
}
