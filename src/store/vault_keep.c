/* vault_keep.c — objects held by the store server itself; see vault.h. The process that marks is the one that holds, so
 * the protocol of slot.h is not needed: a kept slot is marked in every round. */
#include "base/assert.h"
#include "base/error.h"
#include "store/vault_books.h"

static uint32_t kept_of(const vault *vault, uint64_t slot) { return (uint32_t)(uintptr_t)map_get(&vault->kept, slot); }

mr_status vault_keep(vault *vault, const object_ref *ref) {
    uint32_t index, count = kept_of(vault, ref->slot);
    page_book *page = vault_page(vault, ref->slot, &index);
    if (page == NULL || !slot_confirm_hold(page_slot(vault, page, index), ref->sequence))
        return error_set(MR_OBJECT_LOST, "object %llx:%llu was deleted before the node could hold it",
                         (unsigned long long)ref->id.owner, (unsigned long long)ref->id.number);
    MR_ASSERT(count < UINT32_MAX);
    map_put(&vault->kept, ref->slot, (void *)(uintptr_t)(count + 1));
    return MR_OK;
}

void vault_let_go(vault *vault, const object_ref *ref) {
    uint32_t count = kept_of(vault, ref->slot);
    MR_ASSERT(count > 0);
    if (count > 1)
        map_put(&vault->kept, ref->slot, (void *)(uintptr_t)(count - 1));
    else
        map_remove(&vault->kept, ref->slot);
    vault->released = true;
}

void vault_mark_kept(vault *vault) {
    map_for_each (found, &vault->kept) {
        uint32_t index;
        page_book *page = vault_page(vault, found.key, &index);
        MR_ASSERT(page != NULL); /* pages stay as long as the vault */
        bit_set(page->held, index);
    }
}
