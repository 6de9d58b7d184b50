/* rpc_dedup.c — see rpc_dedup.h. */
#include "net/rpc/rpc_dedup.h"

#include <stdlib.h>

#include "base/alloc.h"

enum { COUNT_FIRST = 8 };

void rpc_dedup_fini(rpc_dedup *dedup) {
    free(dedup->places);
    *dedup = (rpc_dedup){0};
}

mr_status rpc_dedup_grow(rpc_dedup *dedup, uint64_t number) {
    uint32_t count = dedup->count == 0 ? COUNT_FIRST : dedup->count;
    while (count <= rpc_call_place(number)) count *= 2;
    if (count == dedup->count) return MR_OK;
    MR_TRY(alloc_try_resize(&dedup->places, count * sizeof *dedup->places));
    memset(dedup->places + dedup->count, 0, (count - dedup->count) * sizeof *dedup->places);
    dedup->count = count;
    return MR_OK;
}

bool rpc_dedup_cancel(rpc_dedup *dedup, uint64_t number, uint32_t attempt) {
    /* Without memory, a request that arrives after its cancellation still runs; the caller drops its answer. */
    if (rpc_dedup_grow(dedup, number) != MR_OK) return false;
    rpc_dedup_place *place = &dedup->places[rpc_call_place(number)];
    if (number < place->number) return false;
    bool was_open = number == place->number && place->open;
    if (number > place->number || attempt > place->attempt) place->attempt = (uint16_t)attempt;
    place->number = number;
    place->open = false;
    return was_open;
}
