/* storage_errors.h — metadata storage wrapper (cluster/metadata_storage.h) that remembers the last write error.
 *
 * A metadata_db reports a failed write to the requester only, which retries. This wrapper makes the error available to
 * other modules. The error is kept until a write succeeds.
 *
 * Ownership   the wrapped storage is borrowed. Threads: the metadata_db's. */
#pragma once
#include "cluster/metadata_storage.h"

enum { STORAGE_ERRORS_TROUBLE_MAX = 200 };

typedef struct storage_errors { /* zero-initialized except the wrapped storage: no error */
    metadata_storage below;
    char trouble[STORAGE_ERRORS_TROUBLE_MAX]; /* error of the last write; "": it succeeded */
} storage_errors;

metadata_storage storage_errors_storage(storage_errors *errors);
