/* socket_dir.h — temporary directory of a session with a short path, for sockets, whose addresses are limited.
 *
 * The directory is in TMPDIR. If that is too long or not writable, it is in the first of /tmp, /dev/shm and /var/tmp
 * that is writable. A symbolic link in the session directory (session_dir.h) points to it: it is removed with the
 * session, also when the node was killed. */
#pragma once
#include "miniray/status.h"
#include "runtime/common/session_dir.h"

enum { SOCKET_DIR_MAX = 36 };

typedef struct socket_dir {
    char path[SOCKET_DIR_MAX + 1];
    char link[SESSION_DIR_MAX + 16]; /* "": none */
} socket_dir;

/* `run` is the session directory; NULL: there is no link, and the caller removes the directory. `prefix` is how the new
 * name begins, before six random letters: "ps-". */
MR_MUST mr_status socket_dir_open(const char *run, const char *prefix, socket_dir *out);
void socket_dir_close(socket_dir *dir); /* with its contents */
void socket_dir_clear(
    const char *link); /* the same by its link; a link to anything but a private directory of this user stays */
