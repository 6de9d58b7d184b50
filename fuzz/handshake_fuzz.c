/* handshake_fuzz.c — the head of a HELLO or a BYE as arbitrary bytes; the first byte selects which. A HELLO that
 * decodes is encoded to the same bytes, and the texts of both can be printed. */
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
    peer peer;
    mr_status status = handshake_hello_decode(head, &peer);
    if (status != MR_OK) {
        MR_ASSERT((status == MR_CORRUPT || status == MR_DENIED) && mr_last_error()[0] != '\0');
        return;
    }
    expect_printable(peer.name, sizeof peer.name);
    MR_ASSERT(peer.process != 0 && peer.pid >= 0);
    MR_ASSERT(handshake_hello_encode(again, &peer) == head.size && memcmp(again, head.data, head.size) == 0);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    span head = span_of(data + 1, size - 1);
    if (data[0] % 2 == 0)
        try_hello(head);
    else
        try_bye(head);
    return 0;
}
