/* storage_errors.h — metadata storage wrapper (cluster/metadata_storage.h) that remembers the last write error.
 *
 * A metadata_db answers the requester of a decision with the status, and is asked again; without this wrapper no other
 * module would learn that the disk rejects writes. The error is kept until a write succeeds.
 *
 * Ownership   the wrapped storage is borrowed for its life. Threads: the metadata_db's. */
#pragma once
#include "cluster/metadata_storage.h"

enum { STORAGE_ERRORS_TROUBLE_MAX = 200 };

typedef struct storage_errors { /* zero-initialized but for the wrapped storage: no error */
    metadata_storage below;
    char trouble[STORAGE_ERRORS_TROUBLE_MAX]; /* why the last write failed; "": it succeeded */
} storage_errors;

metadata_storage storage_errors_storage(storage_errors *errors);
