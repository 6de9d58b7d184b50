/* guest.h — data of a higher layer attached to a context, embedded in a record of its own. With the context's lock
 * held. */
#pragma once
#include "base/list.h"
#include "miniray/runtime.h"

typedef struct guest {
    list place;
    const void *kind;                                   /* whose it is: an address that only that has */
    void (*close)(mr_context *mr, struct guest *guest); /* the context ends: frees it */
} guest;

guest *guest_find(mr_context *mr, const void *kind); /* NULL: there is none */
void guest_invite(mr_context *mr, guest *guest);     /* moved */
void guests_close(mr_context *mr);
