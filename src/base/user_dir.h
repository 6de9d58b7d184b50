/* user_dir.h — the user's private directory: sockets of nodes, and session directories.
 *
 * The directory has mode 0700. It is at the first of these places that this process has, and where the directory
 * exists or can be created:
 *
 *   XDG_RUNTIME_DIR/miniray, TMPDIR/miniray-UID, /tmp/miniray-UID, /run/user/UID/miniray, /dev/shm/miniray-UID,
 *   /var/tmp/miniray-UID
 *
 * A place where another user has made the directory first, or that does not exist, is passed over. The environment
 * chooses, so processes of one user may use different places: user_dir_list has those of all. */
#pragma once
#include <stdbool.h>

#include "miniray/status.h"

enum { USER_DIR_MAX = 104, USER_DIRS = 6 };

/* Finds or creates the directory; warns about a place that it passes over. MR_DENIED, MR_IO: it can be at no place; the
 * text is about the first. */
MR_MUST mr_status user_dir_open(char out[USER_DIR_MAX]);
/* The path that user_dir_open would return; creates nothing. */
MR_MUST mr_status user_dir_find(char out[USER_DIR_MAX]);

/* Writes the paths at all places, in their order. Returns their number. */
unsigned user_dir_list(char out[USER_DIRS][USER_DIR_MAX]);

/* Whether the path is a directory of this user with mode 0700, and no link. */
bool user_dir_is_private(const char *path);
