/* memory_headroom.h — total memory that this process may use, memory available before the kernel must reclaim, and the
 * tightest limit, with cgroups.
 *
 * Total and available are each the minimum of the machine's value (MemTotal, MemAvailable) and of the limits of each
 * memory cgroup, from this process's own up to the root, version 1 and 2; file cache that a cgroup can drop at once
 * counts as available. Nothing is reserved: the values are read again before each range of the arena is backed. */
#pragma once
#include <stdint.h>

#define MEMORY_HEADROOM_UNKNOWN UINT64_MAX /* no limit could be read */

typedef struct memory_headroom {
    uint64_t total, available; /* in bytes, or MEMORY_HEADROOM_UNKNOWN */
    uint64_t used, limit;      /* of the machine or cgroup of which the largest share is used; limit 0: not known */
} memory_headroom;

memory_headroom memory_headroom_now(void);
uint64_t memory_headroom_bytes(void); /* available */
uint64_t memory_headroom_total(void); /* total */

/* The same, read from directories other than /proc and /sys/fs/cgroup. */
memory_headroom memory_headroom_at(const char *proc, const char *cgroup);
