/* scatter.h — distribution of a pull's answers from the values of one slot to the caller's memory.
 *
 * The keys of a request lie in many slots, and answers come in any order. Each part knows the places in the request of
 * the keys that it asked for.
 *
 *   ROWS      values of one size for each key, to to + place · bytes
 *   VECTORS   values of any size, to to + offsets[place], where there is room up to offsets[place + 1]; the rest is 0
 *   BLOCK     a stretch of `bytes` bytes, to `to`: from the answer, or from the server's memory (remote_values.h)
 *   RANGE     rows that a slot has, to a gathering of all slots (gather.h), as the piece of that number
 *   NOWHERE   its caller has given up, and may have freed where it should have gone
 *
 * A slot in which nothing has changed since the version that was asked with leaves the caller's memory as it is.
 *
 * Ownership   `to` is the caller's, borrowed until its ticket is over; places and offsets are the ticket's. Pure. */
#pragma once
#include "kv/client/gather.h"
#include "kv/client/ticket.h"
#include "kv/payload/key_list_cache.h"
#include "kv/payload/remote_values.h"

typedef enum scatter_kind { SCATTER_ROWS, SCATTER_VECTORS, SCATTER_BLOCK, SCATTER_RANGE, SCATTER_NOWHERE } scatter_kind;

typedef struct scatter {
    ticket *ticket; /* whose part it is */
    scatter_kind kind;
    uint32_t count;          /* of keys */
    const uint32_t *places;  /* `count` of them */
    const uint64_t *offsets; /* of vectors, by place: bytes */
    uint8_t *to;
    size_t bytes;
    size_t item;    /* bytes of a value */
    gather *gather; /* of a range; the ticket's */
    uint32_t piece;
    key_list_cache_item *list; /* held: the keys, if a slot may know them by their name; NULL: it does not */
    uint64_t *version;         /* NULL, or where the version that was shown goes; the caller's, as `to` */
    uint64_t *changed;         /* likewise: counts the parts that were written */
    uint32_t table;            /* of a block: what is asked again, if it has changed while it was looked at */
    payload_place place;
    const remote_values_map_view *map_view; /* NULL: it comes with the answer */
    bool streams;                           /* what is pulled is more than the caches have room for */
    uint8_t tries;                          /* that were in vain */
} scatter;

/* MR_OK: it is there. MR_NOT_FOUND: the table was dropped. MR_CORRUPT: this is not what was asked for. MR_TOO_LARGE.
 * MR_BUSY: of a block, it has changed while it was looked at, or is not to be seen: ask again. */
mr_status scatter_take(const scatter *scatter, const payload_section *answer);

void scatter_abandon(scatter *scatter); /* nothing of the caller's is written any more */
