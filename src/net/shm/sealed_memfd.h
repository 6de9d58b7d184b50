/* sealed_memfd.h — sealed memfd of a fixed size: memory that neither this nor another process can shrink or grow. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

int sealed_memfd_create(const char *name, uint64_t size); /* the caller owns it; close-on-exec; -1 with errno */
bool sealed_memfd_read_size(int fd, uint64_t *size);      /* of a received fd; false: not a sealed memfd */
