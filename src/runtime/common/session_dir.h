/* session_dir.h — session directories: files of a user's nodes, and how long they are kept.
 *
 *   BASE              the user's private directory (base/user_dir.h)
 *   BASE/node         the socket of the standalone node: the address "auto"
 *   BASE/RUN          session directory of a node, by time and process: 20261115-051500-4711-0
 *   BASE/RUN/hub      the socket of a private node
 *   BASE/RUN/NAME.log output of its processes, kept after the session
 *   BASE/RUN/NAME     link to a directory elsewhere that is removed with it (socket_dir.h)
 *
 * The directory of a session without output is removed. Of the others the newest SESSION_DIR_KEPT stay. A running node
 * has a lock on its directory, which other nodes never remove; a node that is killed loses its lock. On a file system
 * without flock (Lustre) no process removes old sessions. */
#pragma once
#include <dirent.h>

#include "miniray/status.h"

enum { SESSION_DIR_MAX = 104, SESSION_DIR_KEPT = 16 };

typedef struct session_dir { /* directory of a running session */
    char path[SESSION_DIR_MAX];
    int lock_fd; /* owned */
} session_dir;

/* The socket's path for an address: "auto", or the path itself. Creates nothing. */
MR_MUST mr_status session_dir_socket(const char *address, char out[SESSION_DIR_MAX]);

/* For scandir(3): the session directories of BASE. */
int session_dir_filter(const struct dirent *entry);

/* Creates the directory of a new session; removes old ones. */
MR_MUST mr_status session_dir_open(session_dir *out);
/* The same session, in its node's process. */
MR_MUST mr_status session_dir_adopt(const char *path, session_dir *out);
void session_dir_leave(session_dir *run); /* keeps the directory: another process has adopted it */
void session_dir_close(session_dir *run); /* the session is over: removes files without content */
void session_dir_clear(const char *path); /* the same for a killed node, ignoring locks */
