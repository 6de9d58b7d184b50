/* oom.c — see oom.h. */
#include "runtime/node/oom.h"

#include <stdio.h>
#include <string.h>

#include "base/text_file.h"

enum { TEXT = 16384, PATH = 4096 };

static bool add_kills(const char *path, uint64_t *count) {
    char text[TEXT];
    uint64_t kills;
    if (!text_file_read(path, text, sizeof text) || !text_file_number(text, "oom_kill ", &kills)) return false;
    *count += kills;
    return true;
}

/* Adds the kills in this process's control group of the unified hierarchy: the line "0::/path". */
static bool add_group(const char *proc, const char *groups, uint64_t *count) {
    char text[TEXT], path[PATH], *rest = text;
    bool there = false;
    snprintf(path, sizeof path, "%.200s/self/cgroup", proc);
    if (!text_file_read(path, text, sizeof text)) return false;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (strncmp(line, "0::/", 4) != 0) continue;
        snprintf(path, sizeof path, "%.200s%.512s/memory.events", groups, line + 3);
        there |= add_kills(path, count);
    }
    return there;
}

bool oom_count_in(const char *proc, const char *groups, uint64_t *out) {
    char path[PATH];
    *out = 0;
    snprintf(path, sizeof path, "%.200s/vmstat", proc);
    bool group = add_group(proc, groups, out), machine = add_kills(path, out);
    return group || machine;
}

bool oom_count(uint64_t *out) { return oom_count_in("/proc", "/sys/fs/cgroup", out); }
