/* part_fuzz.c — batches that another process may send. What is read is written back as the same bytes. */
#include <string.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "ps/part.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    reader reader = reader_of(data, size);
    part_head head;
    uint32_t count, good = 0;
    if (size > 64 * 1024 || part_read_head(&reader, &head, &count) != MR_OK) return 0;
    part_batch batch = {0};
    part part;
    part_begin(&batch, &head);
    size_t begin = batch.bytes.size;
    for (; good < count && part_read(&reader, &part) == MR_OK; good++) part_add(&batch, &part);
    span again = part_end(&batch);
    size_t behind = strlen(head.address); /* an address with a NUL inside is cut there */
    MR_ASSERT(behind < PART_ADDRESS_MAX && again.size <= size);
    if (good > 0 && again.size == size) MR_ASSERT(memcmp(again.data + begin, data + begin, size - begin) == 0);
    part_batch_fini(&batch);
    return 0;
}
