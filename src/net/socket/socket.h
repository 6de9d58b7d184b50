/* socket.h — the system's stream sockets, non-blocking and closed on exec.
 *
 * All differences between tcp and unix sockets are in this module. The caller owns the descriptors. */
#pragma once
#include <sys/uio.h>

#include "net/socket/address.h"

enum { SOCKET_FDS_MAX = 2 }; /* descriptors per message */

/* Opens a socket that listens at a tcp address (for unix sockets: net/unix_listener.h); *actual has the real port.
 * MR_EXISTS: the address is in use. */
MR_MUST mr_status socket_listen(const address *wanted, int *fd, address *actual);

/* Creates a socket for socket_connect; tcp without Nagle's algorithm. */
MR_MUST mr_status socket_create(const address *address, int *fd);

/* Returns the result of connect(2): 0: connected; EINPROGRESS: wait until the socket is writable; EAGAIN: the backlog
 * is full, retry later; any other errno: failed. */
int socket_connect(int fd, const address *address);
int socket_error(int fd); /* takes the pending error, an errno; 0: none */

/* Accepts the next connection of a listening socket at this address, set up as by socket_create; -1 with errno. */
int socket_accept(int listener, const address *address);

/* As sendmsg(2), without SIGPIPE; `fds` are sent with the first byte and stay the caller's. */
ssize_t socket_pass(int fd, struct iovec *pieces, size_t count, const int *fds, size_t fd_count);
/* As readv(2); the caller owns descriptors that came with the bytes. More than SOCKET_FDS_MAX are closed. */
ssize_t socket_receive(int fd, struct iovec *pieces, size_t count, int fds[SOCKET_FDS_MAX], size_t *fd_count);

/* Checks that the other end of a unix socket belongs to this user (MR_DENIED), and returns its pid, or 0 for tcp. */
MR_MUST mr_status socket_peer(int fd, const address *address, int *pid);
