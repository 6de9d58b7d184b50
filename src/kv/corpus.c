/* corpus.c — see corpus.h. */
#include "kv/corpus.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/format.h"
#include "base/varint.h"

mr_status corpus_init(corpus *corpus, const uint64_t *sizes, uint32_t count) {
    uint64_t items = 0;
    if (count == 0 || sizes == NULL) return error_set(MR_INVALID, "a dataset has at least 1 shard");
    if (count > CORPUS_PARTS_MAX)
        return error_set(MR_TOO_LARGE, "a dataset of %u shards: the limit is %d", count, CORPUS_PARTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (sizes[i] == 0) return error_set(MR_INVALID, "shard %u of the dataset has 0 items", i);
        if (sizes[i] > CORPUS_ITEMS_MAX - items)
            return error_set(MR_TOO_LARGE, "the dataset exceeds %llu items", (unsigned long long)CORPUS_ITEMS_MAX);
        items += sizes[i];
    }
    *corpus = (struct corpus){xmalloc(count * sizeof *sizes), count};
    memcpy(corpus->sizes, sizes, count * sizeof *sizes);
    return MR_OK;
}

void corpus_fini(corpus *corpus) {
    free(corpus->sizes);
    *corpus = (struct corpus){0};
}

size_t corpus_size(const corpus *corpus) {
    size_t size = 1 + varint_size(corpus->count);
    for (uint32_t i = 0; i < corpus->count; i++) size += varint_size(corpus->sizes[i]);
    return size;
}

void corpus_encode(const corpus *corpus, writer *writer) {
    writer_u8(writer, CORPUS_LAYOUT);
    writer_varint(writer, corpus->count);
    for (uint32_t i = 0; i < corpus->count; i++) writer_varint(writer, corpus->sizes[i]);
}

mr_status corpus_decode(span bytes, corpus *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint64_t sizes[CORPUS_PARTS_MAX];
    uint8_t layout = reader_u8(&reader);
    if (!reader.failed && layout != CORPUS_LAYOUT)
        return format_reject("how the data is cut", layout, CORPUS_LAYOUT, FORMAT_USE_SAME);
    uint64_t count = reader_varint(&reader);
    if (reader.failed || count > CORPUS_PARTS_MAX) goto corrupt;
    for (uint64_t i = 0; i < count; i++) sizes[i] = reader_varint(&reader);
    if (reader.failed || reader_left(&reader) != 0) goto corrupt;
    if (corpus_init(out, sizes, (uint32_t)count) == MR_OK) return MR_OK;
corrupt:
    return error_set(MR_CORRUPT, "malformed dataset specification of %zu bytes", bytes.size);
}

/* ---- At the coordinator. */

static mr_status compare(const corpus *wanted, span value) {
    corpus there = {0};
    mr_status status = corpus_decode(value, &there);
    if (status != MR_OK) return status;
    if (there.count != wanted->count)
        status = error_set(MR_EXISTS, "the dataset is defined with %u shards, not %u", there.count, wanted->count);
    for (uint32_t i = 0; status == MR_OK && i < there.count; i++)
        if (there.sizes[i] != wanted->sizes[i])
            status = error_set(MR_EXISTS, "the dataset is defined: shard %u has %llu items, not %llu", i,
                               (unsigned long long)there.sizes[i], (unsigned long long)wanted->sizes[i]);
    corpus_fini(&there);
    return status;
}

static mr_status edit(void *argument, span value, ballot_bytes *out) {
    const corpus *corpus = argument;
    if (value.size != 0) return compare(corpus, value);
    *out = (ballot_bytes){xmalloc(corpus_size(corpus)), corpus_size(corpus)};
    writer writer = writer_of(out->data, out->size);
    corpus_encode(corpus, &writer);
    return MR_OK;
}

ballot *corpus_decide(coordinator coordinator, corpus *corpus) {
    return ballot_begin(coordinator, CORPUS_KEY, edit, corpus);
}
