/* part_fuzz.c — batches that another process may send. What is read is written, and read again as the same parts. */
#include <string.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "ps/part.h"

static bool same_bytes(span a, span b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static bool same(const part *a, const part *b) {
    return a->kind == b->kind && a->status == b->status && a->entry == b->entry && a->priority == b->priority &&
           a->slot == b->slot && a->rank == b->rank && a->epoch == b->epoch && a->lsn == b->lsn &&
           a->commit == b->commit && a->name == b->name && a->prev == b->prev && same_bytes(a->terms, b->terms) &&
           same_bytes(a->payload, b->payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    reader from = reader_of(data, size);
    part_head head;
    uint32_t count, good = 0;
    if (size > 64 * 1024 || part_read_head(&from, &head, &count) != MR_OK) return 0;
    reader first = from;
    part_batch batch = {0};
    part part, twin;
    uint8_t written[PART_HEAD_MAX];
    part_begin_written(&batch, span_of(written, part_write_head(&head, written)));
    for (; good < count && part_read(&from, &part) == MR_OK; good++) part_add(&batch, &part);
    span bytes = part_end(&batch);
    reader again = reader_of(bytes.data, bytes.size);
    MR_ASSERT(part_read_head(&again, &head, &count) == MR_OK && count == good);
    for (uint32_t i = 0; i < good; i++)
        MR_ASSERT(part_read(&first, &part) == MR_OK && part_read(&again, &twin) == MR_OK && same(&part, &twin));
    MR_ASSERT(reader_left(&again) == 0);
    part_batch_fini(&batch);
    return 0;
}
