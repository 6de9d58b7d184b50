/* unix_listener.h — a unix socket that listens, and its file: one process listens there, and only its user may connect.
 *
 * The file has mode 0600 from the moment it exists. The file of a process that is gone is replaced; that of a living
 * one, and anything that is no socket of this user, stays as it is. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include "miniray/status.h"

typedef struct unix_listener {
    int fd;     /* owned: listens, does not block */
    char *path; /* owned */
    dev_t device;
    ino_t inode; /* which file it is, so that another process's is never removed */
} unix_listener;

/* `type` is SOCK_STREAM (a stream's) or SOCK_SEQPACKET (the broker's), `backlog` as for listen. `alone`: no other
 * process makes this file, so that no lock is needed to replace one that a dead process left. MR_EXISTS: a process
 * listens there, or something else is in the way. MR_INVALID: no path for a socket. MR_DENIED, MR_IO. */
MR_MUST mr_status unix_listener_open(const char *path, int type, int backlog, bool alone, unix_listener *out);
void unix_listener_close(unix_listener *listener); /* removes the file */
/* Removes what a dead process left there; leaves anything else alone. `type` and `alone` as unix_listener_open. */
void unix_listener_clear(const char *path, int type, bool alone);

/* The address of a socket with this file. MR_INVALID: no path for one. */
MR_MUST mr_status unix_listener_address(const char *path, struct sockaddr_un *out);
