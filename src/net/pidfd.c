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
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/libc.h"
#include "base/text_file.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#define PIDFD_ID ((idtype_t)3) /* the kernel's P_PIDFD, which glibc lacks before 2.36 */

/* ---- /proc/PID/stat. */

typedef struct process_stat {
    char state;
    int parent, threads, exit_code;
    unsigned long long started;
} process_stat;

/* Fields after the name, which may contain spaces and brackets: the state is the first, the parent's pid the second,
 * the number of threads the 18th, the start the 20th, the exit code the last one. */
static bool read_stat(int pid, process_stat *out) {
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (!text_file_read(path, text, sizeof text)) return false;
    char *fields = strrchr(text, ')'), *last = strrchr(text, ' ');
    return fields != NULL && last != NULL &&
           sscanf(fields + 1, " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d %*s %llu",
                  &out->state, &out->parent, &out->threads, &out->started) == 4 &&
           sscanf(last, "%d", &out->exit_code) == 1;
}

/* A process whose first thread alone has ended is a zombie with threads. */
static bool is_zombie(const process_stat *stat) {
    return (stat->state == 'Z' && stat->threads <= 1) || stat->state == 'X';
}

static bool is_missing(int pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

/* ---- Opening. */

static mr_status process_is_gone(int pid) { return error_set(MR_PEER_DIED, "process %d has ended", pid); }

static mr_status open_timer(int pid, pidfd *out) {
    const struct itimerspec ticks = {.it_value.tv_nsec = PIDFD_LOOK_MS * 1000000,
                                     .it_interval.tv_nsec = PIDFD_LOOK_MS * 1000000};
    process_stat stat;
    if (!read_stat(pid, &stat))
        return is_missing(pid) ? process_is_gone(pid)
                               : error_set(MR_IO,
                                           "cannot watch process %d: pidfd_open is missing or forbidden, and "
                                           "/proc/%d/stat cannot be read; mount /proc",
                                           pid, pid);
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0 || timerfd_settime(fd, 0, &ticks, NULL) != 0) {
        mr_status status = error_errno("cannot watch process %d: neither pidfd_open nor timerfd_create works", pid);
        if (fd >= 0) close(fd);
        return status;
    }
    *out = (pidfd){.fd = fd, .pid = pid, .timed = true, .started = stat.started};
    return MR_OK;
}

mr_status pidfd_of_pid(int pid, pidfd *out) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && errno == ESRCH) return process_is_gone(pid);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EACCES)) return open_timer(pid, out);
    if (fd < 0) return error_errno("cannot watch process %d: pidfd_open", pid);
    *out = (pidfd){.fd = fd, .pid = pid};
    return MR_OK;
}

mr_status pidfd_of_peer(int socket, int pid, pidfd *out) {
    int fd = -1;
    socklen_t size = sizeof fd;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0 && fd >= 0) {
        *out =
            (pidfd){.fd = fd, .pid = pid}; /* Linux 6.5: refers to the process itself, even if its number was reused */
        return MR_OK;
    }
    if (pid <= 0) return error_set(MR_IO, "the peer's process (%d) is in another pid namespace", pid);
    return pidfd_of_pid(pid, out);
}

void pidfd_close(pidfd *handle) {
    if (handle->fd >= 0) close(handle->fd);
    *handle = PIDFD_NONE;
}

/* ---- Ends. */

static bool has_ended(const pidfd *handle) {
    process_stat stat;
    return read_stat(handle->pid, &stat) ? stat.started != handle->started || is_zombie(&stat)
                                         : is_missing(handle->pid);
}

bool pidfd_ended(const pidfd *handle) {
    if (handle->timed) {
        uint64_t ticks;
        (void)!read(handle->fd, &ticks, sizeof ticks); /* not readable before the next tick */
        return has_ended(handle);
    }
    struct pollfd wait = {.fd = handle->fd, .events = POLLIN};
    return poll(&wait, 1, 0) > 0 && (wait.revents & (POLLIN | POLLHUP)) != 0;
}

bool pidfd_await(const pidfd *handle, int timeout_ms) {
    int64_t until_us = clock_deadline_us(clock_now_us(clock_real()), timeout_ms < 0 ? -1 : timeout_ms * INT64_C(1000));
    while (!pidfd_ended(handle)) {
        int64_t left_us = until_us - clock_now_us(clock_real());
        if (timeout_ms >= 0 && left_us <= 0) return false;
        struct pollfd wait = {.fd = handle->fd, .events = POLLIN};
        (void)poll(&wait, 1, timeout_ms < 0 ? -1 : (int)(left_us / 1000) + 1);
    }
    return true;
}

void pidfd_signal(const pidfd *handle, int signal) {
    if (!handle->timed && syscall(SYS_pidfd_send_signal, handle->fd, signal, NULL, 0) == 0) return;
    if (handle->pid > 0 && !pidfd_ended(handle)) kill(handle->pid, signal); /* Linux 5.0, or a sandbox */
}

bool pidfd_process_ended(int pid) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0) {
        bool ended = pidfd_ended(&(pidfd){.fd = fd, .pid = pid});
        close(fd);
        return ended;
    }
    process_stat stat; /* pidfd_open also fails without a free descriptor, and then /proc cannot be read either */
    return read_stat(pid, &stat) ? is_zombie(&stat) : is_missing(pid);
}

/* ---- Causes of ends. */

static bool from_parent(const pidfd *handle, int *wait_status) {
    siginfo_t info = {0};
    int flags = WEXITED | WNOHANG | WNOWAIT;
    int failed = handle->timed ? EINVAL : waitid(PIDFD_ID, (id_t)handle->fd, &info, flags) == 0 ? 0 : errno;
    if (failed == EINVAL && handle->pid > 0) /* Linux 5.3 has pidfds, but cannot wait for them */
        failed = waitid(P_PID, (id_t)handle->pid, &info, flags) == 0 ? 0 : errno;
    if (failed != 0 || info.si_pid == 0) return false;
    *wait_status = info.si_code == CLD_EXITED   ? W_EXITCODE(info.si_status, 0)
                   : info.si_code == CLD_DUMPED ? W_EXITCODE(0, info.si_status) | WCOREFLAG
                                                : W_EXITCODE(0, info.si_status);
    return true;
}

/* A zombie keeps its number, so /proc described this process if the zombie still exists afterwards. */
static bool from_zombie(const pidfd *handle, int *wait_status) {
    process_stat stat;
    if (handle->pid <= 0 || !read_stat(handle->pid, &stat) || !is_zombie(&stat)) return false;
    bool same = handle->timed ? stat.started == handle->started
                              : syscall(SYS_pidfd_send_signal, handle->fd, 0, NULL, 0) == 0 && pidfd_ended(handle);
    if (same) *wait_status = stat.exit_code;
    return same;
}

/* The first version of the kernel's struct pidfd_info; the headers of Debian 12 lack it. */
typedef struct info {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
} info;
_Static_assert(sizeof(info) == 64, "layout of the kernel");
#define INFO_EXIT (UINT64_C(1) << 3)

static bool from_record(const pidfd *handle, int *wait_status) {
    info info = {.mask = INFO_EXIT};
    if (handle->timed || ioctl(handle->fd, _IOWR(0xFF, 11, struct info), &info) != 0 || !(info.mask & INFO_EXIT))
        return false;
    *wait_status = info.exit_code;
    return true;
}

bool pidfd_wait_status(const pidfd *handle, int *wait_status) {
    return from_parent(handle, wait_status) || from_zombie(handle, wait_status) || from_record(handle, wait_status);
}

void pidfd_status_text(int wait_status, char *out, size_t size) {
    if (WIFSIGNALED(wait_status)) {
        int signal = WTERMSIG(wait_status);
        snprintf(out, size, "was killed by signal %d (SIG%s)", signal, libc_signal_name(signal));
    } else {
        snprintf(out, size, "exited with status %d", WEXITSTATUS(wait_status));
    }
}

bool pidfd_is_child(int pid) {
    process_stat stat;
    return read_stat(pid, &stat) && stat.parent == getpid();
}
