/* oom.c — see oom.h. */
#include "runtime/node/oom.h"

#include "base/cgroup.h"
#include "base/text_file.h"
#include <stdio.h>

enum { TEXT = 16384, PATH = 4096 };

static bool add_kills(const char *path, uint64_t *count) {
    char text[TEXT];
    uint64_t kills;
    if (!text_file_read(path, text, sizeof text) || !text_file_number(text, "oom_kill ", &kills)) return false;
    *count += kills;
    return true;
}

typedef struct group_kills {
    bool found;
    uint64_t count;
} group_kills;

/* The first group of version 2 that counts kills: its number includes the groups below it. */
static bool take_group(void *context, const char *folder, int version) {
    group_kills *kills = context;
    char path[PATH];
    snprintf(path, sizeof path, "%.4000s/memory.events", folder);
    kills->found = version == 2 && add_kills(path, &kills->count);
    return !kills->found;
}

bool oom_count_in(const char *proc, const char *groups, uint64_t *out) {
    char path[PATH];
    snprintf(path, sizeof path, "%.200s/vmstat", proc);
    group_kills group = {0};
    cgroup_walk_in(proc, groups, "memory", take_group, &group);
    *out = group.count;
    return add_kills(path, out) || group.found;
}

bool oom_count(uint64_t *out) { return oom_count_in("/proc", "/sys/fs/cgroup", out); }
