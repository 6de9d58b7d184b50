/* oom.c — see oom.h. */
#include "runtime/oom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 512 };

/* The number behind `key` and a blank; 0 where there is no such file or line. */
static uint64_t read_count(const char *path, const char *key) {
    char line[LINE];
    uint64_t count = 0;
    size_t length = strlen(key);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, length) == 0 && line[length] == ' ') count = strtoull(line + length, NULL, 10);
    if (file != NULL) fclose(file);
    return count;
}

/* Of the unified hierarchy: the line "0::/path". */
static uint64_t count_of_group(void) {
    char line[LINE], path[LINE + 64];
    uint64_t count = 0;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "0::/", 4) != 0) continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.events", line + 3);
        count = read_count(path, "oom_kill");
    }
    if (file != NULL) fclose(file);
    return count;
}

uint64_t oom_count(void) { return count_of_group() + read_count("/proc/vmstat", "oom_kill"); }
