/* catalog_wire.c — see catalog_wire.h. */
#include "kv/control/catalog_wire.h"

#include "base/assert.h"
#include "base/error.h"

size_t catalog_wire_ask(const catalog_wire_question *question, uint8_t out[CONTROL_MESSAGE_VALUE_MAX]) {
    writer writer = writer_of(out, CONTROL_MESSAGE_VALUE_MAX);
    writer_u8(&writer, (uint8_t)question->kind);
    switch (question->kind) {
    case CATALOG_WIRE_FIND: writer_text8(&writer, question->name); break;
    case CATALOG_WIRE_READ:
        writer_u32(&writer, question->id);
        writer_u64(&writer, question->offset);
        break;
    case CATALOG_WIRE_CREATE:
        writer_u64(&writer, question->size);
        writer_u64(&writer, question->offset);
        writer_bytes(&writer, question->piece.data, question->piece.size);
        break;
    case CATALOG_WIRE_DROP:
    case CATALOG_WIRE_LIST: writer_u32(&writer, question->id); break;
    }
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

static void read_piece(reader *reader, catalog_wire_question *out) {
    out->size = reader_u64(reader);
    out->offset = reader_u64(reader);
    out->piece.size = reader_left(reader);
    out->piece.data = reader_bytes(reader, out->piece.size);
    if (out->size > TABLE_CATALOG_TABLE_MAX || out->piece.size == 0 || out->offset > out->size ||
        out->piece.size > out->size - out->offset)
        reader->failed = true;
}

mr_status catalog_wire_read_question(span bytes, catalog_wire_question *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    *out = (catalog_wire_question){.kind = (catalog_wire_kind)reader_u8(&reader)};
    switch (out->kind) {
    case CATALOG_WIRE_FIND: (void)reader_text8(&reader, out->name, sizeof out->name); break;
    case CATALOG_WIRE_READ:
        out->id = reader_u32(&reader);
        out->offset = reader_u64(&reader);
        break;
    case CATALOG_WIRE_CREATE: read_piece(&reader, out); break;
    case CATALOG_WIRE_DROP:
    case CATALOG_WIRE_LIST: out->id = reader_u32(&reader); break;
    default: reader.failed = true;
    }
    if (!reader.failed && reader_left(&reader) == 0) return MR_OK;
    return error_set(MR_CORRUPT, "malformed question about tables, of %zu bytes", bytes.size);
}

size_t catalog_wire_answer_write(const catalog_wire_answer *answer, uint8_t out[CONTROL_MESSAGE_VALUE_MAX]) {
    writer writer = writer_of(out, CONTROL_MESSAGE_VALUE_MAX);
    writer_u32(&writer, (uint32_t)answer->status);
    writer_u32(&writer, answer->id);
    writer_u64(&writer, answer->size);
    writer_u64(&writer, answer->offset);
    writer_bytes(&writer, answer->bytes.data, answer->bytes.size);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

mr_status catalog_wire_read_answer(span bytes, catalog_wire_answer *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    *out = (catalog_wire_answer){.status = (mr_status)reader_u32(&reader)};
    out->id = reader_u32(&reader);
    out->size = reader_u64(&reader);
    out->offset = reader_u64(&reader);
    out->bytes = span_of(reader.at, reader_left(&reader));
    bool is_piece = out->status == MR_OK || out->status == MR_EXISTS;
    if (!reader.failed && (out->size == 0 || !is_piece ||
                           (out->size <= TABLE_CATALOG_TABLE_MAX && out->offset <= out->size &&
                            out->bytes.size <= out->size - out->offset)))
        return MR_OK;
    return error_set(MR_CORRUPT, "malformed answer about tables, of %zu bytes", bytes.size);
}

mr_status catalog_wire_next(reader *list, uint32_t *id, char name[MR_PS_NAME_MAX]) {
    if (reader_left(list) == 0 && !list->failed) return MR_END;
    *id = reader_u32(list);
    if (reader_text8(list, name, MR_PS_NAME_MAX)) return MR_OK;
    return error_set(MR_CORRUPT, "malformed list of tables after id %u", *id);
}
