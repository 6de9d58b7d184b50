/* unix_listener.c — see unix_listener.h. */
#include "net/unix_listener.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/failpoint.h"

enum { LOCK_TRIES = 100, LOCK_PAUSE_US = 10000 };

mr_status unix_listener_address(const char *path, struct sockaddr_un *out) {
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof out->sun_path)
        return error_set(MR_INVALID, "'%.200s' is not a path for a unix socket: expected 1 to %zu bytes", path,
                         sizeof out->sun_path - 1);
    memcpy(out->sun_path, path, length);
    return MR_OK;
}

static int unix_socket(int type) { return socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

/* Two processes that find the same stale file must not remove each other's new file: each locks the directory while it
 * checks and replaces. The lock leaves no file behind and works between cooperating processes; a process that never
 * releases it only delays the others. */
static int lock_folder(const char *path) {
    char *copy = xstrdup(path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (fd < 0) return -1;
    for (int i = 0; i < LOCK_TRIES && flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR) break; /* a file system without locks (Lustre) */
        usleep(LOCK_PAUSE_US);
    }
    return fd;
}

/* A connection is refused only if no process listens any more. */
static bool is_dead(const struct sockaddr_un *address, int type) {
    int fd = unix_socket(type);
    if (fd < 0) return false;
    bool refused = connect(fd, (const void *)address, sizeof *address) != 0 && errno == ECONNREFUSED;
    close(fd);
    return refused;
}

static mr_status remove_dead(const char *path, const struct sockaddr_un *address, int type) {
    struct stat stat;
    if (lstat(path, &stat) != 0) return errno == ENOENT ? MR_OK : error_errno("cannot stat %s", path);
    if (!S_ISSOCK(stat.st_mode)) return error_set(MR_EXISTS, "%s exists and is not a socket; remove it", path);
    if (stat.st_uid != geteuid()) return error_set(MR_EXISTS, "%s belongs to another user", path);
    if (!is_dead(address, type))
        return error_set(MR_EXISTS,
                         type == SOCK_SEQPACKET ? "a broker already runs at %s" : "a process already listens on %s",
                         path);
    if (unlink(path) != 0 && errno != ENOENT) return error_errno("cannot remove the stale socket %s", path);
    return MR_OK;
}

/* bind creates the file with the mode of the socket minus the umask, so the mode is set before bind. */
static mr_status bind_and_listen(int fd, const char *path, const struct sockaddr_un *address, int type, int backlog) {
    if (fchmod(fd, 0600) != 0) return error_errno("cannot create a unix socket for %s", path);
    if (bind(fd, (const void *)address, sizeof *address) != 0)
        return errno == EADDRINUSE ? error_set(MR_EXISTS, "%s exists", path) : error_errno("cannot bind %s", path);
    if (type == SOCK_SEQPACKET) FAILPOINT("hub.bound");
    if (listen(fd, backlog) == 0) return MR_OK;
    mr_status status = error_errno("cannot listen on %s", path);
    unlink(path);
    return status;
}

mr_status unix_listener_open(const char *path, int type, int backlog, bool alone, unix_listener *out) {
    struct sockaddr_un address;
    MR_TRY(unix_listener_address(path, &address));
    int fd = unix_socket(type);
    if (fd < 0) return error_errno("cannot create a unix socket for %s", path);
    int lock = alone ? -1 : lock_folder(path);
    mr_status status = remove_dead(path, &address, type);
    if (status == MR_OK) status = bind_and_listen(fd, path, &address, type, backlog);
    struct stat stat;
    if (status == MR_OK && lstat(path, &stat) != 0) status = error_errno("cannot stat %s", path);
    if (lock >= 0) close(lock);
    if (status == MR_OK)
        *out = (unix_listener){.fd = fd, .path = xstrdup(path), .device = stat.st_dev, .inode = stat.st_ino};
    else
        close(fd);
    return status;
}

void unix_listener_clear(const char *path, int type, bool alone) {
    struct sockaddr_un address;
    int lock = alone ? -1 : lock_folder(path);
    if (unix_listener_address(path, &address) != MR_OK || remove_dead(path, &address, type) != MR_OK) error_clear();
    if (lock >= 0) close(lock);
}

void unix_listener_close(unix_listener *listener) {
    struct stat stat;
    if (lstat(listener->path, &stat) == 0 && stat.st_dev == listener->device && stat.st_ino == listener->inode)
        unlink(listener->path);
    close(listener->fd);
    free(listener->path);
    *listener = (unix_listener){.fd = -1};
}
