/* supervisor.c — see supervisor.h. */
#include "net/socket/supervisor.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/pidfd.h"
#include "net/process_identity.h"
#include "net/socket/address.h"

enum { NAME_MAX_BYTES = 40, FILE_MAX = NAME_MAX_BYTES + 1 + PROCESS_IDENTITY_TEXT_MAX, RANDOM = 6 };

struct supervisor_watch {
    event_loop_watch *watch; /* NULL: nothing is watched */
    pidfd process;
    bool ended;
    char address[ADDRESS_TEXT_MAX];
    char what[NAME_MAX_BYTES + 128]; /* "the node (process 4711), which runs it, exited with status 1" */
};

/* ---- The file. */

static mr_status write_text(int fd, const char *text, size_t size, const char *path) {
    ssize_t wrote = write(fd, text, size);
    if (close(fd) == 0 && wrote == (ssize_t)size) return MR_OK;
    return error_errno("cannot write %s", path);
}

mr_status supervisor_write(const char *directory, pid_t process, const char *name) {
    char path[ADDRESS_TEXT_MAX], text[FILE_MAX], identity[PROCESS_IDENTITY_TEXT_MAX];
    const process_identity own = process_identity_of(process);
    process_identity_write(&own, identity);
    int size = snprintf(text, sizeof text, "%.*s\n%s\n", NAME_MAX_BYTES - 1, name, identity);
    snprintf(path, sizeof path, "%s/supervisor", directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? error_errno("cannot create %s", path) : write_text(fd, text, (size_t)size, path);
}

/* Reads a file of this user. */
static bool read_text(const char *directory, char out[FILE_MAX]) {
    char path[ADDRESS_TEXT_MAX + 16];
    struct stat stat;
    snprintf(path, sizeof path, "%s/supervisor", directory);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    bool is_own = fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_uid == geteuid();
    ssize_t size = is_own ? read(fd, out, FILE_MAX - 1) : -1;
    close(fd);
    out[size < 0 ? 0 : size] = '\0';
    return size > 0;
}

static bool read_file(const char *directory, char name[NAME_MAX_BYTES], process_identity *out) {
    char text[FILE_MAX];
    if (!read_text(directory, text)) return false;
    const char *identity = strchr(text, '\n');
    if (identity == NULL || !process_identity_read(identity, out)) return false;
    snprintf(name, NAME_MAX_BYTES, "%.*s", (int)(identity - text), text);
    return true;
}

/* ---- The directory of the scheduler's socket. */

/* False: the address is not that of a socket in a directory. */
static bool directory_of(const char *address, char out[ADDRESS_TEXT_MAX]) {
    const char *slash = strncmp(address, "unix:/", 6) == 0 ? strrchr(address, '/') : NULL;
    if (slash == NULL || slash == address + 5) return false;
    snprintf(out, ADDRESS_TEXT_MAX, "%.*s", (int)(slash - address - 5), address + 5);
    return true;
}

/* Whether the name is one of mkdtemp. A word in lower case, such as "ps-server", is taken for a user's choice. */
static bool is_random(const char *name) {
    static const char lower[] = "abcdefghijklmnopqrstuvwxyz";
    size_t prefix = sizeof SUPERVISOR_DIR_PREFIX - 1;
    return strlen(name) == prefix + RANDOM && strncmp(name, SUPERVISOR_DIR_PREFIX, prefix) == 0 &&
           strspn(name + prefix, lower) < RANDOM;
}

/* Whether a supervisor had created the directory, and it is gone: no other process creates one of this name. */
static bool is_removed(const char *directory) {
    return is_random(strrchr(directory, '/') + 1) && access(directory, F_OK) != 0;
}

/* ---- The watch. */

static void end(supervisor_watch *watch, const char *how) {
    size_t used = strlen(watch->what);
    watch->ended = true;
    snprintf(watch->what + used, sizeof watch->what - used, " %s", how);
}

static void process_came_to_end(void *context) {
    supervisor_watch *watch = context;
    char how[64] = "has ended";
    int status;
    if (!pidfd_ended(&watch->process)) return;
    if (pidfd_wait_status(&watch->process, &status)) pidfd_status_text(status, how, sizeof how);
    end(watch, how);
    event_loop_watch_remove(watch->watch);
    watch->watch = NULL;
}

/* A handle of the process, unless it has ended: its number may be another's meanwhile. */
static void watch_process(supervisor_watch *watch, event_loop *loop, const process_identity *identity) {
    mr_status status = pidfd_of_pid(identity->process, &watch->process);
    if (status == MR_PEER_DIED || process_identity_is_gone(identity)) {
        end(watch, "has ended");
    } else if (status == MR_OK) {
        if (loop != NULL)
            status = event_loop_watch_add(loop, watch->process.fd, process_came_to_end, watch, &watch->watch);
        process_came_to_end(watch);
    }
    if (status != MR_OK) error_clear(); /* it cannot be watched: waits time out */
}

supervisor_watch *supervisor_watch_open(event_loop *loop, const char *address) {
    char directory[ADDRESS_TEXT_MAX], name[NAME_MAX_BYTES];
    process_identity identity;
    supervisor_watch *watch = XNEW(supervisor_watch, .process = PIDFD_NONE);
    snprintf(watch->address, sizeof watch->address, "%s", address);
    if (!directory_of(address, directory)) return watch;
    bool is_named = read_file(directory, name, &identity); /* first: the directory is removed with it, in one step */
    if (is_named && process_identity_is_visible(&identity)) {
        snprintf(watch->what, sizeof watch->what, "%s (process %d), which runs it,", name, identity.process);
        watch_process(watch, loop, &identity);
    } else if (!is_named && is_removed(directory)) {
        watch->ended = true;
        snprintf(watch->what, sizeof watch->what, "its directory was removed");
    }
    return watch;
}

void supervisor_watch_close(supervisor_watch *watch) {
    if (watch == NULL) return;
    event_loop_watch_remove(watch->watch);
    pidfd_close(&watch->process);
    free(watch);
}

mr_status supervisor_watch_check(const supervisor_watch *watch) {
    if (!watch->ended) return MR_OK;
    return error_set(MR_PEER_DIED, "the parameter server at %s has ended: %s; start another one", watch->address,
                     watch->what);
}
