/* fix_checksum.h — for targets whose file ends with the XXH3 of all bytes before it.
 *
 * Random bytes fail the checksum, so each input is tried as it is, and again with the correct checksum. The input is
 * the only file of a read-only disk. */
#pragma once
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "net/disk.h"

typedef struct fix_checksum_file {
    const char *name;
    span content;
} fix_checksum_file;

static inline mr_status fix_checksum_read(void *self, const char *file, uint64_t offset, void *data, size_t size,
                                          size_t *got) {
    const fix_checksum_file *only = self;
    MR_ASSERT(offset == 0 && size == only->content.size && strcmp(file, only->name) == 0);
    if (size != 0) memcpy(data, only->content.data, size);
    *got = size;
    return MR_OK;
}

static inline mr_status fix_checksum_size(void *self, const char *file, uint64_t *out) {
    const fix_checksum_file *only = self;
    if (strcmp(file, only->name) != 0) return MR_NOT_FOUND;
    *out = only->content.size;
    return MR_OK;
}

/* refuses, so that no file is replaced */
static inline mr_status fix_checksum_remove(void *self, const char *file) { return MR_DENIED; }

static inline void fix_checksum_try(const char *name, const uint8_t *data, size_t size, void (*try)(disk disk)) {
    static const disk_ops ops = {
        .name = "one file", .read = fix_checksum_read, .size = fix_checksum_size, .remove = fix_checksum_remove};
    fix_checksum_file file = {name, span_of(data, size)};
    try((disk){&ops, &file});
    if (size < 8) return;
    uint8_t *repaired = xmalloc(size);
    memcpy(repaired, data, size - 8);
    writer writer = writer_of(repaired + size - 8, 8);
    writer_u64(&writer, XXH3_64bits(repaired, size - 8));
    file.content = span_of(repaired, size);
    try((disk){&ops, &file});
    free(repaired);
}
