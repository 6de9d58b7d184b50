/* child.h — child processes of a node. Each is watched by a pidfd; at its end it is reaped, and the processes that it
 * started are killed (orphans.h). */
#pragma once
#include <sys/types.h>

#include "base/map.h"
#include "net/event_loop.h"

typedef struct children {
    event_loop *loop;
    map by_pid;                                                 /* of child, owned */
    void (*on_exit)(void *context, pid_t pid, int wait_status); /* a child has ended; as from waitpid */
    void *context;
} children;

void children_init(children *children, event_loop *loop, void (*on_exit)(void *context, pid_t pid, int wait_status),
                   void *context);
void children_fini(children *children); /* kills and reaps all */

MR_MUST mr_status children_add(children *children, pid_t pid); /* on failure the process is killed and reaped */
void children_kill(children *children, pid_t pid);             /* SIGKILL; no-op for other processes */
