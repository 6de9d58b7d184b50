/* call_places.c — see call_places.h. */
#include "net/call_places.h"

#include <stdlib.h>

#include "base/alloc.h"

void call_places_fini(call_places *places) {
    for (uint32_t i = 0; i < places->count; i++) free(call_places_at(places, i)->kept);
    for (uint32_t i = 0; i < places->count / CALL_PLACES_CHUNK; i++) free(places->chunks[i]);
    free(places->chunks);
    *places = (call_places){0};
}

mr_status call_places_grow(call_places *places, struct call_link *link) {
    if (places->count == CALL_WINDOW) return MR_BUSY;
    size_t chunks = places->count / CALL_PLACES_CHUNK;
    if ((chunks & (chunks - 1)) == 0) { /* the array is full at every power of two */
        void *array = places->chunks;
        MR_TRY(alloc_try_resize(&array, (chunks == 0 ? 1 : 2 * chunks) * sizeof *places->chunks));
        places->chunks = array;
    }
    void *chunk;
    MR_TRY(alloc_try_lines(CALL_PLACES_CHUNK * sizeof(call_record), &chunk));
    places->chunks[chunks] = chunk;
    places->count += CALL_PLACES_CHUNK;
    for (uint32_t place = places->count; place-- > places->count - CALL_PLACES_CHUNK;) {
        call_record *record = call_places_at(places, place);
        record->number = place; /* below CALL_WINDOW: given to nobody yet */
        record->link = link;
        list_init(&record->unsent);
        call_places_give(places, record);
    }
    return MR_OK;
}
