/* socket.c — see socket.h. */
#include "net/socket/socket.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "net/scm_rights.h"

/* tcp: data is sent in complete batches, so Nagle's algorithm would only delay the last part.
 * unix: the kernel does not tune the buffer as for tcp; a larger one means fewer switches between the two sides and up
 * to twice the speed. net.core.wmem_max limits it. */
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
    if (TEMP_FAILURE_RETRY(connect(fd, &address->any, address->size)) == 0 || errno == EISCONN) return 0;
    return errno == EALREADY ? EINPROGRESS : errno;
}

int socket_error(int fd) {
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

int socket_accept(int listener, const address *address) {
    int fd = (int)TEMP_FAILURE_RETRY(accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd >= 0) tune(fd, address);
    return fd;
}

ssize_t socket_pass(int fd, struct iovec *pieces, size_t count, const int *fds, size_t fd_count) {
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    scm_rights rights;
    scm_rights_send(&message, &rights, fds, fd_count);
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

ssize_t socket_receive(int fd, struct iovec *pieces, size_t count, int fds[SOCKET_FDS_MAX], size_t *fd_count) {
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    scm_rights rights;
    scm_rights_expect(&message, &rights);
    ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    *fd_count = got > 0 ? scm_rights_take(&message, fds, SOCKET_FDS_MAX) : 0;
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

mr_status socket_listen(const address *wanted, int *out, address *actual) {
    int fd = -1, on = 1;
    MR_TRY(socket_create(wanted, &fd));
    address bound = *wanted;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (wanted->any.sa_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, &wanted->any, wanted->size) == 0 && listen(fd, SOMAXCONN) == 0 &&
        getsockname(fd, &bound.any, &bound.size) == 0) {
        *actual = bound;
        *out = fd;
        return MR_OK;
    }
    char text[ADDRESS_TEXT_MAX];
    address_format(wanted, text);
    mr_status status = errno == EADDRINUSE ? error_set(MR_EXISTS, "a process already listens on %s", text)
                                           : error_errno("cannot listen on %s", text);
    close(fd);
    return status;
}
