/* socket.h — the system's stream sockets, non-blocking and closed on exec.
 *
 * Everything that differs between tcp and unix sockets is here. Descriptors are owned by the caller. */
#pragma once
#include <sys/uio.h>

#include "net/socket/address.h"

enum { SOCKET_FDS_MAX = 2 }; /* that are passed together */

/* A socket that listens at a tcp address (for unix sockets: net/unix_listener.h); *actual is the address with the real
 * port. MR_EXISTS: the address is in use. */
MR_MUST mr_status socket_listen(const address *wanted, int *fd, address *actual);

/* A socket for socket_connect; for tcp without Nagle's delay. */
MR_MUST mr_status socket_create(const address *address, int *fd);

/* Result of connect(2): 0: connected; EINPROGRESS: wait until it is writable; EAGAIN: the other side accepts slowly,
 * try again later; else it failed. */
int socket_connect(int fd, const address *address);
int socket_error(int fd); /* takes the error that is pending, an errno; 0: none */

/* The next connection to a socket that listens at this address, set up as by socket_create; -1 with errno. */
int socket_accept(int listener, const address *address);

/* As sendmsg(2), never with a signal; `fds` travel with the first byte and stay the caller's. */
ssize_t socket_pass(int fd, struct iovec *pieces, size_t count, const int *fds, size_t fd_count);
/* As readv(2); descriptors that came with the bytes are the caller's. More than SOCKET_FDS_MAX are not taken. */
ssize_t socket_receive(int fd, struct iovec *pieces, size_t count, int fds[SOCKET_FDS_MAX], size_t *fd_count);

/* Checks that the other end of a unix socket belongs to our user (MR_DENIED), and gives its pid, or 0 for tcp. */
MR_MUST mr_status socket_peer(int fd, const address *address, int *pid);
