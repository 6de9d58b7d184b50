/* lengths_fuzz.c — what slots tell of lengths: what is read ascends, and is written back as it is read. */
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/shelf/lengths.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lengths read = {0}, again = {0};
    if (lengths_read(&read, span_of(data, size))) {
        bale *bytes = lengths_write(&read);
        MR_ASSERT(lengths_read(&again, bale_bytes(bytes)) && again.count == read.count);
        for (size_t i = 0; i < read.count; i++) {
            const lengths_item *item = &read.list[i];
            MR_ASSERT(memcmp(item, &again.list[i], sizeof *item) == 0);
            MR_ASSERT(lengths_find(&read, item->table, item->of) == item);
            MR_ASSERT(item->squares[0] == item->squares[0] && item->squares[1] == item->squares[1]);
        }
        span parts[] = {span_of(data, size), bale_bytes(bytes)};
        bale *both = lengths_combine(parts, 2);
        MR_ASSERT(bale_bytes(both).size == bale_bytes(bytes).size);
        bale_unref(both);
        bale_unref(bytes);
    }
    lengths_fini(&read);
    lengths_fini(&again);
    return 0;
}
