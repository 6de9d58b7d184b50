/* child.c — see child.h. */
#include "runtime/child.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/pidfd.h"

typedef struct child {
    list place;
    children *children;
    pid_t pid;
    int pidfd;
    bool joined;
    loop_watch *watch;
} child;

void children_init(children *children, loop *loop,
                   void (*on_exit)(void *context, pid_t pid, int wait_status, bool joined), void *context) {
    *children = (struct children){.loop = loop, .on_exit = on_exit, .context = context};
    list_init(&children->list);
}

static int reap(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

static void child_free(child *child) {
    loop_watch_remove(child->watch);
    close(child->pidfd);
    list_remove(&child->place);
    child->children->count--;
    free(child);
}

static void ended(void *context) {
    child *child = context;
    children *children = child->children;
    pid_t pid = child->pid;
    bool joined = child->joined;
    int status = reap(pid);
    child_free(child);
    children->on_exit(children->context, pid, status, joined);
}

mr_status children_add(children *children, pid_t pid) {
    child *child = xcalloc(1, sizeof *child);
    *child = (struct child){.children = children, .pid = pid, .pidfd = -1};
    mr_status status = pidfd_of_child(pid, &child->pidfd);
    if (status == MR_OK) status = loop_watch_add(children->loop, child->pidfd, ended, child, &child->watch);
    if (status != MR_OK) {
        kill(pid, SIGKILL);
        reap(pid);
        if (child->pidfd >= 0) close(child->pidfd);
        free(child);
        return status;
    }
    list_push_back(&children->list, &child->place);
    children->count++;
    return MR_OK;
}

void children_joined(children *children, pid_t pid) {
    list_for_each (at, &children->list) {
        child *child = container_of(at, struct child, place);
        if (child->pid == pid) child->joined = true;
    }
}

void children_kill(children *children, pid_t pid) {
    list_for_each (at, &children->list) {
        if (container_of(at, child, place)->pid == pid) kill(pid, SIGKILL);
    }
}

void children_fini(children *children) {
    list_for_each (at, &children->list) kill(container_of(at, child, place)->pid, SIGKILL);
    while (!list_empty(&children->list)) {
        child *child = container_of(children->list.next, struct child, place);
        reap(child->pid);
        child_free(child);
    }
}
