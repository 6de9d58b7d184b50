/* rundir.c — see rundir.h. */
#include "runtime/rundir.h"

#include <dirent.h>
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

#include "base/alloc.h"
#include "base/error.h"

enum { BASE_MAX = 64, TRIES = 100 }; /* so that a socket's path in a run fits into RUNDIR_MAX */

/* ---- The base. */

static bool is_folder_of_ours(const char *path) {
    struct stat stat;
    return lstat(path, &stat) == 0 && S_ISDIR(stat.st_mode) && stat.st_uid == geteuid() && (stat.st_mode & 0077) == 0;
}

static void name_base(char out[RUNDIR_MAX]) {
    const char *runtime = getenv("XDG_RUNTIME_DIR"), *temporary = getenv("TMPDIR");
    if (runtime != NULL && runtime[0] == '/' && strlen(runtime) < BASE_MAX - 8 && is_folder_of_ours(runtime)) {
        snprintf(out, RUNDIR_MAX, "%s/miniray", runtime);
        return;
    }
    bool fits = temporary != NULL && temporary[0] == '/' && strlen(temporary) < BASE_MAX - 18;
    snprintf(out, RUNDIR_MAX, "%s/miniray-%u", fits ? temporary : "/tmp", (unsigned)geteuid());
}

mr_status rundir_base(char out[RUNDIR_MAX]) {
    char base[RUNDIR_MAX];
    name_base(base);
    if (mkdir(base, 0700) != 0 && errno != EEXIST) return error_errno("no folder %s for the runtime", base);
    if (!is_folder_of_ours(base))
        return error_set(MR_DENIED, "%s is not a folder of this user alone (mode 0700); set TMPDIR to one that is",
                         base);
    memcpy(out, base, sizeof base);
    return MR_OK;
}

mr_status rundir_socket(const char *address, char out[RUNDIR_MAX]) {
    if (strcmp(address, "auto") == 0) {
        char base[RUNDIR_MAX];
        MR_TRY(rundir_base(base));
        snprintf(out, RUNDIR_MAX, "%.*s/node", BASE_MAX, base);
        return MR_OK;
    }
    if (strchr(address, '/') == NULL)
        return error_set(MR_INVALID, "'%.60s' is no address of a node: 'auto', or the path of its socket, with a '/'",
                         address);
    if (strlen(address) >= RUNDIR_MAX)
        return error_set(MR_INVALID, "the address '%.60s…' is too long for a socket: at most %d bytes", address,
                         RUNDIR_MAX - 1);
    strcpy(out, address);
    return MR_OK;
}

/* ---- Old runs. */

static bool is_run(const char *name) { return strspn(name, "0123456789-") == strlen(name) && strlen(name) > 17; }

static int only_runs(const struct dirent *entry) { return is_run(entry->d_name); }

static void remove_run(const char *path) {
    DIR *folder = opendir(path);
    if (folder == NULL) return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.') unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(path);
}

/* A lock on the folder, without waiting; -1: somebody has it. */
static int lock_run(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    close(fd);
    return -1;
}

/* Of all but the newest everything goes. */
static void prune(const char *base) {
    struct dirent **runs = NULL;
    int count = scandir(base, &runs, only_runs, alphasort);
    for (int i = 0; i < count; i++) {
        char path[2 * RUNDIR_MAX];
        snprintf(path, sizeof path, "%s/%.80s", base, runs[i]->d_name);
        int lock = i < count - RUNDIR_KEPT ? lock_run(path) : -1;
        if (lock >= 0) {
            remove_run(path);
            close(lock);
        }
        free(runs[i]);
    }
    free(runs);
}

/* ---- A run. */

mr_status rundir_adopt(const char *path, rundir *out) {
    rundir run = {0};
    snprintf(run.path, sizeof run.path, "%s", path);
    run.lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (run.lock_fd < 0) return error_errno("the folder %s of this run", path);
    flock(run.lock_fd, LOCK_SH | LOCK_NB); /* shared: program and node may both have it for a moment */
    *out = run;
    return MR_OK;
}

/* The folder of a run and then the base, if there is nothing in them. Needs no descriptor. */
static void remove_empty(const char *path) {
    char base[RUNDIR_MAX];
    rmdir(path);
    snprintf(base, sizeof base, "%s", path);
    char *slash = strrchr(base, '/');
    if (slash != NULL) *slash = '\0';
    if (slash != NULL) rmdir(base);
}

mr_status rundir_open(rundir *out) {
    char base[RUNDIR_MAX], path[RUNDIR_MAX];
    for (int i = 0; i < TRIES; i++) { /* the last run may be taking an empty base away */
        MR_TRY(rundir_base(base));
        struct timespec now;
        struct tm date;
        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &date);
        snprintf(path, sizeof path, "%.64s/%04d%02d%02d-%02d%02d%02d-%d-%d", base, date.tm_year + 1900, date.tm_mon + 1,
                 date.tm_mday, date.tm_hour, date.tm_min, date.tm_sec, (int)getpid(), i);
        if (mkdir(path, 0700) != 0) {
            if (errno == EEXIST || errno == ENOENT) continue;
            return error_errno("no folder %s for this run", path);
        }
        mr_status status = rundir_adopt(path, out);
        if (status == MR_OK)
            prune(base);
        else
            remove_empty(path);
        return status;
    }
    return error_set(MR_EXISTS, "no name is left for a folder of this run in %s", base);
}

void rundir_leave(rundir *run) { close(run->lock_fd); }

void rundir_close(rundir *run) {
    char hub[RUNDIR_MAX + 8];
    snprintf(hub, sizeof hub, "%s/hub", run->path);
    unlink(hub);
    close(run->lock_fd);
    remove_empty(run->path);
}
