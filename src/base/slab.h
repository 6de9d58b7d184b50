/* slab.h — records of one size, recycled, each with an index by which it is found.
 *
 * Records are allocated in chunks and never move. The record freed last is taken next, still in the cache. A record is
 * zeroed when its chunk is allocated and never again: it keeps the content of its previous user. Only slab_fini frees
 * the memory. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

enum { SLAB_CHUNK = 64, SLAB_INDEX_BITS = 28 };

typedef struct slab_place { /* the first field of every record; used by the slab */
    uint32_t index;
    uint32_t next_free; /* index + 1; 0: last free record, or taken */
} slab_place;

typedef struct slab {
    size_t record_bytes;
    uint8_t **chunks; /* owned array of owned chunks */
    uint32_t count;   /* all records */
    uint32_t free;    /* index + 1 of the first free record; 0: none */
    uint32_t taken;
} slab;

void slab_init(slab *slab, size_t record_bytes);
void slab_fini(slab *slab);
__attribute__((noinline, cold)) mr_status slab_grow(slab *slab); /* MR_NOMEM */

/* The record with an index below count, taken or not. */
static inline void *slab_at(const slab *slab, uint32_t index) {
    return slab->chunks[index / SLAB_CHUNK] + index % SLAB_CHUNK * slab->record_bytes;
}

/* Whether the next slab_take will succeed. */
static inline bool slab_ready(slab *slab) { return __builtin_expect(slab->free != 0, 1) || slab_grow(slab) == MR_OK; }

static inline void *slab_take(slab *slab) { /* NULL: no memory */
    if (!slab_ready(slab)) return NULL;
    slab_place *record = slab_at(slab, slab->free - 1);
    slab->free = record->next_free;
    record->next_free = 0;
    slab->taken++;
    return record;
}

static inline void slab_give(slab *slab, void *record) {
    slab_place *place = record;
    place->next_free = slab->free;
    slab->free = place->index + 1;
    slab->taken--;
}
