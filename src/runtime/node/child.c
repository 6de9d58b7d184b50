/* child.c — see child.h. */
#include "runtime/node/child.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net/pidfd.h"
#include "runtime/common/orphans.h"

typedef struct child {
    children *children;
    pid_t pid;
    pidfd pidfd;
    event_loop_watch *watch;
} child;

void children_init(children *children, event_loop *loop, child_exit_fn *on_exit, void *context) {
    *children = (struct children){.loop = loop, .on_exit = on_exit, .context = context};
}

static void child_free(child *child) {
    event_loop_watch_remove(child->watch);
    pidfd_close(&child->pidfd);
    map_remove(&child->children->by_pid, (uint64_t)child->pid);
    free(child);
}

uint64_t child_peak_bytes(pid_t pid) {
    siginfo_t how = {0};
    struct rusage used = {0};
    if (syscall(SYS_waitid, P_PID, pid, &how, WEXITED | WNOWAIT | WNOHANG, &used) != 0 || how.si_pid != pid) return 0;
    return (uint64_t)used.ru_maxrss * 1024;
}

static void ended(void *context) {
    child *child = context;
    if (!pidfd_ended(&child->pidfd)) return;
    children *children = child->children;
    pid_t pid = child->pid;
    orphans_end_group(pid);
    uint64_t peak_bytes = child_peak_bytes(pid);
    int status = orphans_reap(pid);
    child_free(child);
    children->on_exit(children->context, pid, status, peak_bytes);
}

mr_status children_add(children *children, pid_t pid) {
    child *child = XNEW(struct child, .children = children, .pid = pid, .pidfd = PIDFD_NONE);
    mr_status status = pidfd_of_pid(pid, &child->pidfd);
    if (status == MR_OK) status = event_loop_watch_add(children->loop, child->pidfd.fd, ended, child, &child->watch);
    if (status != MR_OK) {
        kill(pid, SIGKILL);
        orphans_reap(pid);
        pidfd_close(&child->pidfd);
        free(child);
        return status;
    }
    map_put(&children->by_pid, (uint64_t)pid, child);
    return MR_OK;
}

void children_kill(children *children, pid_t pid) {
    if (map_get(&children->by_pid, (uint64_t)pid) != NULL) orphans_end_group(pid);
}

void children_fini(children *children) {
    map_entry entry;
    map_for_each (slot, &children->by_pid) orphans_end_group((pid_t)slot.key);
    while (map_next(&children->by_pid, 0, &entry) != 0) {
        child *child = entry.value;
        orphans_reap(child->pid);
        child_free(child);
    }
    map_fini(&children->by_pid);
}
