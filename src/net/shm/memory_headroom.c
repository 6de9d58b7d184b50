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

/* Adds the limit, the headroom and the usage of one memory, the machine or a cgroup. */
static void add(memory_headroom *all, uint64_t limit, uint64_t used) {
    uint64_t left = limit > used ? limit - used : 0;
    if (limit < all->total) all->total = limit;
    if (left < all->available) all->available = left;
    bool tighter = all->limit == 0 || (double)used / (double)limit > (double)all->used / (double)all->limit;
    if (limit == 0 || !tighter) return;
    all->limit = limit;
    all->used = used;
}

static void add_group(const char *folder, const controller *controller, memory_headroom *all) {
    uint64_t limit, used, droppable = 0;
    if (!read_number(folder, controller->limit, &limit)) return;
    if (!read_number(folder, controller->usage, &used)) {
        if (limit < all->total) all->total = limit;
        return;
    }
    char path[PATH_TEXT_MAX + 64], text[FILE_TEXT_MAX];
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (text_file_read(path, text, sizeof text)) (void)text_file_number(text, controller->droppable, &droppable);
    add(all, limit, used - (droppable < used ? droppable : used));
}

/* Adds mount/path and its parents up to the mount. In a container `path` may belong to the host and be invisible: then
 * only existing directories count, and the mount is the container's own group. */
static void add_up_to(const char *mount, const char *path, const controller *controller, memory_headroom *all) {
    char folder[PATH_TEXT_MAX];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, path);
    if (length < 0 || (size_t)length >= sizeof folder) return;
    for (size_t root = strlen(mount);;) {
        add_group(folder, controller, all);
        char *slash = strrchr(folder + root, '/');
        if (slash == NULL) return;
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
static void add_line(const char *cgroup, char *line, memory_headroom *all) {
    char *controllers = strchr(line, ':');
    char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (path == NULL) return;
    path++;
    char mount[PATH_TEXT_MAX];
    if (controllers[1] != ':') {
        if (!names_memory(controllers + 1)) return;
        snprintf(mount, sizeof mount, "%s/memory", cgroup);
        add_up_to(mount, path, &version_1, all);
        return;
    }
    snprintf(mount, sizeof mount, "%s/unified", cgroup); /* if both versions are mounted */
    add_up_to(mount, path, &version_2, all);
    add_up_to(cgroup, path, &version_2, all);
}

memory_headroom memory_headroom_at(const char *proc, const char *cgroup) {
    char path[PATH_TEXT_MAX], text[FILE_TEXT_MAX];
    memory_headroom all = {.total = MEMORY_HEADROOM_UNKNOWN, .available = MEMORY_HEADROOM_UNKNOWN};
    uint64_t total, available;
    snprintf(path, sizeof path, "%s/meminfo", proc);
    if (text_file_read(path, text, sizeof text) && text_file_number(text, "MemTotal:", &total) &&
        text_file_number(text, "MemAvailable:", &available))
        add(&all, total * 1024, available < total ? (total - available) * 1024 : 0);
    snprintf(path, sizeof path, "%s/self/cgroup", proc);
    if (!text_file_read(path, text, sizeof text)) return all;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) != NULL) add_line(cgroup, line, &all);
    return all;
}

memory_headroom memory_headroom_now(void) { return memory_headroom_at("/proc", "/sys/fs/cgroup"); }
uint64_t memory_headroom_bytes(void) { return memory_headroom_now().available; }
uint64_t memory_headroom_total(void) { return memory_headroom_now().total; }
