/* guest.c — see guest.h. */
#include "runtime/guest.h"

#include "runtime/context.h"

guest *guest_find(mr_context *mr, const void *kind) {
    list_for_each (at, &mr->guests) {
        guest *guest = container_of(at, struct guest, place);
        if (guest->kind == kind) return guest;
    }
    return NULL;
}

void guest_invite(mr_context *mr, guest *guest) { list_push_back(&mr->guests, &guest->place); }

void guests_close(mr_context *mr) {
    for (list *at; (at = list_pop_front(&mr->guests)) != NULL;) {
        guest *guest = container_of(at, struct guest, place);
        guest->close(mr, guest);
    }
}
