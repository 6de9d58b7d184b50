/* slot_norms_fuzz.c — the norms of a slot as arbitrary bytes: norms that decode are encoded and decode to the same
 * norms, and are found by table and item. */
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/engine/slot_norms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    slot_norms read = {0}, again = {0};
    if (slot_norms_read(&read, span_of(data, size))) {
        shared_bytes *bytes = slot_norms_write(&read);
        MR_ASSERT(slot_norms_read(&again, shared_bytes_bytes(bytes)) && again.count == read.count);
        for (size_t i = 0; i < read.count; i++) {
            const slot_norms_item *item = &read.list[i];
            MR_ASSERT(memcmp(item, &again.list[i], sizeof *item) == 0);
            MR_ASSERT(slot_norms_find(&read, item->table, item->of) == item);
            MR_ASSERT(item->squares[0] == item->squares[0] && item->squares[1] == item->squares[1]);
        }
        span parts[] = {span_of(data, size), shared_bytes_bytes(bytes)};
        shared_bytes *both = slot_norms_combine(NULL, parts, 2);
        MR_ASSERT(shared_bytes_bytes(both).size == shared_bytes_bytes(bytes).size);
        shared_bytes_unref(both);
        shared_bytes_unref(bytes);
    }
    slot_norms_fini(&read);
    slot_norms_fini(&again);
    return 0;
}
