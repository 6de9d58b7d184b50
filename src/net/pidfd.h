/* pidfd.h — process handle by pidfd: not reused by another process, and readable when the process has ended.
 */
#pragma once
#include <stdbool.h>

#include "miniray/status.h"

/* Of the process at the other end of a unix socket: the one that connected it, or listened. `pid` comes from
 * SO_PEERCRED. MR_PEER_DIED: it has ended. MR_IO where the kernel has no pidfds (before Linux 5.3). */
MR_MUST mr_status pidfd_of_peer(int socket, int pid, int *out);

/* Of a child that has not been waited for. */
MR_MUST mr_status pidfd_of_child(int pid, int *out);

bool pidfd_ended(int pidfd);
/* Whether the process of that number has ended, even if its parent has not waited for it yet. A number that another one
 * has been given since is that one's. */
bool pidfd_process_ended(int pid);

/* How it ended, as waitpid would put it, if this machine still knows: as the parent (the child is left to be waited
 * for), from the zombie in /proc, or from the kernel's own record (Linux 6.15). False: not known. */
bool pidfd_wait_status(int pidfd, int pid, int *wait_status);

bool pidfd_is_child(int pid); /* of this process; false too if it has been waited for */
