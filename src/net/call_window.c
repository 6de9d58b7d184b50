/* call_window.c — see call_window.h. */
#include "net/call_window.h"

#include <stdlib.h>

#include "base/alloc.h"

enum { COUNT_FIRST = 8 };

void call_window_fini(call_window *window) {
    free(window->places);
    *window = (call_window){0};
}

mr_status call_window_grow(call_window *window, uint64_t number) {
    uint32_t count = window->count == 0 ? COUNT_FIRST : window->count;
    while (count <= call_place(number)) count *= 2;
    if (count == window->count) return MR_OK;
    void *places = window->places;
    MR_TRY(alloc_try_resize(&places, count * sizeof *window->places));
    window->places = places;
    memset(window->places + window->count, 0, (count - window->count) * sizeof *window->places);
    window->count = count;
    return MR_OK;
}

bool call_window_cancel(call_window *window, uint64_t number, uint32_t attempt) {
    /* Without memory a request that comes after its cancellation runs in vain; its answer is dropped by the caller. */
    if (call_window_grow(window, number) != MR_OK) return false;
    call_window_place *place = &window->places[call_place(number)];
    if (number < place->number) return false;
    bool was_open = number == place->number && place->open;
    if (number > place->number || attempt > place->attempt) place->attempt = (uint16_t)attempt;
    place->number = number;
    place->open = false;
    return was_open;
}
