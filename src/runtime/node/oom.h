/* oom.h — count of processes that the kernel's OOM killer has ended. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Number of such kills so far that this process can see: in its control group, and on the machine. False: neither is
 * readable. */
bool oom_count(uint64_t *out);
/* The same, with other directories than /proc and /sys/fs/cgroup. */
bool oom_count_in(const char *proc, const char *groups, uint64_t *out);
