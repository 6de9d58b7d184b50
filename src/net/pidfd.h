/* pidfd.h — process handle: not reused by another process, and readable when the process has ended.
 *
 * Usually the handle is a pidfd (Linux 5.3). Where the kernel has none, or a sandbox forbids pidfd_open, the handle is
 * a timer, readable every PIDFD_LOOK_MS, and the process is identified by its number and its start (/proc/PID/stat).
 * So a callback on `fd` asks pidfd_ended first, which makes a timer wait again. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

enum { PIDFD_LOOK_MS = 100 };

typedef struct pidfd {
    int fd; /* owned; -1: none */
    int pid;
    bool timed;       /* fd is a timer */
    uint64_t started; /* of a timer: start of the process, in clock ticks since boot */
} pidfd;

#define PIDFD_NONE ((pidfd){.fd = -1})

/* Opens a handle of the process at the other end of a unix socket: the one that connected it or listens. `pid` comes
 * from SO_PEERCRED. MR_PEER_DIED: the process has ended. */
MR_MUST mr_status pidfd_of_peer(int socket, int pid, pidfd *out);

/* The same by number: of a child that has not been waited for, or of the parent if getppid still returns its number
 * afterwards. */
MR_MUST mr_status pidfd_of_pid(int pid, pidfd *out);
void pidfd_close(pidfd *handle); /* no-op for PIDFD_NONE, which *handle is afterwards */

bool pidfd_ended(const pidfd *handle);
bool pidfd_await(const pidfd *handle, int timeout_ms); /* < 0: no limit; false: timed out */
void pidfd_signal(const pidfd *handle, int signal);    /* no-op if the process has ended */
/* Whether the process with this number has ended, even if its parent has not waited for it yet. If the number was
 * reused, the result is about the new process. */
bool pidfd_process_ended(int pid);

/* Stores the wait status as waitpid would, from one of: waiting as the parent (without reaping the child), the zombie
 * in /proc, or the kernel's own record (Linux 6.15). Returns false if none has it. */
bool pidfd_wait_status(const pidfd *handle, int *wait_status);

/* "exited with status 3", "was killed by signal 9 (SIGKILL)" */
void pidfd_status_text(int wait_status, char *out, size_t size);

bool pidfd_is_child(int pid); /* whether a child of this process; false too if it has been waited for */
