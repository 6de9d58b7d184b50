/* remote_values.h — section values that lie in the memory of another process of the same machine.
 *
 * A payload that is pushed may say where its values lie (PAYLOAD_AFAR) to a server that sees the memory of the worker,
 * and an answer to a worker that sees the server's. Their description was checked with the rest of the payload; the
 * values are numbers, and may change while they are read:
 *
 *   a push      is read while its worker waits for it to be acknowledged. A server that applies it at once reads it
 *              once, while it adds; one that has copies to agree with, or has to keep it, makes it a payload with the
 *      values in it first (remote_values_fetch), so that all read the same
 *   an answer  is copied, and thrown away if a word says that it has changed meanwhile (shm_import_copy)
 *
 * Pure, but for what it looks at. */
#pragma once
#include "kv/payload/payload.h"
#include "net/shm/shm_export.h"

typedef struct remote_values_map_view {                        /* borrowed by whoever opens payloads */
    const shm_import *(*see)(void *context, uint64_t process); /* NULL: nobody that is seen */
    void *context;
} remote_values_map_view;

/* The values of a push, `bytes` of them: good for the call. NULL: they are not to be seen. */
const void *remote_values_values(const remote_values_map_view *map_view, const payload_section *section, size_t bytes);

bool remote_values_speaks(span payload); /* of anything that lies elsewhere */
/* All that the payload speaks of can be seen. Bytes that are no payload speak of nothing. */
bool remote_values_is_there(const remote_values_map_view *map_view, span payload);
/* The same payload, with the values in it; NULL: it speaks of none. MR_NOT_FOUND: something is not to be seen.
 * MR_NOMEM.
 */
MR_MUST mr_status remote_values_fetch(const remote_values_map_view *map_view, span payload, shared_bytes **out);
