/* metadata_file.c — see metadata_file.h. */
#include "cluster/metadata_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/format.h"
#include "base/mutation.h"
#include "cluster/metadata_db.h"

enum {
    RECORD_OVERHEAD = 24,
    OVERHEAD = 28,
    COPY_MAX = OVERHEAD + METADATA_DB_KEYS_MAX * (RECORD_OVERHEAD + METADATA_DB_KEY_MAX + METADATA_DB_VALUE_MAX),
    HEAD_SIZE = 16,
    MARK_AT = 512, /* in its own sector */
    MARK_SIZE = 16,
    COPIES_AT = 4096,
    ROOM_STEP = 16384,
    FILE_MAX = COPIES_AT + 2 * (COPY_MAX + COPY_MAX / 2 + ROOM_STEP),
};

static size_t copy_at(size_t room, uint64_t number) { return COPIES_AT + (number % 2 == 0 ? 0 : room); }

/* ---- Saving. */

static size_t size_of(const metadata_storage_content *content) {
    size_t size = OVERHEAD;
    for (size_t i = 0; i < content->count; i++)
        size += RECORD_OVERHEAD + content->records[i].key.size + content->records[i].value.size;
    return size;
}

static void write_sum(writer *writer) { writer_u64(writer, format_sum(span_of(writer->start, writer_size(writer)))); }

static void write_copy(const metadata_storage_content *content, uint64_t number, size_t size, writer *writer) {
    writer_u32(writer, (uint32_t)size);
    writer_u64(writer, number);
    writer_u32(writer, (uint32_t)content->generation);
    writer_u32(writer, (uint32_t)content->count);
    for (size_t i = 0; i < content->count; i++) {
        const metadata_storage_record *record = &content->records[i];
        writer_span32(writer, record->key);
        writer_u64(writer, record->version);
        writer_u64(writer, record->lease);
        writer_span32(writer, record->value);
    }
    write_sum(writer);
    MR_ASSERT(!writer->failed && writer_size(writer) == size);
}

/* Writes a new file with one copy and no mark; the room is at least half as large again as the copy. */
static mr_status replace(metadata_file *file, span copy) {
    size_t room = (copy.size + copy.size / 2) / ROOM_STEP * ROOM_STEP + ROOM_STEP, size = COPIES_AT + 2 * room;
    MR_ASSERT(copy.size <= room && file->number != 0);
    uint8_t *bytes = xcalloc(1, size);
    writer head = writer_of(bytes, HEAD_SIZE);
    writer_u32(&head, METADATA_FILE_MAGIC);
    writer_u32(&head, (uint32_t)room);
    write_sum(&head);
    memcpy(bytes + copy_at(room, file->number), copy.data, copy.size);
    span all = span_of(bytes, size);
    mr_status status = MUTATED("no-sync") ? file->disk.ops->write(file->disk.self, METADATA_FILE_FILE, 0, all)
                                          : disk_replace(file->disk, METADATA_FILE_FILE, all);
    free(bytes);
    if (status == MR_OK) file->room = room;
    return status;
}

static mr_status overwrite(metadata_file *file, span copy) {
    disk disk = file->disk;
    MR_ASSERT(!file->failed && copy.size <= file->room && file->number != 0);
    MR_TRY(disk.ops->write(disk.self, METADATA_FILE_FILE, copy_at(file->room, file->number), copy));
    FAILPOINT("image.written");
    if (FAILPOINT_ERROR("image.sync")) return error_set(MR_IO, "cannot sync '" METADATA_FILE_FILE "': a failpoint");
    return MUTATED("no-sync") ? MR_OK : disk.ops->sync_data(disk.self, METADATA_FILE_FILE);
}

/* The save is durable even if the mark fails: the next save then writes a new file. */
static void mark(metadata_file *file) {
    uint8_t bytes[MARK_SIZE];
    writer writer = writer_of(bytes, sizeof bytes);
    writer_u64(&writer, file->number);
    write_sum(&writer);
    MR_ASSERT(!writer.failed && writer_size(&writer) == MARK_SIZE && file->room != 0);
    file->failed =
        file->disk.ops->write(file->disk.self, METADATA_FILE_FILE, MARK_AT, span_of(bytes, sizeof bytes)) != MR_OK;
}

static mr_status put(metadata_file *file, span copy) {
    bool fits = !file->failed && copy.size <= file->room;
    mr_status status = fits ? overwrite(file, copy) : replace(file, copy);
    file->failed = status != MR_OK;
    if (status == MR_OK) mark(file);
    return status;
}

static mr_status save(void *self, const metadata_storage_content *content, size_t changed) {
    metadata_file *file = self;
    size_t size = size_of(content);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    write_copy(content, ++file->number, size, &writer);
    mr_status status = put(file, span_of(bytes, size));
    free(bytes);
    FAILPOINT("image.saved");
    return status;
}

static mr_status begin(void *self, uint64_t generation) {
    return save(self, &(metadata_storage_content){.generation = generation}, 0);
}

/* ---- Loading. */

static mr_status damaged(const char *what) {
    return error_set(MR_CORRUPT,
                     "the file '" METADATA_FILE_FILE
                     "' is damaged: %s. The list of tables and the progress of the data are lost; the checkpoints "
                     "remain: export one with `miniray ps checkpoint export`, and begin in another folder. Do not "
                     "restore an older copy of the file",
                     what);
}

static bool read_record(reader *reader, uint64_t generation, metadata_storage_take_fn *take, void *context) {
    metadata_storage_record record = {.key = reader_span32(reader), .version = reader_u64(reader)};
    record.lease = reader_u64(reader);
    record.value = reader_span32(reader);
    return !reader->failed && take(context, generation, &record);
}

/* Reads generation, records and the checksum, which was verified. */
static mr_status read_content(reader *reader, metadata_storage_take_fn *take, void *context, uint64_t *out) {
    uint64_t generation = reader_u32(reader);
    size_t count = reader_u32(reader);
    bool good = !reader->failed && count <= METADATA_DB_KEYS_MAX;
    for (size_t i = 0; good && i < count; i++) good = read_record(reader, generation, take, context);
    (void)reader_u64(reader);
    if (!good || reader->failed || reader_left(reader) != 0) return damaged("a malformed value");
    *out = generation;
    return MR_OK;
}

/* Finds the copy with this parity. Returns its number; 0: the copy is not complete. */
static uint64_t find_copy(span file, size_t room, uint64_t parity, span *out) {
    const uint8_t *bytes = file.data + copy_at(room, parity);
    reader reader = reader_of(bytes, room);
    size_t size = reader_u32(&reader);
    uint64_t number = reader_u64(&reader);
    if (size < OVERHEAD || size > room || number == 0 || number % 2 != parity) return 0;
    *out = span_of(bytes, size);
    return format_is_sealed(*out) ? number : 0;
}

static uint64_t find_mark(span file) {
    span bytes = span_of(file.data + MARK_AT, MARK_SIZE);
    reader reader = reader_of(bytes.data, bytes.size);
    return format_is_sealed(bytes) ? reader_u64(&reader) : 0;
}

static mr_status read_file(metadata_file *metadata_file, span file, metadata_storage_take_fn *take, void *context,
                           uint64_t *out) {
    reader head = reader_of(file.data + sizeof(uint32_t), sizeof(uint32_t));
    size_t room = reader_u32(&head);
    if (file.size < COPIES_AT || (file.size - COPIES_AT) % 2 != 0 || (file.size - COPIES_AT) / 2 != room)
        return damaged("its size has changed");
    span copies[2], copy;
    uint64_t even = find_copy(file, room, 0, &copies[0]), odd = find_copy(file, room, 1, &copies[1]);
    metadata_file->number = even > odd ? even : odd;
    copy = copies[metadata_file->number % 2];
    if (metadata_file->number == 0) return damaged("neither copy of the content is complete");
    if (metadata_file->number < find_mark(file)) return damaged("the newest copy of the content is not complete");
    if (metadata_file->number == find_mark(file))
        metadata_file->room = room;
    else
        MR_TRY(put(metadata_file, copy)); /* writes a new file, since the room is not set yet */
    reader reader = reader_of(copy.data, copy.size);
    (void)reader_u32(&reader);
    (void)reader_u64(&reader);
    return read_content(&reader, take, context, out);
}

static mr_status read_before(span file, metadata_storage_take_fn *take, void *context, uint64_t *out) {
    reader reader = reader_of(file.data, file.size);
    if (!format_is_sealed(file)) return damaged("wrong checksum");
    (void)reader_u32(&reader);
    return read_content(&reader, take, context, out);
}

static mr_status read_any(metadata_file *metadata_file, span file, metadata_storage_take_fn *take, void *context,
                          uint64_t *out) {
    if (file.size < HEAD_SIZE) return damaged("it is too short");
    reader reader = reader_of(file.data, file.size);
    uint32_t found = format_of(reader_u32(&reader), METADATA_FILE_MAGIC, sizeof(uint32_t));
    bool headed = format_is_sealed(span_of(file.data, HEAD_SIZE));
    if (found == METADATA_FILE_FORMAT_BEFORE) return read_before(file, take, context, out);
    if (found == METADATA_FILE_FORMAT && headed) return read_file(metadata_file, file, take, context, out);
    if (found != 0 && found != METADATA_FILE_FORMAT && (headed || format_is_sealed(file)))
        return format_reject("the file '" METADATA_FILE_FILE "'", found, METADATA_FILE_FORMAT,
                             FORMAT_USE_WRITER ", or begin in another folder");
    return damaged("wrong magic number");
}

static mr_status load(void *self, metadata_storage_take_fn *take, void *context, uint64_t *generation) {
    metadata_file *file = self;
    buffer bytes;
    file->number = file->room = 0;
    file->failed = false;
    buffer_init(&bytes, FILE_MAX);
    mr_status status = disk_read_all(file->disk, METADATA_FILE_FILE, FILE_MAX, &bytes);
    if (status == MR_OK) status = read_any(file, span_of(bytes.data, bytes.size), take, context, generation);
    buffer_fini(&bytes);
    return status;
}

metadata_storage metadata_file_storage(metadata_file *file) {
    static const metadata_storage_ops ops = {.name = "image", .load = load, .save = save, .begin = begin};
    return (metadata_storage){&ops, file};
}
