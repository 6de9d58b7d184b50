/* actor_handle.h — actor handles of this process, and the messages about them to the node.
 *
 * A process *has* an actor while its program has a reference (from creating, finding or retaining the actor), while a
 * value pack contains a handle of it, and while calls to it are pending. Then the node holds the actor for the process
 * (NODE_ACTOR_HOLD); an actor without any holder ends, unless it is detached.
 *
 *   created ──► HELD when the node has accepted it       found inside a value ──► CARRIED ──► as in borrow.h
 *   last use released ──► NODE_ACTOR_DROP
 *
 * The sender of a message keeps the handles inside it until the answer, or until the result was reported as taken; a
 * receiver that keeps a handle longer reports it to the node before that. This is the protocol of borrow.h with the
 * node as the owner of all actors.
 *
 * Handles may be copied freely within a process: calling an actor needs none. Pure: the host sends messages. */
#pragma once
#include "miniray/value.h"
#include "runtime/refs/borrow.h"

typedef struct actor_handle {
    borrowed_ref ref; /* owner and serial: the two words of its id */
    uint32_t names;   /* references of the program */
    uint32_t inside;  /* value packs that contain it */
    uint32_t uses;    /* temporary users: its creation, pending calls */
} actor_handle;

typedef struct actor_handles { /* embedded in the record of its host */
    borrow_ops ops;
    bool (*part)(struct actor_handles *handles, mr_actor actor);
    borrow borrow;
    map by_owner; /* first word → map of second word → handle; owned */
} actor_handles;

/* `send` is as in borrow_ops, with the handles as its host: the node is the owner of all. `part` is called when the
 * last handle of the actor is released; true: calls are pending, and the last of them calls actor_handle_unuse. */
void actor_handles_init(actor_handles *handles, mr_status (*send)(void *handles, borrow_message *message),
                        bool (*part)(struct actor_handles *handles, mr_actor actor));
void actor_handles_fini(actor_handles *handles);
void actor_handles_feed(actor_handles *handles); /* called when a link has room, and at every tick */

actor_handle *actor_handle_find(const actor_handles *handles, mr_actor actor); /* NULL: this process has none */
/* found, or created as CARRIED and without users */
actor_handle *actor_handle_meet(actor_handles *handles, mr_actor actor);
static inline mr_actor actor_handle_actor(const actor_handle *handle) {
    return (mr_actor){{handle->ref.owner, handle->ref.serial}};
}

/* Adds or removes a use; the last release frees the handle. */
static inline void actor_handle_name(actor_handle *handle) { handle->names++; }
void actor_handle_unname(actor_handles *handles, actor_handle *handle);
static inline void actor_handle_enclose(actor_handle *handle) { handle->inside++; }
void actor_handle_disclose(actor_handles *handles, actor_handle *handle);
static inline void actor_handle_use(actor_handle *handle) { handle->uses++; }
void actor_handle_unuse(actor_handles *handles, actor_handle *handle);

void actor_handle_take(actor_handles *handles,
                       actor_handle *handle); /* reports the handle to the node; does not wait */
static inline uint32_t actor_handle_had(const actor_handle *handle) {
    return handle->names + handle->inside + handle->uses;
}
