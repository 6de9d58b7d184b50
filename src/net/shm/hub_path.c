/* hub_path.c — see hub_path.h. */
#include "net/shm/hub_path.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/failpoint.h"

enum { BACKLOG = 128, LOCK_TRIES = 100, LOCK_PAUSE_US = 10000 };

static mr_status address_of(const char *path, struct sockaddr_un *out) {
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof out->sun_path)
        return error_set(MR_INVALID, "'%.200s' is not a path for a unix socket: expected 1 to %zu bytes", path,
                         sizeof out->sun_path - 1);
    memcpy(out->sun_path, path, length);
    return MR_OK;
}

static int unix_socket(void) { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

/* Two hubs that find the same dead file must not remove each other's new one: whoever looks and replaces holds a lock
 * on the folder. It keeps honest starters apart and leaves no file behind. Somebody who sits on it delays us, no more.
 */
static int lock_folder(const char *path) {
    char *copy = xstrdup(path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (fd < 0) return -1;
    for (int i = 0; i < LOCK_TRIES && flock(fd, LOCK_EX | LOCK_NB) != 0; i++) usleep(LOCK_PAUSE_US);
    return fd;
}

/* Nobody listens there any more: only then connecting is refused. */
static bool is_dead(const struct sockaddr_un *address) {
    int fd = unix_socket();
    if (fd < 0) return false;
    bool refused = connect(fd, (const void *)address, sizeof *address) != 0 && errno == ECONNREFUSED;
    close(fd);
    return refused;
}

static mr_status remove_dead(const char *path, const struct sockaddr_un *address) {
    struct stat stat;
    if (lstat(path, &stat) != 0) return errno == ENOENT ? MR_OK : error_errno("cannot stat %s", path);
    if (!S_ISSOCK(stat.st_mode)) return error_set(MR_EXISTS, "%s exists and is not a socket; remove it", path);
    if (stat.st_uid != geteuid()) return error_set(MR_EXISTS, "%s belongs to another user", path);
    if (!is_dead(address)) return error_set(MR_EXISTS, "a broker already runs at %s", path);
    if (unlink(path) != 0 && errno != ENOENT) return error_errno("cannot remove the stale socket %s", path);
    return MR_OK;
}

/* bind gives the file the mode of the socket, less the umask: so it is set before there is a file. */
static mr_status bind_and_listen(int fd, const char *path, const struct sockaddr_un *address) {
    if (fchmod(fd, 0600) != 0) return error_errno("cannot create a unix socket for %s", path);
    if (bind(fd, (const void *)address, sizeof *address) != 0)
        return errno == EADDRINUSE ? error_set(MR_EXISTS, "%s exists", path) : error_errno("cannot bind %s", path);
    FAILPOINT("hub.bound");
    if (listen(fd, BACKLOG) == 0) return MR_OK;
    mr_status status = error_errno("cannot listen at %s", path);
    unlink(path);
    return status;
}

mr_status hub_path_open(const char *path, bool alone, hub_path *out) {
    struct sockaddr_un address;
    MR_TRY(address_of(path, &address));
    int fd = unix_socket();
    if (fd < 0) return error_errno("cannot create a unix socket for %s", path);
    int lock = alone ? -1 : lock_folder(path);
    mr_status status = remove_dead(path, &address);
    if (status == MR_OK) status = bind_and_listen(fd, path, &address);
    struct stat stat;
    if (status == MR_OK && lstat(path, &stat) != 0) status = error_errno("cannot stat %s", path);
    if (lock >= 0) close(lock);
    if (status != MR_OK) {
        close(fd);
        return status;
    }
    *out = (hub_path){.fd = fd, .path = xstrdup(path), .device = stat.st_dev, .inode = stat.st_ino};
    return MR_OK;
}

void hub_path_clear(const char *path, bool alone) {
    struct sockaddr_un address;
    int lock = alone ? -1 : lock_folder(path);
    if (address_of(path, &address) != MR_OK || remove_dead(path, &address) != MR_OK) error_clear();
    if (lock >= 0) close(lock);
}

void hub_path_close(hub_path *path) {
    struct stat stat;
    if (lstat(path->path, &stat) == 0 && stat.st_dev == path->device && stat.st_ino == path->inode) unlink(path->path);
    close(path->fd);
    free(path->path);
    *path = (hub_path){.fd = -1};
}
