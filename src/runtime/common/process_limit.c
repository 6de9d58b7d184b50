/* process_limit.c — see process_limit.h. */
#include "runtime/common/process_limit.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/text_file.h"

enum { FILE_TEXT_MAX = 4096, PATH_TEXT_MAX = 2048 };

bool process_limit_is(int error) { return error == EAGAIN || error == ENOMEM; }

static bool read_number(const char *path, uint64_t *out) {
    char text[64];
    return text_file_read(path, text, sizeof text) && text_file_number(text, "", out); /* "max": no limit */
}

/* The least limit of the cgroups of this process: pids.max of its group and the groups above, as far as visible. */
static bool find_cgroup_limit(uint64_t *out) {
    char text[FILE_TEXT_MAX], folder[PATH_TEXT_MAX], path[PATH_TEXT_MAX + 16];
    uint64_t limit;
    bool any = read_number("/sys/fs/cgroup/pids/pids.max", out);
    char *line = text_file_read("/proc/self/cgroup", text, sizeof text) ? strstr(text, "0::") : NULL;
    if (line != NULL) line[strcspn(line, "\n")] = '\0';
    snprintf(folder, sizeof folder, "/sys/fs/cgroup%.1500s", line == NULL || line[3] == '\0' ? "/" : line + 3);
    for (char *slash; (slash = strrchr(folder + strlen("/sys/fs/cgroup"), '/')) != NULL; *slash = '\0') {
        snprintf(path, sizeof path, "%s/pids.max", folder);
        if (read_number(path, &limit) && (!any || limit < *out)) *out = limit;
        any |= read_number(path, &limit);
    }
    if (read_number("/sys/fs/cgroup/pids.max", &limit) && (!any || limit < *out)) *out = limit, any = true;
    return any;
}

static void name(char *out, size_t size, const char *what, bool known, uint64_t limit, const char *where) {
    size_t used = strlen(out);
    if (known)
        snprintf(out + used, size - used, "%s%s %llu (%s)", used == 0 ? "" : ", ", what, (unsigned long long)limit,
                 where);
}

void process_limit_text(char *out, size_t size) {
    char limits[PROCESS_LIMIT_TEXT_MAX] = "";
    struct rlimit user;
    uint64_t group = 0, machine = 0;
    bool limited = getrlimit(RLIMIT_NPROC, &user) == 0 && user.rlim_cur != RLIM_INFINITY;
    bool grouped = find_cgroup_limit(&group), known = read_number("/proc/sys/kernel/threads-max", &machine);
    name(limits, sizeof limits, "user", limited, limited ? user.rlim_cur : 0, "ulimit -u");
    name(limits, sizeof limits, "container", grouped, group, "pids.max");
    name(limits, sizeof limits, "machine", known, machine, "kernel.threads-max");
    snprintf(out, size,
             "the limit of processes and threads is reached: %s; raise it, or run fewer tasks at once that "
             "wait for others",
             limits);
}
