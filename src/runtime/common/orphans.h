/* orphans.h — orphans: processes that tasks started and left behind.
 *
 * A node leads a POSIX session of its own, and each of its workers a process group in it (boot_begin_worker); processes
 * started by a task are in both, unless they leave on purpose. When a worker ends, the node kills the worker's group
 * while the worker's pid is still valid. When the node was killed, the reaper (reaper.h) or the driver, whichever is
 * first, kills the rest of the session. */
#pragma once
#include <sys/types.h>

void orphans_end_group(pid_t leader);    /* kills a group with its leader; call before the leader is reaped */
#define ORPHANS_SPARED "miniray-end"     /* process name of the reaper, which must not be killed */
void orphans_end_session(pid_t session); /* kills a session except its leader and reaper; the pid must be valid */
int orphans_reap(pid_t child);           /* waits for the end of a child; returns the status of waitpid */
/* Waits for the end of a node that is a child of this process, kills the rest of its session unless the node exited by
 * itself, and reaps the node. */
void orphans_bury(pid_t node);
