/* text_file.h — small text files of the kernel with numbers (/proc, cgroups). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the first size - 1 bytes of the file and appends a NUL. Returns false if the file is unreadable or empty. */
bool text_file_read(const char *path, char *out, size_t size);

/* The number after `key` at the beginning of a line. Returns false if no line has one. */
bool text_file_number(const char *text, const char *key, uint64_t *out);
