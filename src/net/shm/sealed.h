/* sealed.h — memory that is passed to another process and cannot shrink or grow under it: a memfd of a fixed size. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

int sealed_create(const char *name, uint64_t size); /* the caller's, closed on exec; -1 with errno */
bool sealed_read_size(int fd, uint64_t *size);      /* of what was passed; false: it is no such memory */
