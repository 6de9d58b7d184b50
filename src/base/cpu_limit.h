/* cpu_limit.h — CPUs that this process may use: those of its affinity mask, at most the quota of its control groups.
 *
 * A container with a limit of 1.5 CPUs on a machine of 64 sees all 64, and each thread beyond two only waits for the
 * quota. The limit is rounded up: 1.5 CPUs are 2. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* At least 1. Reads files: for options and sizes, not for hot paths. */
uint32_t cpu_limit_count(void);

/* The smallest quota of the groups around this process, in CPUs. Returns false if no group has one. */
bool cpu_limit_quota(double *cpus);
/* The same with other directories than /proc and /sys/fs/cgroup. */
bool cpu_limit_quota_in(const char *proc, const char *mount, double *cpus);
