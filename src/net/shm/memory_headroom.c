/* memory_headroom.c — see memory_headroom.h. */
#include "net/shm/memory_headroom.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text_file.h"

enum { FILE_TEXT_MAX = 8192, PATH_TEXT_MAX = 4096 };

/* Differences between the two versions of the memory controller. */
typedef struct controller {
    const char *limit, *usage, *droppable;
} controller;

static const controller version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
static const controller version_2 = {"memory.max", "memory.current", "inactive_file "};

static bool read_number(const char *folder, const char *file, uint64_t *out) {
    char path[PATH_TEXT_MAX + 64], text[64];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return text_file_read(path, text, sizeof text) &&
           text_file_number(text, "", out); /* "max" is not a number: no limit */
}

typedef uint64_t group_fn(const char *folder, const controller *controller); /* of one cgroup */

static uint64_t limit_of(const char *folder, const controller *controller) {
    uint64_t limit;
    return read_number(folder, controller->limit, &limit) ? limit : MEMORY_HEADROOM_UNKNOWN;
}

static uint64_t left_in(const char *folder, const controller *controller) {
    uint64_t limit = limit_of(folder, controller), usage, droppable = 0;
    if (limit == MEMORY_HEADROOM_UNKNOWN || !read_number(folder, controller->usage, &usage))
        return MEMORY_HEADROOM_UNKNOWN;
    char path[PATH_TEXT_MAX + 64], text[FILE_TEXT_MAX];
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (text_file_read(path, text, sizeof text)) (void)text_file_number(text, controller->droppable, &droppable);
    usage -= droppable < usage ? droppable : usage;
    return limit > usage ? limit - usage : 0;
}

/* The least value over mount/path and its parents up to the mount. In a container `path` may belong to the host and be
 * invisible: then only existing directories count, and the mount is the container's own group. */
static uint64_t least_up_to(const char *mount, const char *path, const controller *controller, group_fn *read) {
    char folder[PATH_TEXT_MAX];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, path);
    if (length < 0 || (size_t)length >= sizeof folder) return MEMORY_HEADROOM_UNKNOWN;
    uint64_t least = MEMORY_HEADROOM_UNKNOWN;
    for (size_t root = strlen(mount);;) {
        uint64_t found = read(folder, controller);
        if (found < least) least = found;
        char *slash = strrchr(folder + root, '/');
        if (slash == NULL) return least;
        *slash = '\0';
    }
}

static bool names_memory(const char *controllers) {
    for (const char *at = controllers; *at != '\0' && *at != ':';
         at += strcspn(at, ",:") + (at[strcspn(at, ",:")] == ','))
        if (strncmp(at, "memory", 6) == 0 && (at[6] == ',' || at[6] == ':')) return true;
    return false;
}

/* Evaluates a line of /proc/self/cgroup: "number:controllers:path"; version 2 has number 0 and no controllers. */
static uint64_t least_of_line(const char *cgroup, char *line, group_fn *read) {
    char *controllers = strchr(line, ':');
    char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (path == NULL) return MEMORY_HEADROOM_UNKNOWN;
    path++;
    char mount[PATH_TEXT_MAX];
    if (controllers[1] != ':') {
        if (!names_memory(controllers + 1)) return MEMORY_HEADROOM_UNKNOWN;
        snprintf(mount, sizeof mount, "%s/memory", cgroup);
        return least_up_to(mount, path, &version_1, read);
    }
    snprintf(mount, sizeof mount, "%s/unified", cgroup); /* if both versions are mounted */
    uint64_t mixed = least_up_to(mount, path, &version_2, read), pure = least_up_to(cgroup, path, &version_2, read);
    return mixed < pure ? mixed : pure;
}

static uint64_t least_of_all(const char *proc, const char *cgroup, const char *machine, group_fn *read) {
    char path[PATH_TEXT_MAX], text[FILE_TEXT_MAX];
    uint64_t least = MEMORY_HEADROOM_UNKNOWN, kilobytes;
    snprintf(path, sizeof path, "%s/meminfo", proc);
    if (text_file_read(path, text, sizeof text) && text_file_number(text, machine, &kilobytes))
        least = kilobytes * 1024;
    snprintf(path, sizeof path, "%s/self/cgroup", proc);
    if (!text_file_read(path, text, sizeof text)) return least;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        uint64_t found = least_of_line(cgroup, line, read);
        if (found < least) least = found;
    }
    return least;
}

uint64_t memory_headroom_at(const char *proc, const char *cgroup) {
    return least_of_all(proc, cgroup, "MemAvailable:", left_in);
}
uint64_t memory_headroom_total_at(const char *proc, const char *cgroup) {
    return least_of_all(proc, cgroup, "MemTotal:", limit_of);
}

uint64_t memory_headroom_bytes(void) { return memory_headroom_at("/proc", "/sys/fs/cgroup"); }
uint64_t memory_headroom_total(void) { return memory_headroom_total_at("/proc", "/sys/fs/cgroup"); }
