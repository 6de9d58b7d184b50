/* cpu_limit.c — see cpu_limit.h.
 *
 *   version   file                                     content of 1.5 CPUs     no limit
 *   -------   --------------------------------------   ---------------------   --------
 *   1         cpu.cfs_quota_us, cpu.cfs_period_us      150000, 100000          -1
 *   2         cpu.max                                  150000 100000           max 100000 */
#include "base/cpu_limit.h"

#include <math.h>
#include <stdio.h>

#include "base/cgroup.h"
#include "base/cpu.h"
#include "base/text_file.h"

enum { PATH_TEXT_MAX = 4096 + 64, NUMBER_TEXT_MAX = 64 };

static bool read_text(const char *folder, const char *file, char *out) {
    char path[PATH_TEXT_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return text_file_read(path, out, NUMBER_TEXT_MAX);
}

static bool quota_of(const char *folder, int version, double *cpus) {
    char quota_text[NUMBER_TEXT_MAX], period_text[NUMBER_TEXT_MAX];
    long long quota, period;
    if (version == 2) {
        if (!read_text(folder, "cpu.max", quota_text) || sscanf(quota_text, "%lld %lld", &quota, &period) != 2)
            return false;
    } else {
        if (!read_text(folder, "cpu.cfs_quota_us", quota_text) || sscanf(quota_text, "%lld", &quota) != 1) return false;
        if (!read_text(folder, "cpu.cfs_period_us", period_text) || sscanf(period_text, "%lld", &period) != 1)
            return false;
    }
    if (quota <= 0 || period <= 0) return false;
    *cpus = (double)quota / (double)period;
    return true;
}

static bool take_smaller(void *context, const char *folder, int version) {
    double *least = context, cpus;
    if (quota_of(folder, version, &cpus) && cpus < *least) *least = cpus;
    return true;
}

bool cpu_limit_quota_in(const char *proc, const char *mount, double *cpus) {
    double least = INFINITY;
    cgroup_walk_in(proc, mount, "cpu", take_smaller, &least);
    if (!isfinite(least)) return false;
    *cpus = least;
    return true;
}

bool cpu_limit_quota(double *cpus) { return cpu_limit_quota_in("/proc", "/sys/fs/cgroup", cpus); }

uint32_t cpu_limit_count(void) {
    uint32_t count = cpu_count();
    double quota;
    if (!cpu_limit_quota(&quota) || ceil(quota) >= count) return count;
    return (uint32_t)ceil(quota);
}
