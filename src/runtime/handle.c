/* handle.c — see handle.h. */
#include "runtime/handle.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

static loan *find_loan(void *host, uint64_t owner, uint64_t serial) {
    handle *handle = handle_find(host, (mr_actor){{owner, serial}});
    return handle == NULL ? NULL : &handle->loan;
}

void handles_feed(handles *handles) { (void)borrow_feed(&handles->borrow); }

void handles_init(handles *handles, mr_status (*send)(void *handles, borrow_message *message),
                  bool (*part)(struct handles *handles, mr_actor actor)) {
    *handles = (struct handles){.ops = {.send = send, .find = find_loan}, .part = part}; /* others borrow nothing */
    borrow_init(&handles->borrow, &handles->ops, handles);
    handles->borrow.batch = 1;
}

void handles_fini(handles *handles) {
    map_for_each (owner, &handles->by_owner) {
        map_for_each (slot, owner.value) free(slot.value);
        map_fini(owner.value);
        free(owner.value);
    }
    map_fini(&handles->by_owner);
    borrow_fini(&handles->borrow);
}

handle *handle_find(const handles *handles, mr_actor actor) {
    const map *map = map_get(&handles->by_owner, actor.word[0]);
    return map == NULL ? NULL : map_get(map, actor.word[1]);
}

handle *handle_meet(handles *handles, mr_actor actor) {
    handle *known = handle_find(handles, actor);
    if (known != NULL) return known;
    handle *made = XNEW(handle, .loan = (loan){.owner = actor.word[0], .serial = actor.word[1]});
    map *map = map_get(&handles->by_owner, actor.word[0]);
    if (map == NULL) {
        map = xcalloc(1, sizeof *map);
        map_put(&handles->by_owner, actor.word[0], map);
    }
    map_put(map, actor.word[1], made);
    return made;
}

mr_actor handle_actor(const handle *handle) { return (mr_actor){{handle->loan.owner, handle->loan.serial}}; }

/* Nothing has it any more. Calls under way still do, which end it later. */
static void settle(handles *handles, handle *handle) {
    if (handle_had(handle) > 0 || handles->part(handles, handle_actor(handle))) return;
    borrow_let_go(&handles->borrow, &handle->loan);
    map_remove(map_get(&handles->by_owner, handle->loan.owner), handle->loan.serial);
    free(handle);
}

void handle_name(handle *handle) { handle->names++; }

void handle_unname(handles *handles, handle *handle) {
    if (handle->names == 0) return;
    handle->names--;
    settle(handles, handle);
    handles_feed(handles);
}

void handle_enclose(handle *handle) { handle->inside++; }

void handle_disclose(handles *handles, handle *handle) {
    handle->inside--;
    settle(handles, handle);
}

void handle_use(handle *handle) { handle->uses++; }

void handle_unuse(handles *handles, handle *handle) {
    MR_ASSERT(handle->uses > 0);
    handle->uses--;
    settle(handles, handle);
}

void handle_take(handles *handles, handle *handle) {
    borrow_keep(&handles->borrow, &handle->loan, NULL);
    handles_feed(handles);
}
