/* headroom.h — how much more memory this process may fill before the kernel has to take it from somebody.
 *
 * The least of what the machine has available (MemAvailable) and of what each memory cgroup has left, from this
 * process's own one up to the root, version 1 and 2; file cache that a cgroup can drop at once counts as left. Nothing
 * of it is reserved: it is a look, taken again before each stretch of the arena is backed. */
#pragma once
#include <stdint.h>

#define HEADROOM_UNKNOWN UINT64_MAX /* no limit could be read */

uint64_t headroom_bytes(void);

/* The same, read from other folders than /proc and /sys/fs/cgroup. */
uint64_t headroom_at(const char *proc, const char *cgroup);
