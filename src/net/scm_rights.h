/* scm_rights.h — file descriptors sent with the bytes of a unix socket (SCM_RIGHTS).
 *
 * The space is the caller's, and lives as long as the message. */
#pragma once
#include <stddef.h>
#include <sys/socket.h>

enum { SCM_RIGHTS_MAX = 4 }; /* that travel together; the kernel closes further ones */

typedef union scm_rights { /* aligned as the kernel wants it */
    struct cmsghdr first;
    char space[CMSG_SPACE(SCM_RIGHTS_MAX * sizeof(int))];
} scm_rights;

/* borrowed; none: nothing */
void scm_rights_send(struct msghdr *message, scm_rights *rights, const int *fds, size_t count);

void scm_rights_expect(struct msghdr *message, scm_rights *rights);
/* Of a message that was received: how many came, at most `most`, which are the caller's; others are closed. */
size_t scm_rights_take(struct msghdr *message, int *fds, size_t most);
