/* link_table.c — see link_table.h. */
#include "net/socket/link_table.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { GENERATION_MAX = UINT16_MAX };

void link_table_fini(link_table *table) {
    free(table->places);
    *table = (struct link_table){0};
}

static mr_status add_place(link_table *table, uint32_t *out) {
    if (table->used == LINK_TABLE_PLACES_MAX)
        return error_set(MR_NOMEM, "cannot open another link: %zu are open, and no link id is free", table->count);
    xgrow(&table->places, &table->capacity, table->used + 1, sizeof *table->places);
    *out = (uint32_t)table->used++;
    table->places[*out] = (link_table_place){.generation = 1};
    return MR_OK;
}

mr_status link_table_add(link_table *table, void *value, link_id *out) {
    MR_ASSERT(value != NULL);
    uint32_t place = table->first_free - 1;
    if (table->first_free == 0)
        MR_TRY(add_place(table, &place));
    else
        table->first_free = table->places[place].next_free;
    table->places[place].value = value;
    table->count++;
    out->v = table->places[place].generation << 16 | place;
    return MR_OK;
}

void link_table_remove(link_table *table, link_id id) {
    MR_ASSERT(link_table_get(table, id) != NULL);
    uint32_t index = id.v & (LINK_TABLE_PLACES_MAX - 1);
    link_table_place *place = &table->places[index];
    place->value = NULL;
    table->count--;
    if (place->generation++ == GENERATION_MAX) return; /* generation 65,536 fits no id: the place is used up */
    place->next_free = table->first_free;
    table->first_free = index + 1;
}
