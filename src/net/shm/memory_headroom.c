/* memory_headroom.c — see memory_headroom.h. */
#include "net/shm/memory_headroom.h"

#include <stdio.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/text_file.h"

enum { FILE_TEXT_MAX = 8192, PATH_TEXT_MAX = 4200 };

/* Differences between the two versions of the memory controller. */
typedef struct controller {
    const char *limit, *usage, *droppable;
} controller;

static const controller version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
static const controller version_2 = {"memory.max", "memory.current", "inactive_file "};

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

static bool add_group(void *context, const char *folder, int version) {
    memory_headroom *all = context;
    const controller *controller = version == 1 ? &version_1 : &version_2;
    uint64_t limit, used, droppable = 0;
    if (!cgroup_number(folder, controller->limit, &limit)) return true;
    if (!cgroup_number(folder, controller->usage, &used)) {
        if (limit < all->total) all->total = limit;
        return true;
    }
    char path[PATH_TEXT_MAX], text[FILE_TEXT_MAX];
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (text_file_read(path, text, sizeof text)) (void)text_file_number(text, controller->droppable, &droppable);
    add(all, limit, used - (droppable < used ? droppable : used));
    return true;
}

memory_headroom memory_headroom_at(const char *proc, const char *cgroup) {
    char path[PATH_TEXT_MAX], text[FILE_TEXT_MAX];
    memory_headroom all = {.total = MEMORY_HEADROOM_UNKNOWN, .available = MEMORY_HEADROOM_UNKNOWN};
    uint64_t total, available;
    snprintf(path, sizeof path, "%s/meminfo", proc);
    if (text_file_read(path, text, sizeof text) && text_file_number(text, "MemTotal:", &total) &&
        text_file_number(text, "MemAvailable:", &available))
        add(&all, total * 1024, available < total ? (total - available) * 1024 : 0);
    cgroup_walk_in(proc, cgroup, "memory", add_group, &all);
    return all;
}

memory_headroom memory_headroom_now(void) { return memory_headroom_at("/proc", "/sys/fs/cgroup"); }
uint64_t memory_headroom_bytes(void) { return memory_headroom_now().available; }
uint64_t memory_headroom_total(void) { return memory_headroom_now().total; }
