/* plural.h — the end of a counted noun in a text: "%u server%s", count, plural(count). Pure. */
#pragma once
#include <stdint.h>

static inline const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }
