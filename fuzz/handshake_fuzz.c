/* handshake_fuzz.c — the first byte selects what the other bytes are: the head of a HELLO, the head of a BYE, or frames
 * that arrive during the handshake of a tcp link at one of its sides, whose author has no token.
 *
 *   a HELLO that decodes is encoded to the same bytes, and the texts of HELLO and BYE can be printed
 *   no sequence of frames opens a link: their author has no token
 *   a frame that is refused changes nothing that a later frame could use */
#include <string.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "net/socket/handshake.h"

static void expect_printable(const char *text, size_t size_max) {
    size_t size = strnlen(text, size_max);
    MR_ASSERT(size < size_max);
    for (size_t i = 0; i < size; i++) MR_ASSERT((uint8_t)text[i] >= 0x20 && text[i] != 0x7f);
}

static void try_hello(span head) {
    uint8_t again[HANDSHAKE_HELLO_MAX];
    handshake_hello hello;
    mr_status status = handshake_hello_decode(head, &hello);
    if (status != MR_OK) {
        MR_ASSERT((status == MR_CORRUPT || status == MR_DENIED) && mr_last_error()[0] != '\0');
        return;
    }
    expect_printable(hello.peer.name, sizeof hello.peer.name);
    MR_ASSERT(hello.peer.process != 0 && hello.peer.pid >= 0);
    MR_ASSERT(handshake_hello_encode(again, &hello) == head.size && memcmp(again, head.data, head.size) == 0);
}

static void try_bye(span head) {
    cause why;
    mr_status status = handshake_bye_decode(head, &why);
    if (status != MR_OK) {
        MR_ASSERT(status == MR_CORRUPT && head.size > 0 && mr_last_error()[0] != '\0');
        return;
    }
    expect_printable(why.text, sizeof why.text);
    MR_ASSERT(why.status != MR_OK && (why.status == MR_CLOSED) == (head.size == 0));
}

/* A frame of the input: a kind, a size, the head. The kind REPEAT is what this side itself sent last: the author of the
 * frames sees that. */
enum { REPEAT = 7 };

static span next_head(reader *reader, uint8_t *kind) {
    *kind = reader_u8(reader) % 8;
    size_t size = reader_u8(reader);
    if (reader->failed) return (span){0};
    if (size > reader_left(reader)) size = reader_left(reader);
    return span_of(reader_bytes(reader, size), size);
}

static void try_frames(handshake_side side, span bytes) {
    handshake_hello own = {.peer = {.process = 5, .pid = 6, .name = "fuzz"}, .nonce = {7, 8, 9}};
    const token token = {{0xa1, 0xb2, 0xc3, 0xd4, 0xe5}};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = 9};
    address address = {.size = sizeof v4, .v4 = v4};
    handshake handshake;
    handshake_answer answer, last = {0};
    hmac *hmac;
    reader reader = reader_of(bytes.data, bytes.size);
    MR_ASSERT(hmac_open(&hmac) == MR_OK);
    handshake_init(&handshake, side, &own, hmac, &token, &address);
    while (!reader.failed) {
        uint8_t kind;
        span head = next_head(&reader, &kind);
        handshake_state before = handshake.state;
        if (kind == REPEAT) head = span_of(last.bytes, last.proof ? sizeof last.bytes : 0);
        mr_status status = handshake_take(&handshake, kind == REPEAT ? FRAME_PROOF : (frame_kind)kind, head, &answer);
        MR_ASSERT(handshake.state != HANDSHAKE_OPEN);
        MR_ASSERT(status == MR_OK || handshake.state == before);
        MR_ASSERT(status == MR_OK ? before == HANDSHAKE_GREETS : mr_last_error()[0] != '\0');
        MR_ASSERT(side == HANDSHAKE_INITIATOR || !answer.proof);
        if (status == MR_OK) last = answer;
    }
    handshake_fini(&handshake);
    hmac_close(hmac);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    span rest = span_of(data + 1, size - 1);
    switch (data[0] % 4) {
    case 0: try_hello(rest); break;
    case 1: try_bye(rest); break;
    case 2: try_frames(HANDSHAKE_INITIATOR, rest); break;
    default: try_frames(HANDSHAKE_ACCEPTOR, rest); break;
    }
    return 0;
}
