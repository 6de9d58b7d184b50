/* scribe.h — an archive in front of another one (cluster/archive.h), which knows what that could not write.
 *
 * A keeper answers whoever asks for a decision with the status, and is asked again; nobody else would hear that the
 * disk takes nothing. Here it is, until something has been written.
 *
 * Ownership   what is below is borrowed for its life. Threads: the keeper's. */
#pragma once
#include "cluster/archive.h"

enum { SCRIBE_TROUBLE_MAX = 200 };

typedef struct scribe { /* zero-initialized, with what is below it, nothing has failed */
    archive below;
    char trouble[SCRIBE_TROUBLE_MAX]; /* why the last change was not written; "": it was */
} scribe;

archive scribe_archive(scribe *scribe);
