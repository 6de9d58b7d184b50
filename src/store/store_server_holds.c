/* store_server_holds.c — objects held by the store server itself; see store_server.h. The store server both holds and
 * marks, so these holds need no entry of a hold table: every collection and spill marks the slot as held. */
#include "base/assert.h"
#include "base/error.h"
#include "store/server_internal.h"

static uint32_t kept_of(const store_server *server, uint64_t slot) {
    return (uint32_t)(uintptr_t)map_get(&server->kept, slot);
}

mr_status store_server_keep(store_server *server, const object_ref *ref) {
    uint32_t index, count = kept_of(server, ref->slot);
    page_book *page = store_server_page(server, ref->slot, &index);
    if (page == NULL || !object_header_confirm_hold(page_slot(server, page, index), ref->sequence))
        return error_set(MR_OBJECT_LOST, "object %llx:%llu was deleted before the node could hold it",
                         (unsigned long long)ref->id.owner, (unsigned long long)ref->id.number);
    MR_ASSERT(count < UINT32_MAX);
    map_put(&server->kept, ref->slot, (void *)(uintptr_t)(count + 1));
    return MR_OK;
}

void store_server_let_go(store_server *server, const object_ref *ref) {
    uint32_t count = kept_of(server, ref->slot);
    MR_ASSERT(count > 0);
    if (count > 1)
        map_put(&server->kept, ref->slot, (void *)(uintptr_t)(count - 1));
    else
        map_remove(&server->kept, ref->slot);
    server->released = true;
}

void store_server_mark_kept(store_server *server) {
    map_for_each (found, &server->kept) {
        uint32_t index;
        page_book *page = store_server_page(server, found.key, &index);
        MR_ASSERT(page != NULL); /* pages of slots are never freed */
        bit_set(page->held, index);
    }
}
