/* new_file.h — files that this process creates in a folder where other users may have put something first.
 *
 * Neither function writes through a link or into another user's file. (A folder on the way to the file is trusted.) */
#pragma once
#include <sys/types.h>

#include "miniray/status.h"

/* Creates an empty file for writing, which is renamed later: an old file or link of this name is removed first. Returns
 * the descriptor, which the caller owns; -1 with errno. */
int new_file_create(const char *path, mode_t mode);

/* Opens the user's output file: creates it, or empties the user's own. A device is opened as it is. MR_DENIED: a link,
 * a file with several names, or another user's; MR_IO. */
MR_MUST mr_status new_file_open(const char *path, mode_t mode, int *fd);
