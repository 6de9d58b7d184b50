/* elide.c — see elide.h. */
#include "base/elide.h"

#include <stdbool.h>
#include <string.h>

static const char mark[] = " ... ";
enum { MARK_SIZE = sizeof mark - 1, ELIDED_MIN = 8 * MARK_SIZE };

static bool is_inside(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; } /* of a UTF-8 character */

static size_t copy(char *out, const char *text, size_t length) {
    memcpy(out, text, length);
    return length;
}

static size_t copy_begin(char *out, const char *text, size_t room) {
    while (room > 0 && is_inside(text[room])) room--;
    return copy(out, text, room);
}

static size_t copy_end(char *out, const char *text, size_t length, size_t room) {
    size_t from = length - room;
    while (from < length && is_inside(text[from])) from++;
    return copy(out, text + from, length - from);
}

size_t elide(const char *text, size_t length, char *out, size_t size) {
    if (size == 0) return 0;
    size_t room = size - 1, used;
    if (length <= room) {
        used = copy(out, text, length);
    } else if (room < ELIDED_MIN) {
        used = copy_begin(out, text, room);
    } else {
        used = copy_begin(out, text, room / 4);
        used += copy(out + used, mark, MARK_SIZE);
        used += copy_end(out + used, text, length, room - used);
    }
    out[used] = '\0';
    return used;
}
