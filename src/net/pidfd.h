/* pidfd.h — process handle by pidfd: not reused by another process, and readable when the process has ended.
 */
#pragma once
#include <stdbool.h>

#include "miniray/status.h"

/* Opens a pidfd of the process at the other end of a unix socket: the one that connected it or listens. `pid` comes
 * from SO_PEERCRED. MR_PEER_DIED: the process has ended. MR_IO: the kernel has no pidfds (before Linux 5.3). */
MR_MUST mr_status pidfd_of_peer(int socket, int pid, int *out);

/* Opens a pidfd of a child that has not been waited for. */
MR_MUST mr_status pidfd_of_child(int pid, int *out);

bool pidfd_ended(int pidfd);
/* Whether the process with this number has ended, even if its parent has not waited for it yet. If the number was
 * reused, the result is about the new process. */
bool pidfd_process_ended(int pid);

/* Stores the wait status as waitpid would, from one of: waiting as the parent (without reaping the child), the zombie
 * in /proc, or the kernel's own record (Linux 6.15). Returns false if none has it. */
bool pidfd_wait_status(int pidfd, int pid, int *wait_status);

bool pidfd_is_child(int pid); /* whether a child of this process; false too if it has been waited for */
