/* unix_listener.h — listening unix socket and its file: one process listens there, and only its user may connect.
 *
 * The file has mode 0600 from its creation. The file of a process that has ended is replaced; the file of a live
 * process and anything that is not a socket of this user is left unchanged. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include "miniray/status.h"

typedef struct unix_listener {
    int fd;     /* owned: listening, non-blocking */
    char *path; /* owned */
    dev_t device;
    ino_t inode; /* identifies the file, so that another process's file is never removed */
} unix_listener;

/* `type` is SOCK_STREAM (socket transport) or SOCK_SEQPACKET (broker), `backlog` as for listen. `alone`: no other
 * process creates this file, so that replacing a dead process's file needs no lock. MR_EXISTS: a process listens there,
 * or the path is something else. MR_INVALID: no valid socket path. MR_DENIED, MR_IO. */
MR_MUST mr_status unix_listener_open(const char *path, int type, int backlog, bool alone, unix_listener *out);
void unix_listener_close(unix_listener *listener); /* removes the file */
/* Removes the file of a dead process; leaves anything else unchanged. `type` and `alone` as for unix_listener_open. */
void unix_listener_clear(const char *path, int type, bool alone);

/* The socket address of this path. MR_INVALID: no valid socket path. */
MR_MUST mr_status unix_listener_address(const char *path, struct sockaddr_un *out);
