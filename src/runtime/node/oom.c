/* oom.c — see oom.h. */
#include "runtime/node/oom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 512 };

/* Adds the number behind `key` and a blank; false: there is no such file or line. */
static bool add_count(const char *path, const char *key, uint64_t *count) {
    char line[LINE];
    bool there = false;
    size_t length = strlen(key);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, length) != 0 || line[length] != ' ') continue;
        *count += strtoull(line + length, NULL, 10);
        there = true;
    }
    if (file != NULL) fclose(file);
    return there;
}

/* Of the unified hierarchy: the line "0::/path". */
static bool add_group(const char *proc, const char *groups, uint64_t *count) {
    char line[LINE], path[2 * LINE];
    bool there = false;
    snprintf(path, sizeof path, "%.200s/self/cgroup", proc);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "0::/", 4) != 0) continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(path, sizeof path, "%.200s%s/memory.events", groups, line + 3);
        there |= add_count(path, "oom_kill", count);
    }
    if (file != NULL) fclose(file);
    return there;
}

bool oom_count_in(const char *proc, const char *groups, uint64_t *out) {
    char path[LINE];
    *out = 0;
    snprintf(path, sizeof path, "%.200s/vmstat", proc);
    bool group = add_group(proc, groups, out), machine = add_count(path, "oom_kill", out);
    return group || machine;
}

bool oom_count(uint64_t *out) { return oom_count_in("/proc", "/sys/fs/cgroup", out); }
