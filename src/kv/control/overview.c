/* overview.c — see overview.h. */
#include "kv/control/overview.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum {
    HEAD_MAX = 4 * 8 + 2 + 8 + 4 * 4 + sizeof(((mr_ps_overview *)0)->folder) +
               sizeof(((mr_ps_overview *)0)->checkpoint_error) + sizeof(((mr_ps_overview *)0)->stall) +
               sizeof(((mr_ps_overview *)0)->stall_hint) + 3 * 4,
    HOLDER_SIZE = 16,
    DATA_MAX = 2 * 4 + 4 * 8 + 2 * 4 + OVERVIEW_HOLDERS_MAX * HOLDER_SIZE,
    TABLE_HEAD = 2 + 2 * 4 + 3 * 8,
    TABLE_MIN = TABLE_HEAD + 4,
    TABLE_MAX = TABLE_HEAD + (int)sizeof(mr_ps_table_state)
};
_Static_assert((int)HEAD_MAX + (int)DATA_MAX + OVERVIEW_TABLES_MAX * (int)TABLE_MAX <= (int)CONTROL_MESSAGE_VALUE_MAX,
               "all of it fits into a control message");

/* Fields by kind: times and flags, texts, and numbers of servers, tables and the dataset, in the order of the
 * format. */
#define HEAD_CHECKPOINT(X) X(u64, checkpoint) X(time, checkpoint_us) X(time, every_us) X(flag, making)
#define HEAD_TROUBLE(X)    X(time, checkpoint_error_us) X(flag, checkpoint_failed) X(time, stall_us)
#define HEAD_TEXTS(X)      X(folder) X(checkpoint_error) X(stall) X(stall_hint)
#define HEAD_COUNTS(X)     X(u32, counted) X(u32, servers) X(u32, table_count)
#define TABLE_NUMBERS(X)   X(u32, dim) X(u32, arrays) X(u64, rows) X(u64, bytes) X(u64, nonfinite)
#define TABLE_TEXTS(X)     X(name) X(optimizer) X(compression) X(consistency)
#define DATA_NUMBERS(X) \
    X(u32, shards)      \
    X(u32, shards_done) X(u64, epoch) X(u64, items) X(u64, items_given) X(u64, items_back) X(u32, workers)

static void write_table(writer *writer, const mr_ps_table_state *table) {
    writer_u8(writer, (uint8_t)table->kind);
    writer_u8(writer, (uint8_t)table->dtype);
#define X(type, field) writer_##type(writer, table->field);
    TABLE_NUMBERS(X)
#undef X
#define X(field) writer_text8(writer, table->field);
    TABLE_TEXTS(X)
#undef X
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

static void writer_time(writer *writer, int64_t us) { writer_u64(writer, (uint64_t)us); }

uint8_t *overview_encode(const mr_ps_overview *overview, size_t *size) {
    uint8_t *bytes = xmalloc(CONTROL_MESSAGE_VALUE_MAX);
    writer writer = writer_of(bytes, CONTROL_MESSAGE_VALUE_MAX);
#define X(type, field) writer_##type(&writer, overview->field);
#define TEXT(field)    writer_span32(&writer, span_of(overview->field, strlen(overview->field)));
    HEAD_CHECKPOINT(X)
    HEAD_TROUBLE(X)
    HEAD_TEXTS(TEXT)
    HEAD_COUNTS(X)
#undef TEXT
#undef X
    for (uint32_t i = 0; i < overview->table_count; i++) write_table(&writer, &overview->tables[i]);
    write_data(&writer, &overview->data);
    MR_ASSERT(!writer.failed);
    *size = writer_size(&writer);
    return bytes;
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
    bool good = kind <= MR_PS_DENSE && (dtype == MR_F32 || dtype == MR_F16 || dtype == MR_BF16 || dtype == MR_I64);
#define X(field) good = good && reader_text8(reader, out->field, sizeof out->field);
    TABLE_TEXTS(X)
#undef X
    return good;
}

static int64_t reader_time(reader *reader) {
    uint64_t us = reader_u64(reader);
    reader->failed = reader->failed || us > INT64_MAX;
    return (int64_t)us;
}

static bool read_head(reader *reader, mr_ps_overview *out) {
    bool good = true;
#define X(type, field) out->field = reader_##type(reader);
#define TEXT(field)    good = good && read_text(reader, out->field, sizeof out->field);
    HEAD_CHECKPOINT(X)
    HEAD_TROUBLE(X)
    HEAD_TEXTS(TEXT)
    HEAD_COUNTS(X)
#undef TEXT
#undef X
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
