/* session_dir.c — see session_dir.h. */
#include "runtime/common/session_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/user_dir.h"
#include "miniray/admin.h"
#include "runtime/common/socket_dir.h"

enum { TRIES = 100 };

_Static_assert((int)SESSION_DIR_MAX >= (int)USER_DIR_MAX, "the base fits");

mr_status mr_sessions_dir(char out[112]) {
    char base[USER_DIR_MAX];
    MR_TRY(user_dir_find(base));
    snprintf(out, 112, "%s", base);
    return MR_OK;
}

/* The socket of the standalone node: where one is, or where one would be. */
static mr_status find_node(char out[SESSION_DIR_MAX]) {
    char places[USER_DIRS][USER_DIR_MAX], base[USER_DIR_MAX];
    struct stat stat;
    unsigned count = user_dir_list(places);
    for (unsigned i = 0; i < count; i++) {
        if (!user_dir_is_private(places[i])) continue;
        snprintf(out, SESSION_DIR_MAX, "%.74s/node", places[i]);
        if (lstat(out, &stat) == 0 && S_ISSOCK(stat.st_mode)) return MR_OK;
    }
    MR_TRY(user_dir_find(base));
    snprintf(out, SESSION_DIR_MAX, "%.74s/node", base);
    return MR_OK;
}

mr_status session_dir_socket(const char *address, char out[SESSION_DIR_MAX]) {
    if (strcmp(address, "auto") == 0) return find_node(out);
    if (strchr(address, '/') == NULL)
        return error_set(MR_INVALID, "'%.60s' is not the address of a node: use auto, or the path of its socket",
                         address);
    char folder[SESSION_DIR_MAX] = "";
    if (address[0] != '/' && getcwd(folder, sizeof folder) == NULL && errno == ENOENT)
        return error_set(MR_INVALID,
                         "the address '%.60s' is relative, and the working directory was removed: use a path from /",
                         address);
    int length = snprintf(out, SESSION_DIR_MAX, "%s%s%s", folder, address[0] == '/' ? "" : "/", address);
    if (length >= SESSION_DIR_MAX || (address[0] != '/' && folder[0] == '\0'))
        return error_set(MR_INVALID, "the address '%.60s' is too long for a socket: at most %d bytes from /", address,
                         SESSION_DIR_MAX - 1);
    return MR_OK;
}

/* ---- Old sessions. */

int session_dir_filter(const struct dirent *entry) {
    return strspn(entry->d_name, "0123456789-") == strlen(entry->d_name) && strlen(entry->d_name) > 17;
}

/* Locks the directory, without waiting; -1: it cannot be opened, or locked. */
static int lock_run(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    close(fd);
    return -1;
}

/* Removes a link with its target directory, and a file if it is empty, if it is a socket, or if the whole session is
 * removed. */
static void remove_file(const char *run, const char *name, bool all) {
    char path[2 * SESSION_DIR_MAX + 256];
    struct stat stat;
    snprintf(path, sizeof path, "%s/%.255s", run, name);
    socket_dir_clear(path); /* no-op unless it is a link */
    if (lstat(path, &stat) == 0 && (all || stat.st_size == 0 || S_ISSOCK(stat.st_mode))) unlink(path);
}

/* Removes the session's files that are not kept, or all files, and then the directory if it is empty. Without a free
 * descriptor only the broker's socket is removed. */
static void tidy(const char *run, bool all) {
    DIR *folder = opendir(run);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.') remove_file(run, entry->d_name, all);
    if (folder != NULL) closedir(folder);
    remove_file(run, "hub", all);
    rmdir(run);
}

/* Removes all but the newest sessions; cleans up after killed nodes. */
static void prune(const char *base) {
    struct dirent **runs = NULL;
    int count = scandir(base, &runs, session_dir_filter, alphasort);
    for (int i = 0; i < count; i++) {
        char path[2 * SESSION_DIR_MAX];
        snprintf(path, sizeof path, "%s/%.80s", base, runs[i]->d_name);
        int lock = lock_run(path);
        if (lock >= 0) {
            tidy(path, i < count - SESSION_DIR_KEPT);
            close(lock);
        }
        free(runs[i]);
    }
    free(runs);
}

/* ---- Sessions. */

mr_status session_dir_adopt(const char *path, session_dir *out) {
    session_dir run = {0};
    struct stat stat;
    snprintf(run.path, sizeof run.path, "%s", path);
    run.lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (run.lock_fd < 0) return error_errno("cannot open the session directory %s", path);
    bool locked = flock(run.lock_fd, LOCK_SH | LOCK_NB) == 0; /* shared: driver and node may both have the lock */
    if (!locked && errno != EWOULDBLOCK) locked = true;       /* no process can lock here (Lustre), and so remove it */
    if (!locked || fstat(run.lock_fd, &stat) != 0 || stat.st_nlink == 0) {
        close(run.lock_fd);
        return error_set(MR_BUSY, "the session directory %s is being removed", path);
    }
    *out = run;
    return MR_OK;
}

static void remove_base(const char *run) { /* unless it contains other files */
    char base[SESSION_DIR_MAX];
    snprintf(base, sizeof base, "%s", run);
    char *slash = strrchr(base, '/');
    if (slash != NULL) *slash = '\0';
    if (slash != NULL) rmdir(base);
}

static void name_run(const char *base, int number, char out[SESSION_DIR_MAX]) {
    time_t now = time(NULL);
    struct tm date;
    char stamp[24];
    gmtime_r(&now, &date);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &date);
    snprintf(out, SESSION_DIR_MAX, "%.74s/%s-%d-%d", base, stamp, (int)getpid(), number);
}

mr_status session_dir_open(session_dir *out) {
    char base[USER_DIR_MAX], path[SESSION_DIR_MAX];
    for (int i = 0; i < TRIES; i++) { /* other processes may be removing an empty base, or the new directory */
        MR_TRY(user_dir_open(base));
        name_run(base, i, path);
        if (mkdir(path, 0700) != 0) {
            if (errno == EEXIST || errno == ENOENT) continue;
            return error_errno("cannot create the session directory %s", path);
        }
        mr_status status = session_dir_adopt(path, out);
        if (status == MR_BUSY || (status != MR_OK && access(path, F_OK) != 0)) continue;
        if (status == MR_OK) {
            prune(base);
        } else {
            rmdir(path);
            remove_base(path);
        }
        return status;
    }
    return error_set(MR_EXISTS, "cannot create a session directory in %s: gave up after %d attempts", base, TRIES);
}

void session_dir_leave(session_dir *run) { close(run->lock_fd); }

void session_dir_clear(const char *path) {
    tidy(path, false);
    remove_base(path);
}

void session_dir_close(session_dir *run) {
    tidy(run->path, false);
    close(run->lock_fd);
    remove_base(run->path);
}
