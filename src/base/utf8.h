/* utf8.h — one character of UTF-8, as Unicode defines it and Python's str demands it: no overlong forms, no surrogates,
 * nothing above U+10FFFF. net/value_utf8_test.c tries every code point. */
#pragma once
#include "base/bytes.h"

/* Length of the character at the front of the non-empty text; 0: the text does not begin with a character. */
static inline size_t utf8_length(span text) {
    const uint8_t *at = text.data;
    uint8_t lead = at[0], low = 0x80, high = 0xbf; /* bounds of the second byte */
    size_t length;
    if (lead < 0x80) return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        length = 2;
    else if (lead >= 0xe0 && lead <= 0xef)
        length = 3;
    else if (lead >= 0xf0 && lead <= 0xf4)
        length = 4;
    else
        return 0;
    if (lead == 0xe0) low = 0xa0;  /* lower ones are overlong */
    if (lead == 0xed) high = 0x9f; /* higher ones are surrogates */
    if (lead == 0xf0) low = 0x90;  /* lower ones are overlong */
    if (lead == 0xf4) high = 0x8f; /* higher ones are above U+10FFFF */
    if (length > text.size || at[1] < low || at[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    return length;
}
