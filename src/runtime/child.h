/* child.h — the processes that a node has started: known by pidfd when they end, and reaped at once. */
#pragma once
#include <sys/types.h>

#include "base/list.h"
#include "net/loop.h"

typedef struct children {
    loop *loop;
    list list;
    uint32_t count;
    /* Called when one has ended; `wait_status` as of waitpid; `joined` as children_joined said. */
    void (*on_exit)(void *context, pid_t pid, int wait_status, bool joined);
    void *context;
} children;

void children_init(children *children, loop *loop,
                   void (*on_exit)(void *context, pid_t pid, int wait_status, bool joined), void *context);
void children_fini(children *children); /* kills and reaps all */

MR_MUST mr_status children_add(children *children, pid_t pid); /* on failure it is killed and reaped */
void children_joined(children *children, pid_t pid);           /* it has come as far as joining the node */
void children_kill(children *children, pid_t pid);             /* SIGKILL; no-op if it is no child of ours */
