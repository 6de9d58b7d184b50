/* handshake.c — see handshake.h. */
#include "net/socket/handshake.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/format.h"

/* ASCII control characters are rejected for the sake of logs and terminals. */
static bool is_printable(uint8_t byte) { return byte >= 0x20 && byte != 0x7f; }

static void write_text(writer *writer, const char *text, size_t size_max) {
    size_t size = strnlen(text, size_max);
    writer_u32(writer, (uint32_t)size);
    for (size_t i = 0; i < size; i++) writer_u8(writer, is_printable((uint8_t)text[i]) ? (uint8_t)text[i] : '?');
}

/* Copies the rest of the head, which is a text, to `out`; false if it is malformed. */
static bool read_text(reader *reader, char *out, size_t out_size) {
    span text = reader_span32(reader);
    if (reader->failed || reader_left(reader) != 0 || text.size >= out_size) return false;
    for (size_t i = 0; i < text.size; i++)
        if (!is_printable(text.data[i])) return false;
    memcpy(out, text.data, text.size);
    out[text.size] = '\0';
    return true;
}

size_t handshake_hello_encode(uint8_t out[HANDSHAKE_HELLO_MAX], const peer *self) {
    writer writer = writer_of(out, HANDSHAKE_HELLO_MAX);
    writer_u32(&writer, HANDSHAKE_PROTOCOL);
    writer_u32(&writer, (uint32_t)self->pid);
    writer_u64(&writer, self->process);
    write_text(&writer, self->name, PEER_NAME_MAX - 1);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

mr_status handshake_hello_decode(span head, peer *out) {
    reader reader = reader_of(head.data, head.size);
    uint32_t protocol = reader_u32(&reader);
    if (!reader.failed && protocol != HANDSHAKE_PROTOCOL)
        return error_set(MR_DENIED, "the peer speaks protocol %u, this program speaks %d: " FORMAT_USE_SAME, protocol,
                         HANDSHAKE_PROTOCOL);
    peer peer = {0};
    uint32_t pid = reader_u32(&reader);
    peer.process = reader_u64(&reader);
    if (!read_text(&reader, peer.name, sizeof peer.name) || peer.process == 0 || pid > INT32_MAX)
        return error_set(MR_CORRUPT, "malformed HELLO of %zu bytes", head.size);
    peer.pid = (int)pid;
    *out = peer;
    return MR_OK;
}

size_t handshake_bye_encode(uint8_t out[HANDSHAKE_BYE_MAX], mr_status status, const char *text) {
    if (status == MR_CLOSED) return 0;
    writer writer = writer_of(out, HANDSHAKE_BYE_MAX);
    writer_u32(&writer, status);
    write_text(&writer, text, CAUSE_TEXT_MAX - 1);
    MR_ASSERT(!writer.failed && status != MR_OK);
    return writer_size(&writer);
}

mr_status handshake_bye_decode(span head, cause *out) {
    if (head.size == 0) {
        cause_set(out, MR_CLOSED, "the peer closed the link (status %s)", mr_status_name(MR_CLOSED));
        return MR_OK;
    }
    reader reader = reader_of(head.data, head.size);
    char text[CAUSE_TEXT_MAX];
    mr_status status = (mr_status)reader_u32(&reader);
    if (!read_text(&reader, text, sizeof text) || status == MR_OK || status == MR_CLOSED ||
        strcmp(mr_status_name(status), "UNKNOWN") == 0)
        return error_set(MR_CORRUPT, "malformed BYE of %zu bytes", head.size);
    cause_set(out, status, "the peer ended the link: %.130s", text);
    return MR_OK;
}
