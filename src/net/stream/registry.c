/* registry.c — see registry.h. */
#include "net/stream/registry.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { GENERATION_MAX = UINT16_MAX };

void registry_fini(registry *registry) {
    free(registry->places);
    *registry = (struct registry){0};
}

static mr_status add_place(registry *registry, uint32_t *out) {
    if (registry->used == REGISTRY_PLACES_MAX)
        return error_set(MR_NOMEM, "cannot open another link: %zu are open, and no link id is free", registry->count);
    xgrow(&registry->places, &registry->capacity, registry->used + 1, sizeof *registry->places);
    *out = (uint32_t)registry->used++;
    registry->places[*out] = (registry_place){.generation = 1};
    return MR_OK;
}

mr_status registry_add(registry *registry, void *value, link_id *out) {
    MR_ASSERT(value != NULL);
    uint32_t place = registry->first_free - 1;
    if (registry->first_free == 0)
        MR_TRY(add_place(registry, &place));
    else
        registry->first_free = registry->places[place].next_free;
    registry->places[place].value = value;
    registry->count++;
    out->v = registry->places[place].generation << 16 | place;
    return MR_OK;
}

void registry_remove(registry *registry, link_id id) {
    MR_ASSERT(registry_get(registry, id) != NULL);
    uint32_t index = id.v & (REGISTRY_PLACES_MAX - 1);
    registry_place *place = &registry->places[index];
    place->value = NULL;
    registry->count--;
    if (place->generation++ == GENERATION_MAX) return; /* 65,536 matches no id: used up */
    place->next_free = registry->first_free;
    registry->first_free = index + 1;
}
