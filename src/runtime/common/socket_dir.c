/* socket_dir.c — see socket_dir.h. */
#include "runtime/common/socket_dir.h"

#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where) {
    (void)remove(path);
    return 0;
}

/* Other processes see the whole directory, or none: it gets another name first. A process that is being killed may
 * still create a file in it, so there are several attempts. */
static void remove_folder(const char *path) {
    enum { OPEN_MAX_AT_ONCE = 8, ATTEMPTS = 100, PAUSE_NS = 10 * 1000 * 1000 };
    char removed[PATH_MAX];
    int size = snprintf(removed, sizeof removed, "%s.removed", path);
    bool is_renamed = size >= 0 && (size_t)size < sizeof removed && rename(path, removed) == 0;
    const char *now = is_renamed ? removed : path;
    for (int i = 0; i < ATTEMPTS && access(now, F_OK) == 0; i++) {
        if (i > 0) nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        nftw(now, remove_one, OPEN_MAX_AT_ONCE, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    }
}

/* The first folder that is writable and short enough; /tmp if there is none. */
static const char *choose_folder(size_t name_size) {
    const char *const folders[] = {getenv("TMPDIR"), "/tmp", "/dev/shm", "/var/tmp"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *folder = folders[i];
        if (folder != NULL && folder[0] == '/' && strlen(folder) + 1 + name_size <= SOCKET_DIR_MAX &&
            access(folder, W_OK | X_OK) == 0)
            return folder;
    }
    return "/tmp";
}

mr_status socket_dir_open(const char *run, const char *prefix, socket_dir *out) {
    socket_dir made;
    const char chance[] = "XXXXXX", *folder = choose_folder(strlen(prefix) + sizeof chance - 1);
    int size = snprintf(made.path, sizeof made.path, "%s/%s%s", folder, prefix, chance);
    if (size < 0 || (size_t)size >= sizeof made.path)
        return error_set(MR_INVALID,
                         "prefix '%.20s' of a temporary directory is %zu bytes long; its path has room for %zu", prefix,
                         strlen(prefix), sizeof made.path);
    if (mkdtemp(made.path) == NULL)
        return error_errno("cannot create a directory in %s; set TMPDIR to a writable directory", folder);
    made.link[0] = '\0';
    if (run == NULL) {
        *out = made;
        return MR_OK;
    }
    size = snprintf(made.link, sizeof made.link, "%s/%s", run, strrchr(made.path, '/') + 1);
    if (size >= 0 && (size_t)size < sizeof made.link && symlink(made.path, made.link) == 0) {
        *out = made;
        return MR_OK;
    }
    mr_status status = error_errno("cannot create a link in %.100s", run);
    rmdir(made.path);
    return status;
}

void socket_dir_close(socket_dir *dir) {
    remove_folder(dir->path);
    if (dir->link[0] != '\0') unlink(dir->link);
}

void socket_dir_clear(const char *link) {
    char path[PATH_MAX];
    struct stat stat;
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return;
    path[size] = '\0';
    if (path[0] != '/') return;
    if (lstat(path, &stat) == 0) {
        if (!S_ISDIR(stat.st_mode) || stat.st_uid != geteuid() || (stat.st_mode & 0077) != 0) return;
        remove_folder(path);
    }
    unlink(link);
}
