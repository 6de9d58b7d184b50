/* rpc_pending.c — see rpc_pending.h. */
#include "net/rpc/rpc_pending.h"

#include <stdlib.h>

#include "base/alloc.h"

void rpc_pending_fini(rpc_pending *pending) {
    for (uint32_t i = 0; i < pending->count; i++) free(rpc_pending_at(pending, i)->kept);
    for (uint32_t i = 0; i < pending->count / RPC_PENDING_CHUNK; i++) free(pending->chunks[i]);
    free(pending->chunks);
    *pending = (rpc_pending){0};
}

mr_status rpc_pending_grow(rpc_pending *pending, struct rpc_call_link *link) {
    if (pending->count == RPC_CALL_WINDOW) return MR_BUSY;
    size_t chunks = pending->count / RPC_PENDING_CHUNK;
    if ((chunks & (chunks - 1)) == 0) /* the array is full at each power of two */
        MR_TRY(alloc_try_resize(&pending->chunks, (chunks == 0 ? 1 : 2 * chunks) * sizeof *pending->chunks));
    MR_TRY(alloc_try_lines(RPC_PENDING_CHUNK * sizeof(rpc_call_record), &pending->chunks[chunks]));
    pending->count += RPC_PENDING_CHUNK;
    for (uint32_t place = pending->count; place-- > pending->count - RPC_PENDING_CHUNK;) {
        rpc_call_record *record = rpc_pending_at(pending, place);
        record->number = place; /* below RPC_CALL_WINDOW: not a call number */
        record->link = link;
        list_init(&record->unsent);
        rpc_pending_give(pending, record);
    }
    return MR_OK;
}
