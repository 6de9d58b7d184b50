/* actor_handle.c — see actor_handle.h. */
#include "runtime/refs/actor_handle.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

static borrowed_ref *find_loan(void *host, uint64_t owner, uint64_t serial) {
    actor_handle *handle = actor_handle_find(host, (mr_actor){{owner, serial}});
    return handle == NULL ? NULL : &handle->ref;
}

void actor_handles_feed(actor_handles *handles) { (void)borrow_feed(&handles->borrow); }

void actor_handles_init(actor_handles *handles, mr_status (*send)(void *handles, borrow_message *message),
                        bool (*part)(struct actor_handles *handles, mr_actor actor)) {
    /* no hold and no drop: no process borrows from this one */
    *handles = (struct actor_handles){.ops = {.send = send, .find = find_loan}, .part = part};
    borrow_init(&handles->borrow, &handles->ops, handles);
    handles->borrow.batch = 1;
}

void actor_handles_fini(actor_handles *handles) {
    map_for_each (owner, &handles->by_owner) {
        map_for_each (slot, owner.value) free(slot.value);
        map_fini(owner.value);
        free(owner.value);
    }
    map_fini(&handles->by_owner);
    borrow_fini(&handles->borrow);
}

actor_handle *actor_handle_find(const actor_handles *handles, mr_actor actor) {
    const map *map = map_get(&handles->by_owner, actor.word[0]);
    return map == NULL ? NULL : map_get(map, actor.word[1]);
}

actor_handle *actor_handle_meet(actor_handles *handles, mr_actor actor) {
    actor_handle *known = actor_handle_find(handles, actor);
    if (known != NULL) return known;
    actor_handle *made = XNEW(actor_handle, .ref = (borrowed_ref){.owner = actor.word[0], .serial = actor.word[1]});
    map *map = map_get(&handles->by_owner, actor.word[0]);
    if (map == NULL) {
        map = xcalloc(1, sizeof *map);
        map_put(&handles->by_owner, actor.word[0], map);
    }
    map_put(map, actor.word[1], made);
    return made;
}

/* Frees a handle that has no users any more; if calls are pending, their end frees it. */
static void settle(actor_handles *handles, actor_handle *handle) {
    if (actor_handle_had(handle) > 0 || handles->part(handles, actor_handle_actor(handle))) return;
    borrow_let_go(&handles->borrow, &handle->ref);
    map_remove(map_get(&handles->by_owner, handle->ref.owner), handle->ref.serial);
    free(handle);
}

void actor_handle_unname(actor_handles *handles, actor_handle *handle) {
    if (handle->names == 0) return;
    handle->names--;
    settle(handles, handle);
    actor_handles_feed(handles);
}

void actor_handle_disclose(actor_handles *handles, actor_handle *handle) {
    handle->inside--;
    settle(handles, handle);
}

void actor_handle_unuse(actor_handles *handles, actor_handle *handle) {
    MR_ASSERT(handle->uses > 0);
    handle->uses--;
    settle(handles, handle);
}

void actor_handle_take(actor_handles *handles, actor_handle *handle) {
    borrow_keep(&handles->borrow, &handle->ref, NULL);
    actor_handles_feed(handles);
}
