/* rpc_check.c — rpc_check: asserts the invariants of rpc_internal.h, by their numbers. */
#include "net/rpc/rpc_internal.h"

typedef struct sums { /* over all records */
    size_t waiting, kept_bytes;
} sums;

static void check_record(const rpc_call_link *link, const rpc_call_record *record, uint32_t place, sums *sums) {
    bool waits = record->state == RPC_CALL_WAITING, unsent = !list_empty(&record->unsent);
    MR_ASSERT(record->link == link && rpc_call_place(record->number) == place);          /* 1 */
    MR_ASSERT(!waits || (record->done != NULL && record->number >= RPC_CALL_WINDOW));    /* 1 */
    MR_ASSERT(!timer_heap_holds(&record->timer) || (waits && record->timed));            /* 2 */
    MR_ASSERT(!unsent || record->state == RPC_CALL_TELLING || (waits && record->timed)); /* 2 */
    MR_ASSERT(record->kept == NULL || (waits && record->timed));                         /* 2 */
    sums->waiting += waits;
    sums->kept_bytes += record->kept == NULL ? 0 : record->kept_size;
}

static void check_link(const rpc_call_link *link, sums *sums) {
    size_t before = sums->waiting;
    for (uint32_t i = 0; i < link->pending.count; i++) check_record(link, rpc_pending_at(&link->pending, i), i, sums);
    MR_ASSERT(link->arriving == NULL ||
              (link->arriving->link == link && link->arriving->state == RPC_CALL_WAITING)); /* 3 */
    MR_ASSERT(!link->over || sums->waiting == before);                                      /* 4 */
    uint32_t unused = 0;
    for (uint32_t at = link->pending.free; at != 0; at = rpc_pending_at(&link->pending, at - 1)->next_free) {
        /* 5 */
        MR_ASSERT(rpc_pending_at(&link->pending, at - 1)->state == RPC_CALL_FREE && unused < link->pending.count);
        unused++;
    }
}

void rpc_check(const rpc *rpc) {
    sums sums = {0};
    if (rpc->depth != 0) return; /* an outer stack frame is working on a link */
    map_for_each (slot, &rpc->links) {
        const rpc_call_link *link = slot.value;
        MR_ASSERT(link->id.v == slot.key);
        check_link(link, &sums);
    }
    MR_ASSERT(sums.waiting == rpc->open_count && sums.kept_bytes == rpc->kept_bytes); /* 1, 2 */
    MR_ASSERT(rpc->graves == NULL);
    MR_ASSERT(rpc->recent == NULL || map_get(&rpc->links, rpc->recent->id.v) == rpc->recent);
}
