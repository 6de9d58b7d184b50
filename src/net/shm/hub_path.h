/* hub_path.h — unix socket file of the broker: at most one broker listens there, and only its user may connect.
 *
 * The file has mode 0600 from the moment it exists. The socket file of a dead broker is replaced; that of a living one,
 * and any file that is not a socket of this user, is left alone. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "miniray/status.h"

typedef struct hub_path {
    int fd;     /* owned: listens, does not block */
    char *path; /* owned */
    dev_t device;
    ino_t inode; /* which file it is, so that another hub's is never removed */
} hub_path;

/* `alone`: nobody else makes hubs in that folder, so that no lock is needed to replace a dead one's file.
 * MR_EXISTS: somebody lives there, or something else is in the way. MR_INVALID: no path for a socket. MR_DENIED, MR_IO.
 */
MR_MUST mr_status hub_path_open(const char *path, bool alone, hub_path *out);
void hub_path_close(hub_path *path); /* removes the file */
/* Removes what a dead hub left there; leaves anything else alone. `alone` as hub_path_open. */
void hub_path_clear(const char *path, bool alone);
