/* storage_errors.h — metadata storage wrapper (cluster/metadata_storage.h) that remembers the last write error.
 *
 * A keeper answers the requester of a decision with the status, and is asked again; without this wrapper no other
 * module would learn that the disk rejects writes. Here it is, until something has been written.
 *
 * Ownership   what is below is borrowed for its life. Threads: the keeper's. */
#pragma once
#include "cluster/metadata_storage.h"

enum { STORAGE_ERRORS_TROUBLE_MAX = 200 };

typedef struct storage_errors { /* zero-initialized, with what is below it, nothing has failed */
    metadata_storage below;
    char trouble[STORAGE_ERRORS_TROUBLE_MAX]; /* why the last change was not written; "": it was */
} storage_errors;

metadata_storage storage_errors_storage(storage_errors *errors);
