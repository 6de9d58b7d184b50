/* pidfd.c — see pidfd.h. */
#include "net/pidfd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text_file.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#define PIDFD_ID ((idtype_t)3) /* the kernel's P_PIDFD, which glibc lacks before 2.36 */

mr_status pidfd_of_child(int pid, int *out) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) return error_errno("cannot watch process %d", pid);
    *out = fd;
    return MR_OK;
}

mr_status pidfd_of_peer(int socket, int pid, int *out) {
    int fd = -1;
    socklen_t size = sizeof fd;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0 && fd >= 0) {
        *out = fd; /* Linux 6.5: refers to the process itself, even if its number was reused */
        return MR_OK;
    }
    if (pid <= 0) return error_set(MR_IO, "the peer's process (%d) is in another pid namespace", pid);
    mr_status status = pidfd_of_child(pid, out);
    return status != MR_OK && errno == ESRCH ? error_set(MR_PEER_DIED, "process %d has ended", pid) : status;
}

bool pidfd_ended(int pidfd) {
    struct pollfd wait = {.fd = pidfd, .events = POLLIN};
    return poll(&wait, 1, 0) > 0 && (wait.revents & (POLLIN | POLLHUP)) != 0;
}

bool pidfd_process_ended(int pid) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) return kill(pid, 0) != 0 && errno == ESRCH; /* pidfd_open also fails without a free descriptor */
    bool ended = pidfd_ended(fd);
    close(fd);
    return ended;
}

static bool from_parent(int pidfd, int *wait_status) {
    siginfo_t info = {0};
    if (waitid(PIDFD_ID, (id_t)pidfd, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return false;
    *wait_status = info.si_code == CLD_EXITED   ? W_EXITCODE(info.si_status, 0)
                   : info.si_code == CLD_DUMPED ? W_EXITCODE(0, info.si_status) | WCOREFLAG
                                                : W_EXITCODE(0, info.si_status);
    return true;
}

/* Fields after the name, which may contain spaces and brackets: the state is the first, the parent's pid the second,
 * the exit code the last one. */
static bool read_stat(int pid, char *state, int *parent, int *exit_code) {
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (!text_file_read(path, text, sizeof text)) return false;
    char *fields = strrchr(text, ')'), *last = strrchr(text, ' ');
    return fields != NULL && last != NULL && sscanf(fields + 1, " %c %d", state, parent) == 2 &&
           sscanf(last, "%d", exit_code) == 1;
}

/* A zombie keeps its number, so /proc described this process if the zombie still exists afterwards. */
static bool from_zombie(int pidfd, int pid, int *wait_status) {
    char state;
    int parent, exit_code;
    if (pid <= 0 || !read_stat(pid, &state, &parent, &exit_code) || state != 'Z') return false;
    if (syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) != 0 || !pidfd_ended(pidfd)) return false;
    *wait_status = exit_code;
    return true;
}

/* The first version of the kernel's struct pidfd_info; the headers of Debian 12 lack it. */
typedef struct info {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
} info;
_Static_assert(sizeof(info) == 64, "layout of the kernel");
#define INFO_EXIT (UINT64_C(1) << 3)

static bool from_record(int pidfd, int *wait_status) {
    info info = {.mask = INFO_EXIT};
    if (ioctl(pidfd, _IOWR(0xFF, 11, struct info), &info) != 0 || !(info.mask & INFO_EXIT)) return false;
    *wait_status = info.exit_code;
    return true;
}

bool pidfd_wait_status(int pidfd, int pid, int *wait_status) {
    return from_parent(pidfd, wait_status) || from_zombie(pidfd, pid, wait_status) || from_record(pidfd, wait_status);
}

bool pidfd_is_child(int pid) {
    char state;
    int parent, exit_code;
    return read_stat(pid, &state, &parent, &exit_code) && parent == getpid();
}
