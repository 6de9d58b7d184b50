/* attachment.h — attachments of a value pack (value_pack.h): large values in the machine's object store, and the
 * futures to which its values refer.
 *
 * A value of at least STORE_PROVIDER_VALUE_MIN bytes is written straight into an object of the store
 * (store_provider.h), as a value pack of one value; the value pack of the arguments or results has a STORED entry that
 * names the object:
 *
 *   offset  size  name
 *   0       32    object_ref
 *   32      8     bytes of the object
 *
 * So a large value is copied once, when it is packed, and passed on by its name from then on: to a task, as its result,
 * to the next task. A value pack holds the objects that it names, as long as there is a reference to the pack. A
 * received value pack holds none until attachment_receive has taken them; until then they belong to the message and its
 * sender.
 *
 * A reference inside a value, such as in a list, is not replaced: the value pack holds the object (object.h) that the
 * reference names. When the value pack is sent to another process it is *dressed*: behind its values there are hidden
 * entries, a table of the references and the values of those that are ready and small, or have a name. An included
 * value may refer to further objects, which then have rows and included values, too, up to the bound in
 * attachment_table.c:
 *
 *   offset   size  table, for each reference
 *   0        16    owner and serial
 *   16       4     containing value: one of the value pack's, or from their count on a hidden entry
 *   20       4     0: the owner has to be asked; ATTACHMENT_ACTOR: an actor handle (actor_handle.h); else the hidden
 *                  entry that is its value, or with ATTACHMENT_FAILED its failure
 *
 * The receiver creates objects for them: those with an included value are ready at once; the others are borrowed
 * (borrow.h).
 *
 * Where the store has no room and the caller cannot wait, or there is no store, values stay in the value pack.
 *
 * With the context's lock held, but for attachment_pack with a packer that takes it. */
#pragma once
#include "runtime/refs/actor_handle.h"
#include "runtime/refs/object.h"
#include "runtime/refs/store_provider.h"

typedef struct attachment_ref { /* a reference or an actor handle inside a value */
    uint32_t index;             /* index of the value */
    bool is_actor;
    union {
        object *object;       /* held, and counted as contained */
        actor_handle *handle; /* counted as contained */
    };
} attachment_ref;

#define ATTACHMENT_ACTOR  UINT32_MAX
#define ATTACHMENT_FAILED (UINT32_C(1) << 31) /* flag of a place: the included entry is a failure (failure.h) */
/* index of a reference inside an included value */
#define ATTACHMENT_WITHIN UINT32_MAX

typedef struct attachment {
    objects *objects;     /* borrowed */
    attachment_ref *refs; /* owned */
    uint32_t ref_count;
    uint32_t count;
    struct attachment_item { /* sorted by index */
        uint32_t index;      /* index of the value in the value pack */
        stored_object *object;
    } items[];
} attachment;

typedef struct attachment_packer {
    objects *objects; /* NULL: everything stays in the value pack, and there are no references */
    bool may_wait;    /* whether packing may wait for memory */
    /* the value pack is sent to another process; else only this process uses its objects until they are repacked */
    bool leaves;
    /* Without the lock held: lock and unlock, called around accesses that need it. NULL: the lock is held. */
    void (*lock)(void *context);
    void (*unlock)(void *context);
    void *context;
} attachment_packer;

bool attachment_is_large(const mr_arg *arg); /* whether the value is to be stored as an object */

/* Packs the items. As value_pack_create; MR_NOMEM, MR_TOO_LARGE: also of shared memory. MR_INVALID: also a reference
 * that this process does not have. */
MR_MUST mr_status attachment_pack(const attachment_packer *packer, value_pack_item *items, size_t count,
                                  value_pack **out);

/* Writes the value of a READY object into the store without waiting; returns a value pack that names it, owned by the
 * caller. NULL: no room, or no store. */
value_pack *attachment_store(objects *objects, const object *object);

/* Packs values of other value packs (value_pack_item.from) into one, by name where they have one: takes no new holds,
 * and copies nothing large. */
MR_MUST mr_status attachment_repack(objects *objects, const value_pack_item *items, size_t count, value_pack **out);
value_pack_item attachment_item_of(const value_pack *from, uint32_t index);
value_pack_item attachment_item_of_object(const object *object); /* `object` is READY */
bool attachment_refers(const value_pack *pack, uint32_t index);  /* whether the value contains references or handles */

/* Returns the form of a value pack for messages: itself, with a reference, or a copy with hidden entries. The caller
 * keeps the original until the receiver has confirmed the message. */
MR_MUST mr_status attachment_dress(value_pack *pack, struct value_pack **out);

/* Visits the dependencies of a received value pack, for a process that keeps it unread: each store object that it
 * names, each future whose owner has to be asked, each actor whose handle it contains. MR_CORRUPT, or the status of
 * fn. */
typedef struct attachment_need {
    enum { ATTACHMENT_NEEDS_OBJECT, ATTACHMENT_NEEDS_FUTURE, ATTACHMENT_NEEDS_ACTOR } what;
    object_ref object;
    mr_ref ref; /* for an actor: the words of its id */
} attachment_need;
typedef mr_status attachment_need_fn(void *context, const attachment_need *need);
MR_MUST mr_status attachment_each_need(const value_pack *pack, attachment_need_fn *fn, void *context);

/* Takes the store objects that a received value pack names, and creates objects for its references. MR_OBJECT_LOST: an
 * object is gone; MR_CORRUPT: malformed. */
MR_MUST mr_status attachment_receive(objects *objects, value_pack *pack);
bool attachment_is_taken(const value_pack *pack); /* else store_provider_take_expected takes them */

/* Shows a value in the pack or the store: *out is an entry to be opened, borrowed until attachment_hide. Waits for the
 * store only if `may_wait`. */
MR_MUST mr_status attachment_show(const value_pack *pack, uint32_t index, bool may_wait, value_pack_entry *out);
void attachment_hide(const value_pack *pack, uint32_t index);

uint64_t attachment_bytes(const value_pack *pack, uint32_t index); /* size of the value, in the pack or the store */
/* ---- attachment_refs.c, for attachment.c */

typedef struct attachment_found { /* references and handles inside arguments */
    struct {
        mr_ref ref; /* for an actor: the words of its id */
        uint32_t index;
        bool is_actor;
    } * items; /* owned */
    size_t count, capacity;
} attachment_found;
MR_MUST mr_status attachment_find_refs(const mr_arg *arg, uint32_t index, int depth, attachment_found *found);
MR_MUST mr_status attachment_attach(objects *objects, const attachment_found *found, value_pack *pack); /* MR_INVALID */
static inline mr_actor attachment_actor(mr_ref words) { return (mr_actor){{words.word[0], words.word[1]}}; }
MR_MUST mr_status attachment_room(attachment *attachment, size_t count); /* allocates `refs`, which must be NULL */
void attachment_add_ref(attachment *attachment, uint32_t index, object *object);
void attachment_add_handle(attachment *attachment, uint32_t index, actor_handle *handle);

/* ---- attachment_table.c, for attachment.c */

MR_MUST mr_status attachment_undress(objects *objects, value_pack *pack);
/* reads the name in a STORED entry; MR_CORRUPT */
MR_MUST mr_status attachment_read_name(const value_pack_entry *entry, object_ref *out);
/* whether the object is ready, too large for a message, and not in the store */
bool attachment_needs_provider(const object *object);
attachment *attachment_of(objects *objects, value_pack *pack); /* created if there is none */

void attachment_free(attachment *attachment); /* NULL is a no-op; for value_pack_unref */
