/* overview.c — see overview.h. */
#include "kv/control/overview.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "kv/control/table_catalog.h"

enum {
    HEAD_MAX = 4 * 8 + 2 + 8 + 4 * 4 + sizeof(((mr_ps_overview *)0)->folder) +
               sizeof(((mr_ps_overview *)0)->checkpoint_error) + sizeof(((mr_ps_overview *)0)->stall) +
               sizeof(((mr_ps_overview *)0)->stall_hint) + 3 * 4,
    HOLDER_SIZE = 16,
    DATA_MAX = 2 * 4 + 4 * 8 + 2 * 4 + OVERVIEW_HOLDERS_MAX * HOLDER_SIZE,
    TABLE_HEAD = 2 + 2 * 4 + 3 * 8,
    TABLE_MIN = TABLE_HEAD + 4
};
_Static_assert((int)TABLE_HEAD <= (int)TABLE_SCHEMA_SIZE, "what a table has in a catalogue is more");
_Static_assert((int)HEAD_MAX + (int)DATA_MAX + (int)TABLE_CATALOG_BYTES_MAX <= (int)CONTROL_MESSAGE_VALUE_MAX,
               "all of it fits into a letter");

/* Numbers of a table and of the dataset, in the order of their bytes. */
#define TABLE_NUMBERS(X) X(u32, dim) X(u32, arrays) X(u64, rows) X(u64, bytes) X(u64, nonfinite)
#define DATA_NUMBERS(X) \
    X(u32, shards)      \
    X(u32, shards_done) X(u64, epoch) X(u64, items) X(u64, items_given) X(u64, items_back) X(u32, workers)

static void write_table(writer *writer, const mr_ps_table_state *table) {
    writer_u8(writer, (uint8_t)table->kind);
    writer_u8(writer, (uint8_t)table->dtype);
#define X(type, field) writer_##type(writer, table->field);
    TABLE_NUMBERS(X)
#undef X
    writer_text8(writer, table->name);
    writer_text8(writer, table->optimizer);
    writer_text8(writer, table->compression);
    writer_text8(writer, table->consistency);
}

static void write_data(writer *writer, const mr_ps_dataset_state *data) {
#define X(type, field) writer_##type(writer, data->field);
    DATA_NUMBERS(X)
#undef X
    writer_u32(writer, data->reader_count);
    for (uint32_t i = 0; i < data->reader_count; i++) {
        writer_u32(writer, data->readers[i].rank);
        writer_u32(writer, data->readers[i].shards);
        writer_u64(writer, data->readers[i].items);
    }
}

uint8_t *overview_encode(const mr_ps_overview *overview, size_t *size) {
    uint8_t *bytes = xmalloc(CONTROL_MESSAGE_VALUE_MAX);
    writer writer = writer_of(bytes, CONTROL_MESSAGE_VALUE_MAX);
    const char *const texts[] = {overview->folder, overview->checkpoint_error, overview->stall, overview->stall_hint};
    writer_u64(&writer, overview->checkpoint);
    writer_u64(&writer, (uint64_t)overview->checkpoint_us);
    writer_u64(&writer, (uint64_t)overview->every_us);
    writer_u8(&writer, overview->making != 0);
    writer_u64(&writer, (uint64_t)overview->checkpoint_error_us);
    writer_u8(&writer, overview->checkpoint_failed != 0);
    writer_u64(&writer, (uint64_t)overview->stall_us);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        writer_span32(&writer, span_of(texts[i], strlen(texts[i])));
    writer_u32(&writer, overview->counted);
    writer_u32(&writer, overview->servers);
    writer_u32(&writer, overview->table_count);
    for (uint32_t i = 0; i < overview->table_count; i++) write_table(&writer, &overview->tables[i]);
    write_data(&writer, &overview->data);
    MR_ASSERT(!writer.failed);
    *size = writer_size(&writer);
    return bytes;
}

static bool read_time(reader *reader, int64_t *out) {
    uint64_t us = reader_u64(reader);
    *out = (int64_t)us;
    return us <= INT64_MAX;
}

static bool read_text(reader *reader, char *out, size_t room) {
    span text = reader_span32(reader);
    if (reader->failed || text.size >= room || memchr(text.data, 0, text.size) != NULL) return false;
    memcpy(out, text.data, text.size);
    out[text.size] = '\0';
    return true;
}

static bool read_table(reader *reader, mr_ps_table_state *out) {
    uint8_t kind = reader_u8(reader), dtype = reader_u8(reader);
    out->kind = (mr_ps_kind)kind;
    out->dtype = (mr_dtype)dtype;
#define X(type, field) out->field = reader_##type(reader);
    TABLE_NUMBERS(X)
#undef X
    bool known = kind <= MR_PS_DENSE && (dtype == MR_F32 || dtype == MR_F16 || dtype == MR_BF16 || dtype == MR_I64);
    return known && reader_text8(reader, out->name, sizeof out->name) &&
           reader_text8(reader, out->optimizer, sizeof out->optimizer) &&
           reader_text8(reader, out->compression, sizeof out->compression) &&
           reader_text8(reader, out->consistency, sizeof out->consistency);
}

static bool read_head(reader *reader, mr_ps_overview *out) {
    out->checkpoint = reader_u64(reader);
    bool good = read_time(reader, &out->checkpoint_us) && read_time(reader, &out->every_us);
    out->making = reader_flag(reader);
    good = good && read_time(reader, &out->checkpoint_error_us);
    out->checkpoint_failed = reader_flag(reader);
    good = good && read_time(reader, &out->stall_us) && read_text(reader, out->folder, sizeof out->folder) &&
           read_text(reader, out->checkpoint_error, sizeof out->checkpoint_error) &&
           read_text(reader, out->stall, sizeof out->stall) &&
           read_text(reader, out->stall_hint, sizeof out->stall_hint);
    out->counted = reader_u32(reader);
    out->servers = reader_u32(reader);
    out->table_count = reader_u32(reader);
    return good && !reader->failed && out->table_count <= reader_left(reader) / TABLE_MIN;
}

static bool read_data(reader *reader, mr_ps_dataset_state *out) {
#define X(type, field) out->field = reader_##type(reader);
    DATA_NUMBERS(X)
#undef X
    uint32_t count = reader_u32(reader);
    if (reader->failed || count > OVERVIEW_HOLDERS_MAX || count > reader_left(reader) / HOLDER_SIZE) return false;
    out->readers = xcalloc(count + 1, sizeof *out->readers);
    out->reader_count = count;
    for (uint32_t i = 0; i < count; i++) {
        out->readers[i].rank = reader_u32(reader);
        out->readers[i].shards = reader_u32(reader);
        out->readers[i].items = reader_u64(reader);
    }
    return true;
}

mr_status overview_decode(span bytes, mr_ps_overview **out) {
    reader reader = reader_of(bytes.data, bytes.size);
    mr_ps_overview *read = xcalloc(1, sizeof *read);
    bool good = read_head(&reader, read);
    if (good) read->tables = xcalloc(read->table_count + 1, sizeof *read->tables);
    for (uint32_t i = 0; good && i < read->table_count; i++) good = read_table(&reader, &read->tables[i]);
    good = good && read_data(&reader, &read->data);
    if (!good || reader.failed || reader_left(&reader) != 0) {
        mr_ps_overview_free(read);
        return error_set(MR_CORRUPT, "malformed overview of %zu bytes", bytes.size);
    }
    *out = read;
    return MR_OK;
}

void mr_ps_overview_free(mr_ps_overview *overview) {
    if (overview == NULL) return;
    free(overview->tables);
    free(overview->data.readers);
    free(overview);
}
