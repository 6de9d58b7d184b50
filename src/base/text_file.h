/* text_file.h — small text files of the kernel with numbers (/proc, cgroups). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first size - 1 bytes of the file, with a NUL behind them. False: it cannot be read, or is empty. */
bool text_file_read(const char *path, char *out, size_t size);

/* The number behind `key`, which stands at the beginning of a line. False: no line has such a number. */
bool text_file_number(const char *text, const char *key, uint64_t *out);
