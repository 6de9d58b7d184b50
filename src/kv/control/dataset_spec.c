/* dataset_spec.c — see dataset_spec.h. */
#include "kv/control/dataset_spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/format.h"
#include "base/plural.h"
#include "base/varint.h"

mr_status dataset_spec_init(dataset_spec *spec, const uint64_t *sizes, uint32_t count) {
    uint64_t items = 0;
    if (count == 0 || sizes == NULL) return error_set(MR_INVALID, "a dataset has at least 1 shard");
    if (count > DATASET_SPEC_PARTS_MAX)
        return error_set(MR_TOO_LARGE, "a dataset of %u shards: the limit is %d", count, DATASET_SPEC_PARTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (sizes[i] == 0) return error_set(MR_INVALID, "shard %u of the dataset has 0 items", i);
        if (sizes[i] > DATASET_SPEC_ITEMS_MAX - items)
            return error_set(MR_TOO_LARGE, "the dataset exceeds %llu items",
                             (unsigned long long)DATASET_SPEC_ITEMS_MAX);
        items += sizes[i];
    }
    *spec = (struct dataset_spec){xcopy(sizes, count * sizeof *sizes), count};
    return MR_OK;
}

void dataset_spec_fini(dataset_spec *spec) {
    free(spec->sizes);
    *spec = (struct dataset_spec){0};
}

size_t dataset_spec_size(const dataset_spec *spec) {
    size_t size = 1 + varint_size(spec->count);
    for (uint32_t i = 0; i < spec->count; i++) size += varint_size(spec->sizes[i]);
    return size;
}

void dataset_spec_encode(const dataset_spec *spec, writer *writer) {
    writer_u8(writer, DATASET_SPEC_LAYOUT);
    writer_varint(writer, spec->count);
    for (uint32_t i = 0; i < spec->count; i++) writer_varint(writer, spec->sizes[i]);
}

mr_status dataset_spec_decode(span bytes, dataset_spec *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint64_t sizes[DATASET_SPEC_PARTS_MAX];
    uint8_t layout = reader_u8(&reader);
    if (!reader.failed && layout != DATASET_SPEC_LAYOUT)
        return format_reject("how the data is cut", layout, DATASET_SPEC_LAYOUT, FORMAT_USE_SAME);
    uint64_t count = reader_varint(&reader);
    if (reader.failed || count > DATASET_SPEC_PARTS_MAX) goto corrupt;
    for (uint64_t i = 0; i < count; i++) sizes[i] = reader_varint(&reader);
    if (reader.failed || reader_left(&reader) != 0) goto corrupt;
    if (dataset_spec_init(out, sizes, (uint32_t)count) == MR_OK) return MR_OK;
corrupt:
    return error_set(MR_CORRUPT, "malformed dataset specification of %zu bytes", bytes.size);
}

/* ---- In the metadata store. */

static mr_status compare(const dataset_spec *wanted, span value) {
    dataset_spec there = {0};
    mr_status status = dataset_spec_decode(value, &there);
    if (status != MR_OK) return status;
    if (there.count != wanted->count)
        status = error_set(MR_EXISTS, "the dataset is defined with %u shard%s, not %u", there.count,
                           plural(there.count), wanted->count);
    for (uint32_t i = 0; status == MR_OK && i < there.count; i++)
        if (there.sizes[i] != wanted->sizes[i])
            status = error_set(MR_EXISTS, "the dataset is defined: shard %u has %llu items, not %llu", i,
                               (unsigned long long)there.sizes[i], (unsigned long long)wanted->sizes[i]);
    dataset_spec_fini(&there);
    return status;
}

static mr_status edit(void *argument, span value, cas_update_bytes *out) {
    const dataset_spec *spec = argument;
    if (value.size != 0) return compare(spec, value);
    *out = (cas_update_bytes){xmalloc(dataset_spec_size(spec)), dataset_spec_size(spec)};
    writer writer = writer_of(out->data, out->size);
    dataset_spec_encode(spec, &writer);
    return MR_OK;
}

cas_update *dataset_spec_decide(metadata_store store, dataset_spec *spec) {
    return cas_update_begin(store, DATASET_SPEC_KEY, edit, spec);
}
