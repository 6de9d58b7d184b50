/* scm_rights.h — file descriptors sent with the bytes of a unix socket (SCM_RIGHTS).
 *
 * The caller provides the space, which must stay valid as long as the message. */
#pragma once
#include <stddef.h>
#include <sys/socket.h>

enum { SCM_RIGHTS_MAX = 4 }; /* descriptors per message; the kernel closes further ones */

typedef union scm_rights { /* aligned as the kernel requires */
    struct cmsghdr first;
    char space[CMSG_SPACE(SCM_RIGHTS_MAX * sizeof(int))];
} scm_rights;

/* The descriptors are borrowed; with count 0 nothing is added. */
void scm_rights_send(struct msghdr *message, scm_rights *rights, const int *fds, size_t count);

void scm_rights_expect(struct msghdr *message, scm_rights *rights);
/* Takes the descriptors of a received message: returns their number, at most `most`, which the caller owns; closes
 * others. */
size_t scm_rights_take(struct msghdr *message, int *fds, size_t most);
