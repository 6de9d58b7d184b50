/* memory_limit.h — default size of the object store: a share of the memory that this process may still use.
 *
 * On a machine whose memory is in use already the store is small, rather than too large to start. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { MEMORY_LIMIT_STORE_PERCENT = 30 };
#define MEMORY_LIMIT_STORE_LEAST   (UINT64_C(64) << 20)
#define MEMORY_LIMIT_STORE_OPTIONS "object_store_memory (Python), store_bytes (C) or MINIRAY_ARENA_BYTES"

typedef struct memory_limit_share {
    uint64_t bytes; /* whole megabytes, at least MEMORY_LIMIT_STORE_LEAST */
    bool small;     /* less than a quarter of the share on an idle machine */
} memory_limit_share;

/* `total` and `available` as in memory_headroom.h, including MEMORY_HEADROOM_UNKNOWN. */
memory_limit_share memory_limit_share_of(uint64_t total, uint64_t available);

uint64_t memory_limit_store_bytes(void); /* of this process; logs a warning if it is small */
