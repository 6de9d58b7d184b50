/* memory.c — see memory.h. */
#include "runtime/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "miniray/node.h"

enum { LINE = 512 };

/* The first number in a file; `missing` where there is none, or it says "max". */
static uint64_t number_in(const char *path, uint64_t missing) {
    unsigned long long number;
    FILE *file = fopen(path, "re");
    if (file == NULL) return missing;
    if (fscanf(file, "%llu", &number) != 1) number = missing;
    fclose(file);
    return number;
}

static uint64_t installed(const char *proc) {
    char path[LINE], line[LINE];
    unsigned long long kilobytes = 0;
    snprintf(path, sizeof path, "%.200s/meminfo", proc);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemTotal: %llu", &kilobytes) == 1) break;
    if (file != NULL) fclose(file);
    return kilobytes * 1024;
}

/* The least limit of the group at that path and of those above it. */
static uint64_t limit_of(const char *groups, char *group) {
    uint64_t least = UINT64_MAX;
    for (;;) {
        char path[2 * LINE];
        snprintf(path, sizeof path, "%.200s%s/memory.max", groups, group);
        uint64_t limit = number_in(path, UINT64_MAX);
        if (limit < least) least = limit;
        char *slash = strrchr(group, '/');
        if (slash == NULL) return least;
        *slash = '\0';
    }
}

static uint64_t allowed(const char *proc, const char *groups) {
    char path[LINE], line[LINE], root[] = "";
    uint64_t least = limit_of(groups, root);
    snprintf(path, sizeof path, "%.200s/memory/memory.limit_in_bytes", groups); /* of the older hierarchy */
    uint64_t older = number_in(path, UINT64_MAX);
    if (older < least) least = older;
    snprintf(path, sizeof path, "%.200s/self/cgroup", proc);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "0::/", 4) != 0) continue;
        line[strcspn(line, "\n")] = '\0';
        uint64_t limit = limit_of(groups, line + 3);
        if (limit < least) least = limit;
    }
    if (file != NULL) fclose(file);
    return least;
}

uint64_t memory_of_machine(const char *proc, const char *groups) {
    uint64_t has = installed(proc), may = allowed(proc, groups);
    return may < has || has == 0 ? (may == UINT64_MAX ? 0 : may) : has;
}

uint64_t memory_store_bytes(uint64_t machine) {
    uint64_t megabytes = (machine >> 20) * MEMORY_STORE_PERCENT / 100;
    return megabytes << 20 > MEMORY_STORE_LEAST ? megabytes << 20 : MEMORY_STORE_LEAST;
}

/* Every process maps the store twice, so an address space with a limit bounds it as memory does. */
size_t mr_store_bytes_default(void) {
    uint64_t machine = memory_of_machine("/proc", "/sys/fs/cgroup");
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur < machine) machine = space.rlim_cur;
    return (size_t)memory_store_bytes(machine);
}
