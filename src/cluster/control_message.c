/* control_message.c — see control_message.h. */
#include "cluster/control_message.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

/* ---- Layouts: the fields after the stamp, in order. */

typedef enum type { END, U64, STATUS, SPAN, REST } type; /* REST: all bytes that follow */

typedef struct field {
    type type;
    size_t offset; /* offset in struct control_message */
} field;

#define FIELD(type, name) \
    { type, offsetof(control_message, name) }
static const field heartbeat[] = {{END, 0}};
static const field get[] = {FIELD(U64, request), FIELD(SPAN, key), FIELD(U64, version), {END, 0}};
static const field swap[] = {FIELD(U64, request), FIELD(SPAN, key),   FIELD(U64, version),
                             FIELD(U64, lease),   FIELD(SPAN, value), {END, 0}};
static const field lease[] = {FIELD(U64, request), FIELD(U64, lease), FIELD(U64, ttl_us), {END, 0}};
static const field answer[] = {
    FIELD(U64, request), FIELD(STATUS, status), FIELD(U64, version), FIELD(SPAN, value), {END, 0}};
static const field content[] = {FIELD(REST, value), {END, 0}}; /* content of VIEW and of users' kinds */

static const field *layout_of(uint8_t kind) { /* NULL: unknown kind */
    static const field *const layouts[] = {
        [CONTROL_MESSAGE_HEARTBEAT] = heartbeat, [CONTROL_MESSAGE_VIEW] = content,  [CONTROL_MESSAGE_GET] = get,
        [CONTROL_MESSAGE_SWAP] = swap,           [CONTROL_MESSAGE_ANSWER] = answer, [CONTROL_MESSAGE_WATCH] = get,
        [CONTROL_MESSAGE_LEASE] = lease,
    };
    if (kind >= CONTROL_MESSAGE_USER) return content;
    return kind < sizeof layouts / sizeof *layouts ? layouts[kind] : NULL;
}

static void write_field(writer *writer, type type, const void *field) {
    const span *bytes = field;
    switch (type) {
    case U64: writer_u64(writer, *(const uint64_t *)field); break;
    case STATUS: writer_u32(writer, (uint32_t) * (const mr_status *)field); break;
    case SPAN: writer_span32(writer, *bytes); break;
    default: writer_bytes(writer, bytes->data, bytes->size); break;
    }
}

static void read_field(reader *reader, type type, void *field) {
    size_t left = reader_left(reader);
    switch (type) {
    case U64: *(uint64_t *)field = reader_u64(reader); break;
    case STATUS: *(mr_status *)field = (mr_status)reader_u32(reader); break;
    case SPAN: *(span *)field = reader_span32(reader); break;
    default: *(span *)field = span_of(reader_bytes(reader, left), left); break;
    }
}

void control_message_encode(const control_message *message, writer *writer) {
    const field *field = layout_of(message->kind);
    MR_ASSERT(message->key.size <= CONTROL_MESSAGE_KEY_MAX && message->value.size <= CONTROL_MESSAGE_VALUE_MAX &&
              field != NULL);
    writer_u8(writer, message->kind);
    writer_u64(writer, message->stamp.view);
    writer_u64(writer, message->stamp.id);
    writer_u64(writer, message->stamp.incarnation);
    for (; field->type != END; field++) write_field(writer, field->type, (const uint8_t *)message + field->offset);
}

size_t control_message_size(const control_message *message) {
    writer writer = writer_of(NULL, 0);
    control_message_encode(message, &writer);
    return writer_needs(&writer);
}

uint8_t *control_message_write(const control_message *message, size_t *size) {
    *size = control_message_size(message);
    uint8_t *bytes = xmalloc(*size);
    writer writer = writer_of(bytes, *size);
    control_message_encode(message, &writer);
    MR_ASSERT(!writer.failed && writer_size(&writer) == *size);
    return bytes;
}

static bool read_content(reader *reader, control_message *message) {
    const field *field = layout_of(message->kind);
    if (field == NULL) return false;
    for (; field->type != END; field++) read_field(reader, field->type, (uint8_t *)message + field->offset);
    bool known = strcmp(mr_status_name(message->status), "UNKNOWN") != 0;
    return !reader->failed && reader_left(reader) == 0 && known && message->key.size <= CONTROL_MESSAGE_KEY_MAX &&
           message->value.size <= CONTROL_MESSAGE_VALUE_MAX;
}

mr_status control_message_decode(span bytes, control_message *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    control_message message = {.kind = reader_u8(&reader)};
    message.stamp.view = reader_u64(&reader);
    message.stamp.id = reader_u64(&reader);
    message.stamp.incarnation = reader_u64(&reader);
    if (reader.failed || !read_content(&reader, &message))
        return error_set(MR_CORRUPT, "malformed control message of %zu bytes", bytes.size);
    *out = message;
    return MR_OK;
}
