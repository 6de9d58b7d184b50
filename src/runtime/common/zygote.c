/* zygote.c — see zygote.h. */
#include "runtime/common/zygote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "runtime/common/boot.h"
#include "runtime/common/std_stream.h"

static int count_threads(void) {
    DIR *folder = opendir("/proc/self/task");
    int count = 0;
    if (folder == NULL) return 1;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void report(zygote_kind kind, uint32_t number, int value) {
    zygote_report packet = {.kind = kind, .number = number, .value = value};
    while (send(BOOT_ZYGOTE_FD, &packet, sizeof packet, MSG_NOSIGNAL) < 0 && errno == EINTR) {}
}

/* fork(2) with CLONE_PARENT, with the steps of the C library for a process of one thread: writes the thread's id where
 * the library keeps it, and registers the list of robust locks again, which a copy does not inherit. The address is
 * passed twice since architectures differ in the argument's position; the other one is ignored. */
static pid_t copy_beside(void) {
    int *thread_id = NULL;
    void *robust = NULL;
    size_t size = 0;
    long flags = CLONE_PARENT | SIGCHLD;
    if (prctl(PR_GET_TID_ADDRESS, &thread_id) == 0 && thread_id != NULL)
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
    syscall(SYS_get_robust_list, 0, &robust, &size);
    long pid = syscall(SYS_clone, flags, NULL, NULL, thread_id, thread_id);
    if (pid == 0 && robust != NULL) syscall(SYS_set_robust_list, robust, size);
    return (pid_t)pid;
}

/* Whether the copy is a child of this process: gVisor accepts CLONE_PARENT, and ignores it. The copy ends by itself
 * (become_worker). */
static bool is_child(pid_t copy) {
    pid_t ended = copy <= 0 ? -1 : waitpid(copy, NULL, WNOHANG);
    if (ended == 0) {
        kill(copy, SIGKILL);
        while (waitpid(copy, NULL, 0) < 0 && errno == EINTR) {}
    }
    return ended >= 0;
}

/* Redirects a stream to a file of the worker, which the node finds by the worker's pid (worker_log.h). On failure the
 * worker writes where the zygote does. */
static void open_log(std_stream std_stream) {
    char path[256];
    snprintf(path, sizeof path, "%.200s/%d%s", boot_run(), (int)getpid(), std_stream_end(std_stream));
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return;
    dup2(fd, std_stream_fd(std_stream));
    close(fd);
}

static void become_worker(uint32_t number) {
    boot_begin_worker();
    if (!boot_has_node()) _exit(1); /* the node died before the worker was set to die with it */
    for (std_stream i = 0; boot_run()[0] != '\0' && i < STD_STREAMS; i++) open_log(i);
    report(ZYGOTE_MADE, number, getpid());
    close(BOOT_ZYGOTE_FD);
}

/* Returns true in the copy. */
static bool make_copy(uint32_t number, const mr_fork *hooks) {
    int threads = count_threads();
    if (threads > 1) {
        report(ZYGOTE_REFUSED, number, threads);
        return false;
    }
    fflush(NULL);
    if (hooks->before != NULL) hooks->before();
    pid_t pid = copy_beside();
    int failed = errno;
    if (pid == 0) {
        become_worker(number);
        if (hooks->child != NULL) hooks->child(number);
        return true;
    }
    if (is_child(pid)) {
        pid = -1;
        failed = ENOSYS;
    }
    if (hooks->parent != NULL) hooks->parent();
    report(pid > 0 ? ZYGOTE_MADE : ZYGOTE_REFUSED, number, pid > 0 ? pid : -failed);
    return false;
}

void zygote_serve(const mr_fork *hooks) {
    static const mr_fork none;
    int threads = count_threads();
    report(threads > 1 ? ZYGOTE_REFUSED : ZYGOTE_READY, 0, threads > 1 ? threads : 0);
    (void)clock_ticks_per_us(); /* measured once, inherited by copies */
    for (;;) {
        zygote_request request;
        ssize_t got = recv(BOOT_ZYGOTE_FD, &request, sizeof request, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got != (ssize_t)sizeof request) _exit(0); /* the node has closed the socket */
        if (make_copy(request.number, hooks == NULL ? &none : hooks)) return;
    }
}
