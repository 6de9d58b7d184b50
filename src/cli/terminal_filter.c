/* terminal_filter.c — see terminal_filter.h. Tested by src/cli/miniray_test.c. */
#include "cli/terminal_filter.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CHARACTER_MAX = 4, ESCAPED_MAX = 6, PIECE = 4096 };

typedef struct filter {
    int fd;
    uint8_t begun[CHARACTER_MAX]; /* the first bytes of a character, from the last write */
    size_t begun_size;
} filter;

static bool write_all(int fd, const char *text, size_t size) {
    while (size > 0) {
        ssize_t written = write(fd, text, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        text += written;
        size -= (size_t)written;
    }
    return true;
}

/* Length of the character that begins here; 0: the bytes are not UTF-8; -1: more bytes are needed. */
static int length_of(const uint8_t *at, size_t size, uint32_t *code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int length = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if (length <= 1) return *code = at[0], length;
    *code = at[0] & (0xffu >> (length + 1));
    for (int i = 1; i < length; i++) {
        if ((size_t)i == size) return -1;
        if ((at[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (at[i] & 0x3f);
    }
    bool surrogate = *code >= 0xd800 && *code < 0xe000;
    return *code < least[length] || *code > 0x10ffff || surrogate ? 0 : length;
}

static bool is_harmful(uint32_t code) {
    bool control = (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7f && code < 0xa0);
    bool direction = code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
                     (code >= 0x2066 && code <= 0x2069);
    return control || direction;
}

/* Writes the bytes, and keeps the begin of a character at their end. */
static bool put(filter *filter, const uint8_t *at, size_t size) {
    char out[PIECE + ESCAPED_MAX];
    size_t used = 0;
    while (size > 0) {
        uint32_t code;
        int length = length_of(at, size, &code);
        if (length < 0) {
            memcpy(filter->begun, at, size);
            filter->begun_size = size;
            break;
        }
        if (length == 0)
            used += (size_t)sprintf(out + used, "\\x%02x", at[0]);
        else if (is_harmful(code))
            used += (size_t)sprintf(out + used, "\\u%04x", (unsigned)code);
        else
            for (int i = 0; i < length; i++) out[used++] = (char)at[i];
        at += length == 0 ? 1 : length;
        size -= length == 0 ? 1 : (size_t)length;
        if (used < PIECE) continue;
        if (!write_all(filter->fd, out, used)) return false;
        used = 0;
    }
    return write_all(filter->fd, out, used);
}

static ssize_t on_write(void *cookie, const char *bytes, size_t size) {
    filter *filter = cookie;
    const uint8_t *at = (const uint8_t *)bytes;
    size_t left = size;
    if (filter->begun_size > 0) { /* the next bytes complete the character, or show that it is none */
        uint8_t joined[2 * CHARACTER_MAX];
        size_t before = filter->begun_size, more = left < CHARACTER_MAX ? left : CHARACTER_MAX;
        uint32_t code;
        memcpy(joined, filter->begun, before);
        memcpy(joined + before, at, more);
        int length = length_of(joined, before + more, &code);
        size_t taken = length > (int)before ? (size_t)length - before : length < 0 ? more : 0;
        filter->begun_size = 0;
        if (!put(filter, joined, before + taken)) return 0;
        at += taken;
        left -= taken;
    }
    return put(filter, at, left) ? (ssize_t)size : 0;
}

static int on_close(void *cookie) {
    filter *filter = cookie;
    size_t size = filter->begun_size;
    char text[CHARACTER_MAX * ESCAPED_MAX];
    int used = 0;
    for (size_t i = 0; i < size; i++) used += sprintf(text + used, "\\x%02x", filter->begun[i]);
    bool good = write_all(filter->fd, text, (size_t)used);
    return close(filter->fd) == 0 && good ? 0 : EOF;
}

static FILE *open_filter(int fd, int mode, FILE *otherwise) {
    static filter filters[STDERR_FILENO + 1];
    filters[fd] = (filter){.fd = fd};
    FILE *stream = fopencookie(&filters[fd], "w", (cookie_io_functions_t){.write = on_write, .close = on_close});
    if (stream == NULL) return otherwise;
    setvbuf(stream, NULL, mode, BUFSIZ);
    return stream;
}

void terminal_filter_install(void) {
    stdout = open_filter(STDOUT_FILENO, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, stdout);
    stderr = open_filter(STDERR_FILENO, _IOLBF, stderr);
}
