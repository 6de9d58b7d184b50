/* actor_handle.h — actor handles of this process, and the messages about them to the node.
 *
 * A process *has* an actor while its program has a reference (it created or found it, or said mr_actor_retain), while a
 * bundle's value has a handle of it inside, and while calls to it are on their way. Then the node holds the actor for
 * the process (NODE_ACTOR_HOLD); an actor without any holder ends, unless it is detached.
 *
 *   created ──► HELD when the node has taken it          found inside a value ──► CARRIED ──► as loans (borrow.h)
 *   had by nothing any more ──► NODE_ACTOR_DROP
 *
 * A handle inside a message is kept by its sender until the answer, or until it hears that the result was taken; who
 * has it beyond that tells the node before. It is the protocol of borrow.h with the node as the owner of all.
 *
 * Handles may be copied freely within a process: to call an actor none is needed. Pure: the host sends. */
#pragma once
#include "miniray/value.h"
#include "runtime/refs/borrow.h"

typedef struct actor_handle {
    borrowed_ref ref; /* owner and serial: the two words of its id */
    uint32_t names;   /* references of the program */
    uint32_t inside;  /* bundles whose values have it */
    uint32_t uses;    /* others that keep it for a while: its creation, calls under way */
} actor_handle;

typedef struct actor_handles { /* embedded in the record of its host */
    borrow_ops ops;
    bool (*part)(struct actor_handles *handles, mr_actor actor);
    borrow borrow;
    map by_owner; /* first word → map of second word → handle; owned */
} actor_handles;

/* `send` is as in borrow_ops, with the handles as its host: the node is the owner of all. `part` is called when nothing
 * has a handle of the actor any more; true: calls to it are under way, and actor_handle_unuse is called with the last.
 * */
void actor_handles_init(actor_handles *handles, mr_status (*send)(void *handles, borrow_message *message),
                        bool (*part)(struct actor_handles *handles, mr_actor actor));
void actor_handles_fini(actor_handles *handles);
void actor_handles_feed(actor_handles *handles); /* there may be room again, or some time has passed */

actor_handle *actor_handle_find(const actor_handles *handles, mr_actor actor); /* NULL: this process has none */
/* made if there is none, CARRIED; had by nothing yet */
actor_handle *actor_handle_meet(actor_handles *handles, mr_actor actor);
mr_actor actor_handle_actor(const actor_handle *handle);

/* One more or one less; with the last of all it is gone. */
void actor_handle_name(actor_handle *handle);
void actor_handle_unname(actor_handles *handles, actor_handle *handle);
void actor_handle_enclose(actor_handle *handle);
void actor_handle_disclose(actor_handles *handles, actor_handle *handle);
void actor_handle_use(actor_handle *handle);
void actor_handle_unuse(actor_handles *handles, actor_handle *handle);

void actor_handle_take(actor_handles *handles, actor_handle *handle); /* tells the node, without waiting for its word */
static inline uint32_t actor_handle_had(const actor_handle *handle) {
    return handle->names + handle->inside + handle->uses;
}
