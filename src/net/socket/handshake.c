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

size_t handshake_hello_encode(uint8_t out[HANDSHAKE_HELLO_MAX], const handshake_hello *hello) {
    writer writer = writer_of(out, HANDSHAKE_HELLO_MAX);
    writer_u32(&writer, HANDSHAKE_PROTOCOL);
    writer_u32(&writer, (uint32_t)hello->peer.pid);
    writer_u64(&writer, hello->peer.process);
    writer_bytes(&writer, hello->nonce, sizeof hello->nonce);
    write_text(&writer, hello->peer.name, PEER_NAME_MAX - 1);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

mr_status handshake_hello_decode(span head, handshake_hello *out) {
    reader reader = reader_of(head.data, head.size);
    uint32_t protocol = reader_u32(&reader);
    if (!reader.failed && protocol != HANDSHAKE_PROTOCOL)
        return error_set(MR_DENIED, "the peer speaks protocol %u, this program speaks %d: " FORMAT_USE_SAME, protocol,
                         HANDSHAKE_PROTOCOL);
    handshake_hello hello = {0};
    uint32_t pid = reader_u32(&reader);
    hello.peer.process = reader_u64(&reader);
    const uint8_t *nonce = reader_bytes(&reader, sizeof hello.nonce);
    if (!read_text(&reader, hello.peer.name, sizeof hello.peer.name) || hello.peer.process == 0 || pid > INT32_MAX)
        return error_set(MR_CORRUPT, "malformed HELLO of %zu bytes", head.size);
    memcpy(hello.nonce, nonce, sizeof hello.nonce);
    hello.peer.pid = (int)pid;
    *out = hello;
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

/* ---- One side. */

static const char *const labels[] = {
    [HANDSHAKE_INITIATOR] = "miniray proof of the initiator", [HANDSHAKE_ACCEPTOR] = "miniray proof of the acceptor"};

static mr_status prove(const handshake *handshake, handshake_side side, uint8_t out[HMAC_SIZE]) {
    uint8_t bytes[40 + 4 + ADDRESS_TEXT_MAX + 2 * (4 + HANDSHAKE_HELLO_MAX)];
    writer writer = writer_of(bytes, sizeof bytes);
    writer_bytes(&writer, labels[side], strlen(labels[side]) + 1);
    writer_span32(&writer, span_of(handshake->address, strlen(handshake->address)));
    for (int i = 0; i < 2; i++) writer_span32(&writer, span_of(handshake->hellos[i], handshake->hello_sizes[i]));
    MR_ASSERT(!writer.failed);
    return hmac_sign(handshake->hmac, span_of(handshake->token.bytes, TOKEN_SIZE), span_of(bytes, writer_size(&writer)),
                     out);
}

void handshake_init(handshake *handshake, handshake_side side, const handshake_hello *own, const hmac *hmac,
                    const token *token, const address *acceptor) {
    *handshake = (struct handshake){.side = side, .hmac = hmac};
    if (hmac != NULL) handshake->token = *token;
    address_format(acceptor, handshake->address);
    handshake->hello_sizes[side] = handshake_hello_encode(handshake->hellos[side], own);
}

void handshake_fini(handshake *handshake) { explicit_bzero(handshake, sizeof *handshake); }

static mr_status take_hello(handshake *handshake, span head, handshake_answer *out) {
    handshake_side other = handshake->side == HANDSHAKE_INITIATOR ? HANDSHAKE_ACCEPTOR : HANDSHAKE_INITIATOR;
    handshake_hello hello;
    MR_TRY(handshake_hello_decode(head, &hello));
    handshake->peer = hello.peer;
    memcpy(handshake->hellos[other], head.data, head.size);
    handshake->hello_sizes[other] = head.size;
    out->hello = handshake->side == HANDSHAKE_ACCEPTOR;
    handshake->state = handshake->hmac == NULL ? HANDSHAKE_OPEN : HANDSHAKE_PROVES;
    if (handshake->hmac == NULL || handshake->side == HANDSHAKE_ACCEPTOR) return MR_OK;
    out->proof = true;
    return prove(handshake, HANDSHAKE_INITIATOR, out->bytes);
}

static mr_status take_proof(handshake *handshake, span head, handshake_answer *out) {
    uint8_t expected[HMAC_SIZE];
    bool accepts = handshake->side == HANDSHAKE_ACCEPTOR;
    if (head.size != HMAC_SIZE)
        return error_set(MR_CORRUPT, "malformed PROOF of %zu bytes; expected %d", head.size, HMAC_SIZE);
    MR_TRY(prove(handshake, accepts ? HANDSHAKE_INITIATOR : HANDSHAKE_ACCEPTOR, expected));
    if (!hmac_is_equal(handshake->hmac, expected, head.data))
        return error_set(MR_DENIED,
                         "%s at %s does not have this process's token: set " TOKEN_VARIABLE " of both to the file "
                         "`token` in the scheduler's checkpoint directory",
                         accepts ? "the process that connects" : "the process that listens", handshake->address);
    handshake->state = HANDSHAKE_OPEN;
    if (!accepts) return MR_OK;
    out->proof = true;
    return prove(handshake, HANDSHAKE_ACCEPTOR, out->bytes);
}

mr_status handshake_take(handshake *handshake, frame_kind kind, span head, handshake_answer *out) {
    *out = (handshake_answer){0};
    if (kind == FRAME_HELLO && handshake->state == HANDSHAKE_GREETS) return take_hello(handshake, head, out);
    if (kind == FRAME_PROOF && handshake->state == HANDSHAKE_PROVES) return take_proof(handshake, head, out);
    return error_set(MR_CORRUPT, "a %s frame %s", frame_kind_name(kind),
                     handshake->state == HANDSHAKE_GREETS   ? "before HELLO"
                     : handshake->state == HANDSHAKE_PROVES ? "after HELLO, before PROOF"
                                                            : "after the handshake");
}
