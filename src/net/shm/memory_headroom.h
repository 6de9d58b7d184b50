/* memory_headroom.h — memory that this process may use in all, and memory available before the kernel has to reclaim,
 * cgroups included.
 *
 * Each is the least of what the machine has (MemTotal, MemAvailable) and of what each memory cgroup allows, from this
 * process's own one up to the root, version 1 and 2; file cache that a cgroup can drop at once counts as left. Nothing
 * of it is reserved: it is a look, taken again before each range of the arena is backed. */
#pragma once
#include <stdint.h>

#define MEMORY_HEADROOM_UNKNOWN UINT64_MAX /* no limit could be read */

uint64_t memory_headroom_bytes(void); /* left */
uint64_t memory_headroom_total(void); /* in all */

/* The same, read from other folders than /proc and /sys/fs/cgroup. */
uint64_t memory_headroom_at(const char *proc, const char *cgroup);
uint64_t memory_headroom_total_at(const char *proc, const char *cgroup);
