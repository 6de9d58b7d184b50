/* cargo.h — what a bundle (bundle.h) has beyond its bytes: the large values that lie in the machine's store.
 *
 * A value of at least SHELF_VALUE_MIN bytes is written straight into an object of the store (shelf.h), as a bundle of
 * one value; the bundle that it is an argument or a result in has a STORED entry that names the object:
 *
 *   offset  size  name
 *   0       32    object_ref
 *   32      8     bytes of the object
 *
 * So it is copied once, when it is packed, and passed on by its name from then on: to a task, out of it, to the next.
 * The bundle holds the objects that it names, as long as there is a reference to it. One that arrived holds none until
 * cargo_receive has taken them; until then they belong to the message and whoever sent it.
 *
 * Where the store has no room and nobody can wait, or there is no store, values stay in the bundle.
 *
 * With the context's lock held, but for cargo_pack with a packer that takes it. */
#pragma once
#include "runtime/bundle.h"
#include "runtime/shelf.h"

typedef struct cargo {
    uint32_t count;
    struct cargo_item { /* by index */
        uint32_t index; /* of the value in the bundle */
        shelved *shelved;
    } items[];
} cargo;

typedef struct cargo_packer {
    shelf *shelf;  /* NULL: everything stays in the bundle */
    bool may_wait; /* for memory */
    bool leaves; /* the bundle goes to another process; else its objects are this one's alone until they are repacked */
    /* Where the lock is not held: taken and let go around what needs it. NULL: it is held. */
    void (*lock)(void *context);
    void (*unlock)(void *context);
    void *context;
} cargo_packer;

/* As bundle_create. MR_NOMEM, MR_TOO_LARGE: also of shared memory. */
MR_MUST mr_status cargo_pack(const cargo_packer *packer, bundle_item *items, size_t count, bundle **out);

/* Packs values of other bundles into one, by name where they have one: nothing is taken that is not held already, and
 * nothing large is copied. */
MR_MUST mr_status cargo_repack(shelf *shelf, const bundle_item *items, size_t count, bundle **out);

/* The same values with nothing in the store, for those who cannot hold there. MR_BUSY: something has to come from disk;
 * its coming was asked for. */
MR_MUST mr_status cargo_flatten(bundle *bundle, struct bundle **out);

/* Takes what an arrived bundle names. MR_OBJECT_LOST: one is gone; MR_CORRUPT: it names no objects. */
MR_MUST mr_status cargo_receive(shelf *shelf, bundle *bundle);
bool cargo_is_taken(const bundle *bundle); /* all of it; else shelf_take_expected will */

/* The value, wherever it is: an entry to be opened, borrowed until cargo_hide. May wait, if it is asked to. */
MR_MUST mr_status cargo_show(const bundle *bundle, uint32_t index, bool may_wait, bundle_entry *out);
void cargo_hide(const bundle *bundle, uint32_t index);

uint64_t cargo_bytes(const bundle *bundle, uint32_t index); /* of the value, wherever it is */

void cargo_free(cargo *cargo); /* NULL is a no-op; for bundle_unref */
