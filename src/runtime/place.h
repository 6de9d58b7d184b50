/* place.h — temporary directory of a session with a short path, for sockets, whose addresses are limited.
 *
 * The directory is in TMPDIR, and a symbolic link in the session directory (rundir.h) points to it: it is removed with
 * the session, also when the node was killed. */
#pragma once
#include "miniray/status.h"
#include "runtime/rundir.h"

enum { PLACE_MAX = 36 };

typedef struct place {
    char path[PLACE_MAX + 1];
    char link[RUNDIR_MAX + 16];
} place;

/* `run` is the folder of the run, `prefix` what the new one is called before six letters of chance: "ps-", say. */
MR_MUST mr_status place_open(const char *run, const char *prefix, place *out);
void place_close(place *place); /* with all that is in it */
void place_clear(
    const char *link); /* the same by its link; a link to anything but a folder of this user's alone stays */
