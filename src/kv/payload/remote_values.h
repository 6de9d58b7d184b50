/* remote_values.h — section values in the memory of another process of the same machine.
 *
 * A push may refer to values in the worker's memory (PAYLOAD_AFAR) if the server has imported that memory, and an
 * answer to values in the server's memory if the worker has imported it. The reference was checked with the rest of the
 * payload; the values are numbers, and may change while they are read:
 *
 *   a push     is read while its worker waits for the acknowledgement. A server that applies the push at once reads it
 *              once, while it adds; a server whose slot has other replicas, or that must keep the push, copies the
 *              values into a payload first (remote_values_fetch), so that all replicas apply the same bytes
 *   an answer  is copied, and discarded if its word shows that the values have changed meanwhile (shm_import_copy)
 *
 * Pure, except for the memory that it reads. */
#pragma once
#include "kv/payload/payload.h"
#include "net/shm/shm_export.h"

typedef struct remote_values_map_view {                        /* borrowed by readers of payloads */
    const shm_import *(*see)(void *context, uint64_t process); /* NULL: not imported */
    void *context;
} remote_values_map_view;

/* Values of a push, `bytes` bytes, valid during the call. NULL: not readable. */
const void *remote_values_values(const remote_values_map_view *map_view, const payload_section *section, size_t bytes);

bool remote_values_speaks(span payload); /* whether the payload refers to remote values */
/* Whether all references of the payload are readable. A malformed payload has no references. */
bool remote_values_is_there(const remote_values_map_view *map_view, span payload);
/* A copy of the payload that contains the remote values; NULL: it has no references. MR_NOT_FOUND: a value is not
 * readable. MR_NOMEM. */
MR_MUST mr_status remote_values_fetch(const remote_values_map_view *map_view, span payload, shared_bytes **out);
