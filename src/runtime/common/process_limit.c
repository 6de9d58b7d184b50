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

typedef struct least { /* of several limits */
    bool any;
    uint64_t limit;
} least;

static void add_limit(least *least, const char *folder) {
    char path[PATH_TEXT_MAX + 16];
    uint64_t limit;
    snprintf(path, sizeof path, "%s/pids.max", folder);
    if (!read_number(path, &limit)) return;
    if (!least->any || limit < least->limit) least->limit = limit;
    least->any = true;
}

/* The least limit of the cgroups of this process: pids.max of its group and the groups above, as far as visible. */
static least find_cgroup_limit(void) {
    static const char root[] = "/sys/fs/cgroup";
    char text[FILE_TEXT_MAX], folder[PATH_TEXT_MAX];
    least least = {0};
    add_limit(&least, "/sys/fs/cgroup/pids"); /* version 1 */
    char *line = text_file_read("/proc/self/cgroup", text, sizeof text) ? strstr(text, "0::") : NULL;
    if (line != NULL) line[strcspn(line, "\n")] = '\0';
    snprintf(folder, sizeof folder, "%s%.1500s", root, line == NULL ? "" : line + 3);
    for (char *slash; (slash = strrchr(folder + strlen(root), '/')) != NULL; *slash = '\0') add_limit(&least, folder);
    add_limit(&least, root);
    return least;
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
    uint64_t machine = 0;
    bool limited = getrlimit(RLIMIT_NPROC, &user) == 0 && user.rlim_cur != RLIM_INFINITY;
    bool known = read_number("/proc/sys/kernel/threads-max", &machine);
    least group = find_cgroup_limit();
    name(limits, sizeof limits, "user", limited, limited ? user.rlim_cur : 0, "ulimit -u");
    name(limits, sizeof limits, "container", group.any, group.limit, "pids.max");
    name(limits, sizeof limits, "machine", known, machine, "kernel.threads-max");
    snprintf(out, size,
             "the limit of processes and threads is reached: %s; raise it, or run fewer tasks at once that "
             "wait for others",
             limits);
}
