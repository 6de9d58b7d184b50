/* process_limit.c — see process_limit.h. */
#include "runtime/common/process_limit.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cgroup.h"
#include "net/shm/memory_headroom.h"

bool process_limit_is(int error) { return error == EAGAIN || error == ENOMEM; }

typedef struct least { /* of several limits */
    bool any;
    uint64_t limit;
} least;

static bool add_limit(void *context, const char *folder, int version) {
    least *least = context;
    uint64_t limit;
    if (!cgroup_number(folder, "pids.max", &limit)) return true;
    if (!least->any || limit < least->limit) least->limit = limit;
    least->any = true;
    return true;
}

static void name(char *out, size_t size, const char *what, bool known, uint64_t limit, const char *where) {
    size_t used = strlen(out);
    if (known)
        snprintf(out + used, size - used, "%s%s %llu (%s)", used == 0 ? "" : ", ", what, (unsigned long long)limit,
                 where);
}

/* There may be room for another process, but no memory for it. */
static void memory_text(char *out, size_t size) {
    memory_headroom memory = memory_headroom_now();
    char left[80] = "";
    if (memory.total != MEMORY_HEADROOM_UNKNOWN)
        snprintf(left, sizeof left, " (%llu MB of %llu MB are available)", (unsigned long long)memory.available >> 20,
                 (unsigned long long)memory.total >> 20);
    snprintf(out, size,
             "the kernel has no memory for another process%s; run fewer tasks at once, or give the machine or its "
             "container more memory",
             left);
}

static void count_text(char *out, size_t size) {
    char limits[PROCESS_LIMIT_TEXT_MAX] = "";
    struct rlimit user;
    uint64_t machine = 0;
    bool limited = getrlimit(RLIMIT_NPROC, &user) == 0 && user.rlim_cur != RLIM_INFINITY;
    bool known = cgroup_number("/proc/sys/kernel", "threads-max", &machine);
    least group = {0};
    cgroup_walk("pids", add_limit, &group);
    name(limits, sizeof limits, "user", limited, limited ? user.rlim_cur : 0, "ulimit -u");
    name(limits, sizeof limits, "container", group.any, group.limit, "pids.max");
    name(limits, sizeof limits, "machine", known, machine, "kernel.threads-max");
    snprintf(out, size,
             "the limit of processes and threads is reached: %s; raise it, or run fewer tasks at once that "
             "wait for others",
             limits);
}

void process_limit_text(int error, char *out, size_t size) {
    if (error == ENOMEM)
        memory_text(out, size);
    else
        count_text(out, size);
}
