/* link_table.h — table of link ids and their links, with generations.
 *
 * An id is a place (16 bits) and the generation of that place (16 bits, from 1). Removing an entry increments
 * the generation, so an outdated id is detected; a place whose generations are used up stays empty. No id is assigned
 * twice: a table assigns 4,294,901,760 ids in its life, 65,536 at a time. */
#pragma once
#include <stddef.h>

#include "net/transport.h"

enum { LINK_TABLE_PLACES_MAX = 1 << 16 };

typedef struct link_table_place {
    void *value;         /* NULL: free */
    uint32_t generation; /* of the entry, or of the next one */
    uint32_t next_free;  /* place + 1; 0: end of the list */
} link_table_place;

typedef struct link_table {   /* zero-initialized: empty and ready */
    link_table_place *places; /* owned */
    size_t count, used, capacity;
    uint32_t first_free; /* place + 1; 0: none */
} link_table;

void link_table_fini(link_table *table);
MR_MUST mr_status link_table_add(link_table *table, void *value, link_id *out); /* MR_NOMEM: full or used up */
void link_table_remove(link_table *table, link_id id);                          /* the id must exist */

static inline void *link_table_get(const link_table *table, link_id id) { /* NULL: no such link (any more) */
    size_t place = id.v & (LINK_TABLE_PLACES_MAX - 1);
    if (place >= table->used || table->places[place].generation != id.v >> 16) return NULL;
    return table->places[place].value;
}
