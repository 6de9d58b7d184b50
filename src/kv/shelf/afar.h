/* afar.h — section values that lie in the memory of another process of the same machine.
 *
 * A parcel that is pushed may say where its values lie (PARCEL_AFAR) to a server that sees the memory of the worker,
 * and an answer to a worker that sees the server's. Their description was checked with the rest of the payload; the
 * values are numbers, and may change while they are read:
 *
 *   a push      is read while its worker waits for it to be acknowledged. A server that applies it at once reads it
 *               once, while it adds; one that has copies to agree with, or has to keep it, makes it a parcel with the
 *               values in it first (afar_fetch), so that all read the same
 *   an answer   is copied, and thrown away if a word says that it has changed meanwhile (glass_copy)
 *
 * Pure, but for what it looks at. */
#pragma once
#include "kv/parcel.h"
#include "net/shm/glass.h"

typedef struct afar_sight {                                    /* borrowed by whoever opens parcels */
    const glass_view *(*see)(void *context, uint64_t process); /* NULL: nobody that is seen */
    void *context;
} afar_sight;

/* The values of a push, `bytes` of them: good for the call. NULL: they are not to be seen. */
const void *afar_values(const afar_sight *sight, const parcel_section *section, size_t bytes);

bool afar_speaks(span parcel); /* of anything that lies elsewhere */
/* All that the parcel speaks of can be seen. Bytes that are no parcel speak of nothing. */
bool afar_is_there(const afar_sight *sight, span parcel);
/* The same parcel, with the values in it; NULL: it speaks of none. MR_NOT_FOUND: something is not to be seen. MR_NOMEM.
 */
MR_MUST mr_status afar_fetch(const afar_sight *sight, span parcel, bale **out);
