/* cgroup.c — see cgroup.h. */
#include "base/cgroup.h"

#include <stdio.h>
#include <string.h>

#include "base/text_file.h"

enum { FILE_TEXT_MAX = 8192, PATH_TEXT_MAX = 4096 };

typedef struct walk {
    const char *mount, *controller;
    cgroup_visit_fn *visit;
    void *context;
} walk;

bool cgroup_number(const char *folder, const char *file, uint64_t *out) {
    char path[PATH_TEXT_MAX + 64], text[64];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return text_file_read(path, text, sizeof text) && text_file_number(text, "", out);
}

/* Visits mount/path and its parents up to the mount. */
static bool go_up(const walk *walk, const char *mount, const char *path, int version) {
    char folder[PATH_TEXT_MAX];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, path);
    if (length < 0 || (size_t)length >= sizeof folder) return true;
    for (size_t root = strlen(mount);;) {
        if (!walk->visit(walk->context, folder, version)) return false;
        char *slash = strrchr(folder + root, '/');
        if (slash == NULL) return true;
        *slash = '\0';
    }
}

static bool names(const char *controllers, const char *one) {
    size_t size = strlen(one);
    for (const char *at = controllers; *at != '\0' && *at != ':';
         at += strcspn(at, ",:") + (at[strcspn(at, ",:")] == ','))
        if (strncmp(at, one, size) == 0 && (at[size] == ',' || at[size] == ':')) return true;
    return false;
}

/* A line "number:controllers:path"; version 2 has number 0 and no controllers. */
static bool take_line(const walk *walk, const char *line) {
    const char *controllers = strchr(line, ':');
    const char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (path == NULL) return true;
    path++;
    char mount[PATH_TEXT_MAX];
    if (controllers[1] != ':') {
        snprintf(mount, sizeof mount, "%s/%s", walk->mount, walk->controller);
        return !names(controllers + 1, walk->controller) || go_up(walk, mount, path, 1);
    }
    snprintf(mount, sizeof mount, "%s/unified", walk->mount); /* if both versions are mounted */
    return go_up(walk, mount, path, 2) && go_up(walk, walk->mount, path, 2);
}

void cgroup_walk_in(const char *proc, const char *mount, const char *controller, cgroup_visit_fn *visit,
                    void *context) {
    const walk walk = {mount, controller, visit, context};
    char path[PATH_TEXT_MAX], text[FILE_TEXT_MAX], *rest = text, *line;
    snprintf(path, sizeof path, "%s/self/cgroup", proc);
    if (!text_file_read(path, text, sizeof text)) return;
    while ((line = strsep(&rest, "\n")) != NULL)
        if (!take_line(&walk, line)) return;
}

void cgroup_walk(const char *controller, cgroup_visit_fn *visit, void *context) {
    cgroup_walk_in("/proc", "/sys/fs/cgroup", controller, visit, context);
}
