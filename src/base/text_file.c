/* text_file.c — see text_file.h. */
#include "base/text_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool text_file_read(const char *path, char *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t used = 0;
    ssize_t got;
    while (used + 1 < size && (got = read(fd, out + used, size - 1 - used)) > 0) used += (size_t)got;
    close(fd);
    out[used] = '\0';
    return used > 0;
}

bool text_file_number(const char *text, const char *key, uint64_t *out) {
    size_t length = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, key, length) != 0) continue;
        char *end;
        *out = strtoull(line + length, &end, 10);
        return end != line + length;
    }
    return false;
}
