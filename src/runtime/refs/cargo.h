/* cargo.h — attachments of a bundle (bundle.h): large values in the machine's object store, and the futures to which
 * its values refer.
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
 * cargo_receive has taken them; until then they belong to the message and its sender.
 *
 * A reference inside a value (in a list, say) stays one: the bundle holds the object (object.h) that it names. When the
 * bundle goes to another process it is *dressed*: behind its values there are hidden entries, a table of the references
 * and the values of those that are there and small, or have a name. A value that comes along may refer to others, which
 * then have rows, too, and come along in their turn, as far as a bound that cargo_dress.c has:
 *
 *   offset   size  table, for each reference
 *   0        16    owner and serial
 *   16       4     which value has it inside: one of the bundle's, or from their count on a hidden entry
 *   20       4     0: the owner has to be asked; CARGO_ACTOR: it is the handle of an actor (handle.h); else the
 *                  hidden entry that is its value, or with CARGO_FAILED its failure
 *
 * The receiver makes objects of them: those whose value came along are ready at once; the others are borrowed
 * (borrow.h).
 *
 * Where the store has no room and the caller cannot wait, or there is no store, values stay in the bundle.
 *
 * With the context's lock held, but for cargo_pack with a packer that takes it. */
#pragma once
#include "runtime/handle.h"
#include "runtime/refs/object.h"
#include "runtime/refs/shelf.h"

typedef struct cargo_ref { /* a reference inside a value */
    uint32_t index;        /* of the value */
    object *object;        /* held, and counted as inside */
} cargo_ref;

typedef struct cargo_handle { /* a handle inside a value */
    uint32_t index;
    handle *handle; /* counted as inside */
} cargo_handle;

#define CARGO_ACTOR  UINT32_MAX
#define CARGO_FAILED (UINT32_C(1) << 31) /* in a place: what came along is a failure (failure.h) */
#define CARGO_WITHIN UINT32_MAX          /* for an index: it is inside of something that came along with the values */

typedef struct cargo {
    objects *objects;      /* borrowed */
    cargo_handle *handles; /* owned */
    uint32_t handle_count;
    cargo_ref *refs; /* owned */
    uint32_t ref_count;
    uint32_t count;
    struct cargo_item { /* by index */
        uint32_t index; /* of the value in the bundle */
        shelved *shelved;
    } items[];
} cargo;

typedef struct cargo_packer {
    objects *objects; /* NULL: everything stays in the bundle, and there are no references */
    bool may_wait;    /* for memory */
    bool leaves; /* the bundle goes to another process; else its objects are this one's alone until they are repacked */
    /* Where the lock is not held: taken and let go around what needs it. NULL: it is held. */
    void (*lock)(void *context);
    void (*unlock)(void *context);
    void *context;
} cargo_packer;

bool cargo_is_large(const mr_arg *arg); /* it is to lie in the store */

/* As bundle_create. MR_NOMEM, MR_TOO_LARGE: also of shared memory. MR_INVALID: also a reference that this process does
 * not have. */
MR_MUST mr_status cargo_pack(const cargo_packer *packer, bundle_item *items, size_t count, bundle **out);

/* The value of an object that is READY, put into the store without waiting: a bundle that names it, the caller's. NULL:
 * there is no room, or no store. */
bundle *cargo_shelve(objects *objects, const object *object);

/* Packs values of other bundles (bundle_item.from) into one, by name where they have one: nothing is taken that is not
 * held already, and nothing large is copied. */
MR_MUST mr_status cargo_repack(objects *objects, const bundle_item *items, size_t count, bundle **out);
bundle_item cargo_item_of(const bundle *from, uint32_t index);
bundle_item cargo_item_of_object(const object *object);  /* of one that is READY */
bool cargo_refers(const bundle *bundle, uint32_t index); /* whether the value has references or handles inside */

/* The bundle as it travels: itself, with a reference, or a copy with hidden entries. The original is kept until whoever
 * gets it has said so. */
MR_MUST mr_status cargo_dress(bundle *bundle, struct bundle **out);

/* What an arrived bundle needs of others, for a process that keeps it unread: each object of the store that it names,
 * each future whose owner has to be asked, each actor that it has a handle of. MR_CORRUPT, or what fn says. */
typedef struct cargo_need {
    enum { CARGO_NEEDS_OBJECT, CARGO_NEEDS_FUTURE, CARGO_NEEDS_ACTOR } what;
    object_ref object;
    mr_ref ref; /* or the words of an actor */
} cargo_need;
typedef mr_status cargo_need_fn(void *context, const cargo_need *need);
MR_MUST mr_status cargo_each_need(const bundle *bundle, cargo_need_fn *fn, void *context);

/* Takes what an arrived bundle names, and makes objects of what it refers to. MR_OBJECT_LOST: something is gone;
 * MR_CORRUPT: it is not what it should be. */
MR_MUST mr_status cargo_receive(objects *objects, bundle *bundle);
bool cargo_is_taken(const bundle *bundle); /* all of it; else shelf_take_expected will */

/* The value, wherever it is: an entry to be opened, borrowed until cargo_hide. May wait, if it is asked to. */
MR_MUST mr_status cargo_show(const bundle *bundle, uint32_t index, bool may_wait, bundle_entry *out);
void cargo_hide(const bundle *bundle, uint32_t index);

uint64_t cargo_bytes(const bundle *bundle, uint32_t index); /* of the value, wherever it is */
/* ---- cargo_refs.c, for cargo.c */

typedef struct cargo_found { /* references and handles inside arguments */
    struct {
        mr_ref ref; /* or the words of an actor */
        uint32_t index;
        bool is_actor;
    } * items; /* owned */
    size_t count, capacity;
} cargo_found;
MR_MUST mr_status cargo_find_refs(const mr_arg *arg, uint32_t index, cargo_found *found);
MR_MUST mr_status cargo_attach(objects *objects, const cargo_found *found, bundle *bundle); /* MR_INVALID */
MR_MUST mr_status cargo_room(cargo *cargo, size_t refs, size_t handles); /* for so many of each, of which it has none */
void cargo_add_ref(cargo *cargo, uint32_t index, object *object);
void cargo_add_handle(cargo *cargo, uint32_t index, mr_ref words);

/* ---- cargo_dress.c, for cargo.c */

MR_MUST mr_status cargo_undress(objects *objects, bundle *bundle);
MR_MUST mr_status cargo_read_name(const bundle_entry *entry, object_ref *out); /* of a STORED entry; MR_CORRUPT */
bool cargo_needs_shelf(const object *object); /* to travel with a reference: it is there, and too large for a message */
cargo *cargo_of(objects *objects, bundle *bundle); /* made if there is none */

void cargo_free(cargo *cargo); /* NULL is a no-op; for bundle_unref */
