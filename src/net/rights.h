/* rights.h — file descriptors sent with the bytes of a unix socket (SCM_RIGHTS).
 *
 * The space is the caller's, and lives as long as the message. */
#pragma once
#include <stddef.h>
#include <sys/socket.h>

enum { RIGHTS_MAX = 4 }; /* that travel together; the kernel closes what comes beyond */

typedef union rights { /* aligned as the kernel wants it */
    struct cmsghdr first;
    char space[CMSG_SPACE(RIGHTS_MAX * sizeof(int))];
} rights;

void rights_send(struct msghdr *message, rights *rights, const int *fds, size_t count); /* borrowed; none: nothing */

void rights_expect(struct msghdr *message, rights *rights);
/* Of a message that was received: how many came, at most `most`, which are the caller's; others are closed. */
size_t rights_take(struct msghdr *message, int *fds, size_t most);
