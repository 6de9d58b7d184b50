/* image.c — see image.h. */
#include "cluster/image.h"

#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/format.h"
#include "base/mutation.h"
#include "cluster/keeper.h"

enum {
    RECORD_OVERHEAD = 24,
    OVERHEAD = 20,
    BYTES_MAX = OVERHEAD + KEEPER_KEYS_MAX * (RECORD_OVERHEAD + KEEPER_KEY_MAX + KEEPER_VALUE_MAX),
};

static size_t size_of(const archive_content *content) {
    size_t size = OVERHEAD;
    for (size_t i = 0; i < content->count; i++)
        size += RECORD_OVERHEAD + content->records[i].key.size + content->records[i].value.size;
    return size;
}

static void write_all(const archive_content *content, writer *writer) {
    writer_u32(writer, IMAGE_MAGIC);
    writer_u32(writer, (uint32_t)content->generation);
    writer_u32(writer, (uint32_t)content->count);
    for (size_t i = 0; i < content->count; i++) {
        const archive_record *record = &content->records[i];
        writer_span32(writer, record->key);
        writer_u64(writer, record->version);
        writer_u64(writer, record->lease);
        writer_span32(writer, record->value);
    }
    writer_u64(writer, XXH3_64bits(writer->start, writer_size(writer)));
}

static mr_status save(void *self, const archive_content *content, size_t changed) {
    image *image = self;
    size_t size = size_of(content);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    write_all(content, &writer);
    MR_ASSERT(!writer.failed && writer_size(&writer) == size);
    span all = span_of(bytes, size);
    mr_status status = MUTATED("no-sync") ? image->disk.ops->write(image->disk.self, IMAGE_FILE, 0, all)
                                          : disk_replace(image->disk, IMAGE_FILE, all);
    free(bytes);
    return status;
}

static mr_status begin(void *self, uint64_t generation) {
    return save(self, &(archive_content){.generation = generation}, 0);
}

static bool read_record(reader *reader, uint64_t generation, archive_take_fn *take, void *context) {
    archive_record record = {.key = reader_span32(reader), .version = reader_u64(reader)};
    record.lease = reader_u64(reader);
    record.value = reader_span32(reader);
    return !reader->failed && take(context, generation, &record);
}

static mr_status read_all(span bytes, archive_take_fn *take, void *context, uint64_t *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    uint32_t magic = reader_u32(&reader);
    uint32_t known = format_of(IMAGE_MAGIC, IMAGE_MAGIC, sizeof magic),
             found = format_of(magic, IMAGE_MAGIC, sizeof magic);
    if (found != 0 && found != known && format_is_sealed(bytes))
        return format_reject("the keeper's file '" IMAGE_FILE "'", found, known,
                             FORMAT_USE_WRITER ", or begin in another folder");
    uint64_t generation = reader_u32(&reader);
    size_t count = reader_u32(&reader);
    bool good = !reader.failed && magic == IMAGE_MAGIC && count <= KEEPER_KEYS_MAX;
    for (size_t i = 0; good && i < count; i++) good = read_record(&reader, generation, take, context);
    uint64_t sum = XXH3_64bits(bytes.data, bytes.size - reader_left(&reader));
    good = good && reader_u64(&reader) == sum && !reader.failed && reader_left(&reader) == 0;
    if (!good)
        return error_set(MR_CORRUPT,
                         "the keeper's file '%s' is damaged: remove it, and every member will enter the cluster anew",
                         IMAGE_FILE);
    *out = generation;
    return MR_OK;
}

static mr_status load(void *self, archive_take_fn *take, void *context, uint64_t *generation) {
    image *image = self;
    buffer bytes;
    buffer_init(&bytes, BYTES_MAX);
    mr_status status = disk_read_all(image->disk, IMAGE_FILE, BYTES_MAX, &bytes);
    if (status == MR_OK) status = read_all(span_of(bytes.data, bytes.size), take, context, generation);
    buffer_fini(&bytes);
    return status;
}

archive image_archive(image *image) {
    static const archive_ops ops = {.name = "image", .load = load, .save = save, .begin = begin};
    return (archive){&ops, image};
}
