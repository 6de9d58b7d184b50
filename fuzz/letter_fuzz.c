/* letter_fuzz.c — bytes that another process of the cluster may send. What is read is written back as the same bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cluster/letter.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    letter letter;
    mr_status status = letter_decode(span_of(data, size), &letter);
    if (status != MR_OK) {
        MR_ASSERT(status == MR_CORRUPT && mr_last_error()[0] != '\0');
        return 0;
    }
    MR_ASSERT(letter.key.size <= LETTER_KEY_MAX && letter.value.size <= LETTER_VALUE_MAX);
    MR_ASSERT(letter_size(&letter) == size);
    uint8_t *again = xmalloc(size);
    writer writer = writer_of(again, size);
    letter_encode(&letter, &writer);
    MR_ASSERT(!writer.failed && memcmp(again, data, size) == 0);
    free(again);
    return 0;
}
