/* app_message.c — see app_message.h. */
#include "kv/control/app_message.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "kv/control/process_state.h"

_Static_assert(APP_MESSAGE_HEAD_MAX + MR_PS_BODY_MAX <= CONTROL_MESSAGE_VALUE_MAX, "a note fits into a letter");

#define BEFORE_ADDRESS(X) X(u8, kind) X(u8, from_role) X(u8, to_role) X(u32, to)
#define AFTER_ADDRESS(X)  X(u64, to_incarnation) X(u64, number) X(u64, oldest) X(u32, app) X(u32, head) X(u32, status)

uint8_t *app_message_write(const app_message *message, control_message *control_message) {
    size_t size = APP_MESSAGE_HEAD_MAX + message->body.size;
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
#define X(type, field) writer_##type(&writer, message->field);
    BEFORE_ADDRESS(X)
    writer_text8(&writer, message->address);
    AFTER_ADDRESS(X)
#undef X
    writer_bytes(&writer, message->body.data, message->body.size);
    MR_ASSERT(!writer.failed);
    control_message->stamp = (stamp){message->map, message->from, message->from_incarnation};
    control_message->value = span_of(bytes, writer_size(&writer));
    return bytes;
}

mr_status app_message_read(const control_message *message, app_message *out) {
    reader reader = reader_of(message->value.data, message->value.size);
    app_message read = {0};
#define X(type, field) read.field = reader_##type(&reader);
    BEFORE_ADDRESS(X)
    bool good = reader_text8(&reader, read.address, sizeof read.address);
    AFTER_ADDRESS(X)
#undef X
    read.body.size = reader_left(&reader);
    read.body.data = reader_bytes(&reader, read.body.size);
    read.map = message->stamp.view;
    read.from = (uint32_t)message->stamp.id;
    read.from_incarnation = message->stamp.incarnation;
    good = good && !reader.failed && (read.kind == APP_MESSAGE_REQUEST || read.kind == APP_MESSAGE_RESPONSE) &&
           process_state_is_role(read.from_role) && process_state_is_role(read.to_role) &&
           message->stamp.id <= UINT32_MAX && read.from_incarnation != 0 && read.number != 0 && read.oldest != 0 &&
           read.oldest <= read.number && strcmp(mr_status_name(read.status), "UNKNOWN") != 0 &&
           read.body.size <= MR_PS_BODY_MAX && (read.kind == APP_MESSAGE_RESPONSE || read.status == MR_OK);
    if (!good) return error_set(MR_CORRUPT, "malformed app message of %zu bytes", message->value.size);
    *out = read;
    return MR_OK;
}
