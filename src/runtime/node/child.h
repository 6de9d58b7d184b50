/* child.h — child processes of a node. Each is watched by a pidfd; at its end it is reaped, and the processes that it
 * started are killed (orphans.h). */
#pragma once
#include <sys/types.h>

#include "base/map.h"
#include "net/event_loop.h"

/* A child has ended, as from waitpid; peak_bytes as child_peak_bytes. */
typedef void child_exit_fn(void *context, pid_t pid, int wait_status, uint64_t peak_bytes);

typedef struct children {
    event_loop *loop;
    map by_pid; /* of child, owned */
    child_exit_fn *on_exit;
    void *context;
} children;

void children_init(children *children, event_loop *loop, child_exit_fn *on_exit, void *context);
void children_fini(children *children); /* kills and reaps all */

MR_MUST mr_status children_add(children *children, pid_t pid); /* on failure the process is killed and reaped */
/* Largest resident memory of a child that has ended and was not waited for; 0: not known. */
uint64_t child_peak_bytes(pid_t pid);
void children_kill(children *children, pid_t pid); /* SIGKILL; no-op for other processes */
