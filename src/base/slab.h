/* slab.h — records of one size, recycled, each with an index by which it is found.
 *
 * Records come in chunks and never move. One that is given back is the next one taken, still warm. A record is zeroed
 * when its chunk is made and never again: what its user left in it is there the next time. The memory goes back with
 * slab_fini only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

enum { SLAB_CHUNK = 64, SLAB_INDEX_BITS = 28 };

typedef struct slab_place { /* the first field of every record; the slab's own */
    uint32_t index;
    uint32_t next_free; /* index + 1; 0: the last one, or taken */
} slab_place;

typedef struct slab {
    size_t record_bytes;
    uint8_t **chunks; /* owned array of owned chunks */
    uint32_t count;   /* records that there are */
    uint32_t free;    /* index + 1 of the first free one; 0: none */
    uint32_t taken;
} slab;

void slab_init(slab *slab, size_t record_bytes);
void slab_fini(slab *slab);
__attribute__((noinline, cold)) mr_status slab_grow(slab *slab); /* MR_NOMEM */

/* The record of an index below count, taken or not. */
static inline void *slab_at(const slab *slab, uint32_t index) {
    return slab->chunks[index / SLAB_CHUNK] + index % SLAB_CHUNK * slab->record_bytes;
}

/* Whether the next slab_take will find one. */
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
