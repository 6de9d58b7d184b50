/* slab.c — see slab.h. */
#include "base/slab.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { ALIGN = 64 };

void slab_init(slab *slab, size_t record_bytes) {
    MR_ASSERT(record_bytes >= sizeof(slab_place));
    *slab = (struct slab){.record_bytes = (record_bytes + ALIGN - 1) / ALIGN * ALIGN};
}

void slab_fini(slab *slab) {
    for (uint32_t i = 0; i < slab->count / SLAB_CHUNK; i++) free(slab->chunks[i]);
    free(slab->chunks);
    *slab = (struct slab){0};
}

/* The table of chunks doubles when the number of chunks is a power of two. */
static mr_status make_room(slab *slab) {
    uint32_t chunks = slab->count / SLAB_CHUNK;
    if (chunks != 0 && (chunks & (chunks - 1)) != 0) return MR_OK;
    return alloc_try_resize(&slab->chunks, (chunks == 0 ? 1 : 2 * (size_t)chunks) * sizeof *slab->chunks);
}

mr_status slab_grow(slab *slab) {
    if (slab->count > (UINT32_C(1) << SLAB_INDEX_BITS) - SLAB_CHUNK)
        return error_set(MR_NOMEM, "too many records: %u are in use, the limit of a process", slab->count);
    MR_TRY(make_room(slab));
    uint8_t **chunk = &slab->chunks[slab->count / SLAB_CHUNK];
    MR_TRY(alloc_try_lines(SLAB_CHUNK * slab->record_bytes, chunk));
    for (uint32_t i = SLAB_CHUNK; i-- > 0;) { /* in this order the first record is taken first */
        slab_place *record = (slab_place *)(void *)(*chunk + i * slab->record_bytes);
        record->index = slab->count + i;
        record->next_free = slab->free;
        slab->free = record->index + 1;
    }
    slab->count += SLAB_CHUNK;
    return MR_OK;
}
