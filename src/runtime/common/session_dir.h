/* session_dir.h — session directories: files of a user's nodes, and how long they are kept.
 *
 *   BASE              XDG_RUNTIME_DIR/miniray, else TMPDIR/miniray-UID, else /tmp/miniray-UID; mode 0700
 *   BASE/node         the socket of the standalone node: the address "auto"
 *   BASE/RUN          a folder for each run of a node, by time and process: 20261115-051500-4711-0
 *   BASE/RUN/hub      the socket of a private node
 *   BASE/RUN/NAME.log what its processes printed, kept after the run
 *   BASE/RUN/NAME     a link to a folder elsewhere that goes with it (socket_dir.h)
 *
 * A run that printed nothing leaves nothing. Of the others the newest SESSION_DIR_KEPT stay. A run that is under way
 * has a lock on its folder and is never removed by others; a node that was killed loses its lock with its life. */
#pragma once
#include "miniray/status.h"

enum { SESSION_DIR_MAX = 104, SESSION_DIR_KEPT = 16 };

typedef struct session_dir { /* a run that is under way */
    char path[SESSION_DIR_MAX];
    int lock_fd; /* owned */
} session_dir;

/* Finds or makes BASE. MR_DENIED: it belongs to somebody else, or others can look in. */
MR_MUST mr_status session_dir_base(char out[SESSION_DIR_MAX]);
/* The socket's path for an address: "auto", or the path itself. */
MR_MUST mr_status session_dir_socket(const char *address, char out[SESSION_DIR_MAX]);

/* A new run, with a folder of its own; old ones go. */
MR_MUST mr_status session_dir_open(session_dir *out);
/* The same run, in the process that is its node. */
MR_MUST mr_status session_dir_adopt(const char *path, session_dir *out);
void session_dir_leave(session_dir *run); /* it stays as it is: another process has adopted it */
void session_dir_close(session_dir *run); /* it is over: what is not worth keeping goes */
void session_dir_clear(const char *path); /* the same of one whose node was killed, whoever has a lock on it */
