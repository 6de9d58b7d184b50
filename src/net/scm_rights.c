/* scm_rights.c — see scm_rights.h. */
#include "net/scm_rights.h"

#include <string.h>
#include <unistd.h>

#include "base/assert.h"

void scm_rights_send(struct msghdr *message, scm_rights *rights, const int *fds, size_t count) {
    size_t size = count * sizeof *fds;
    MR_ASSERT(count <= SCM_RIGHTS_MAX);
    if (count == 0) return;
    memset(rights, 0, sizeof *rights);
    message->msg_control = rights;
    message->msg_controllen = CMSG_SPACE(size);
    rights->first.cmsg_level = SOL_SOCKET;
    rights->first.cmsg_type = SCM_RIGHTS;
    rights->first.cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(&rights->first), fds, size);
}

void scm_rights_expect(struct msghdr *message, scm_rights *rights) {
    message->msg_control = rights;
    message->msg_controllen = sizeof *rights;
}

size_t scm_rights_take(struct msghdr *message, int *fds, size_t most) {
    size_t taken = 0;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at != NULL; at = CMSG_NXTHDR(message, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof *fds;
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(at) + i * sizeof fd, sizeof fd);
            if (taken < most)
                fds[taken++] = fd;
            else
                close(fd);
        }
    }
    return taken;
}
