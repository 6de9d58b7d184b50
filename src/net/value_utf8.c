/* value_utf8.c — see value_utf8.h. Most text is ASCII: it passes 32 bytes at a time. */
#include "net/value_utf8.h"

#include <string.h>

/* The length of the sequence that begins here, or 0 if it is none. */
static size_t sequence(const uint8_t *at, size_t left) {
    uint8_t low = 0x80, high = 0xbf; /* what the second byte may be */
    size_t size;
    if (at[0] >= 0xc2 && at[0] <= 0xdf)
        size = 2;
    else if (at[0] >= 0xe0 && at[0] <= 0xef)
        size = 3;
    else if (at[0] >= 0xf0 && at[0] <= 0xf4)
        size = 4;
    else
        return 0;
    if (left < size) return 0;
    if (at[0] == 0xe0) low = 0xa0;  /* shorter forms exist below */
    if (at[0] == 0xed) high = 0x9f; /* surrogates above */
    if (at[0] == 0xf0) low = 0x90;  /* shorter forms exist below */
    if (at[0] == 0xf4) high = 0x8f; /* above U+10FFFF */
    if (at[1] < low || at[1] > high) return 0;
    for (size_t i = 2; i < size; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    return size;
}

/* How many of the bytes from here on are ASCII, in whole blocks. */
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
    size_t at = 0;
    while (at < text.size) {
        if (text.data[at] >= 0x80) {
            size_t size = sequence(text.data + at, text.size - at);
            if (size == 0) return false;
            at += size;
            continue;
        }
        size_t plain = ascii_blocks(text.data + at, text.size - at);
        at += plain ? plain : 1;
    }
    return true;
}
