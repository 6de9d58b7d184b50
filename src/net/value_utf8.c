/* value_utf8.c — see value_utf8.h. Fast path for ASCII: 32 bytes at a time. */
#include "net/value_utf8.h"

#include <string.h>

#include "base/utf8.h"

/* Number of leading ASCII bytes, in whole blocks. */
static size_t ascii_blocks(const uint8_t *at, size_t left) {
    size_t size = 0;
    uint64_t block[4];
    for (; left - size >= sizeof block; size += sizeof block) {
        memcpy(block, at + size, sizeof block);
        if (((block[0] | block[1] | block[2] | block[3]) & UINT64_C(0x8080808080808080)) != 0) break;
    }
    return size;
}

bool value_utf8_valid(span text) {
    for (size_t at = 0; at < text.size;) {
        at += ascii_blocks(text.data + at, text.size - at);
        while (at < text.size && text.data[at] < 0x80) at++;
        if (at == text.size) return true;
        size_t size = utf8_length(span_of(text.data + at, text.size - at));
        if (size == 0) return false;
        at += size;
    }
    return true;
}
