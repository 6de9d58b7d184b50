/* depot_fuzz.c — the manifest of a depot, whatever happened to it.
 *
 * Random bytes do not come past the checksum. So they are tried as they are, and once more with the checksum that they
 * should have had. */
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "ps/depot.h"

/* A disk with one file, which can only be read. */
static mr_status file_read(void *self, const char *file, uint64_t offset, void *data, size_t size, size_t *got) {
    const span *content = self;
    MR_ASSERT(offset == 0 && size == content->size && strcmp(file, DEPOT_MANIFEST) == 0);
    if (size != 0) memcpy(data, content->data, size);
    *got = size;
    return MR_OK;
}

static mr_status file_size(void *self, const char *file, uint64_t *out) {
    *out = ((const span *)self)->size;
    return MR_OK;
}

static void send(void *context, const char *address, span bytes) {}

static void try(const uint8_t *data, size_t size) {
    static const disk_ops ops = {.name = "one file", .read = file_read, .size = file_size};
    span content = span_of(data, size);
    depot_options options = {.address = "depot", .director = "director", .disk = {&ops, &content}, .send = send};
    depot *depot = depot_create(&options, 0);
    depot_tick(depot, 0);
    MR_ASSERT(size > 4 || depot_newest(depot) == 0);
    MR_ASSERT(depot_lsn(depot, CHART_SLOTS_MAX) == 0);
    depot_destroy(depot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try(data, size);
    if (size < 8) return 0;
    uint8_t *repaired = xmalloc(size);
    memcpy(repaired, data, size - 8);
    writer writer = writer_of(repaired + size - 8, 8);
    writer_u64(&writer, XXH3_64bits(repaired, size - 8));
    try(repaired, size);
    free(repaired);
    return 0;
}
