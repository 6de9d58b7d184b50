/* socket.c — see socket.h. */
#include "net/stream/socket.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "net/rights.h"

/* tcp: what is to be sent together is sent together by us; Nagle's algorithm would only hold the last piece back.
 * unix: the buffer is not tuned by the kernel as tcp's is; a larger one means fewer switches between the two sides and
 * up to twice the speed. The system's limit bounds it (net.core.wmem_max). */
static void tune(int fd, const address *address) {
    int on = 1, size = 1 << 20;
    if (address_is_unix(address))
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    else
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

mr_status socket_create(const address *address, int *out) {
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return error_errno("cannot create a socket of address family %d", address->any.sa_family);
    tune(fd, address);
    *out = fd;
    return MR_OK;
}

int socket_connect(int fd, const address *address) {
    int result;
    do result = connect(fd, &address->any, address->size);
    while (result < 0 && errno == EINTR);
    if (result == 0 || errno == EISCONN) return 0;
    return errno == EALREADY ? EINPROGRESS : errno;
}

int socket_error(int fd) {
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

int socket_accept(int listener, const address *address) {
    int fd = -1;
    do fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    if (fd >= 0) tune(fd, address);
    return fd;
}

ssize_t socket_pass(int fd, struct iovec *pieces, size_t count, const int *fds, size_t fd_count) {
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    rights rights;
    rights_send(&message, &rights, fds, fd_count);
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

ssize_t socket_receive(int fd, struct iovec *pieces, size_t count, int fds[SOCKET_FDS_MAX], size_t *fd_count) {
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    rights rights;
    rights_expect(&message, &rights);
    ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    *fd_count = got > 0 ? rights_take(&message, fds, SOCKET_FDS_MAX) : 0;
    return got;
}

mr_status socket_peer(int fd, const address *address, int *pid) {
    *pid = 0;
    if (!address_is_unix(address)) return MR_OK;
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return error_errno("cannot get the peer's user (%d)", fd);
    if (peer.uid != geteuid())
        return error_set(MR_DENIED, "the peer belongs to user %u, this process to user %u", peer.uid, geteuid());
    *pid = peer.pid;
    return MR_OK;
}

/* Removes the file of a unix socket that nobody listens on any more. Anything else stays. */
static mr_status remove_dead(const address *address) {
    const char *path = address->local.sun_path;
    struct stat file;
    if (lstat(path, &file) != 0) return errno == ENOENT ? MR_OK : error_errno("cannot stat %s", path);
    if (!S_ISSOCK(file.st_mode) || file.st_uid != geteuid())
        return error_set(MR_EXISTS, "%s exists and is not a socket of this user; remove it", path);
    int fd = -1;
    MR_TRY(socket_create(address, &fd));
    int error = socket_connect(fd, address);
    close(fd);
    if (error != ECONNREFUSED) return error_set(MR_EXISTS, "a process already listens on %s", path);
    if (unlink(path) != 0 && errno != ENOENT) return error_errno("cannot remove the stale socket %s", path);
    return MR_OK;
}

static mr_status bind_socket(int fd, const address *address) {
    char text[ADDRESS_TEXT_MAX];
    address_format(address, text);
    if (bind(fd, &address->any, address->size) == 0) return MR_OK;
    if (errno == EADDRINUSE && address_is_unix(address)) {
        MR_TRY(remove_dead(address));
        if (bind(fd, &address->any, address->size) == 0) return MR_OK;
    }
    if (errno == EADDRINUSE) return error_set(MR_EXISTS, "a process already listens on %s", text);
    return error_errno("cannot listen on %s", text);
}

mr_status socket_listen(const address *wanted, int *out, address *actual) {
    int fd = -1, on = 1;
    MR_TRY(socket_create(wanted, &fd));
    mr_status status;
    address bound = *wanted;
    if (address_is_unix(wanted)) {
        /* The file takes its mode from the socket. */
        if (fchmod(fd, 0600) != 0) {
            status = error_errno("cannot restrict the socket %s to this user", wanted->local.sun_path);
            goto close_fd;
        }
    } else {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (wanted->any.sa_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    }
    status = bind_socket(fd, wanted);
    if (status != MR_OK) goto close_fd;
    if (listen(fd, SOMAXCONN) != 0) {
        status = error_errno("cannot listen on a bound socket of address family %d", wanted->any.sa_family);
        if (address_is_unix(wanted)) unlink(wanted->local.sun_path);
        goto close_fd;
    }
    if (!address_is_unix(wanted) && getsockname(fd, &bound.any, &bound.size) != 0) {
        status = error_errno("cannot get the address of a listening socket (fd %d)", fd);
        goto close_fd;
    }
    *actual = bound;
    *out = fd;
    return MR_OK;

close_fd:
    close(fd);
    return status;
}
