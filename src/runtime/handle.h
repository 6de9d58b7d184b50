/* handle.h — actor handles of this process, and the messages about them to the node.
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

typedef struct handle {
    loan loan;       /* owner and serial: the two words of its id */
    uint32_t names;  /* references of the program */
    uint32_t inside; /* bundles whose values have it */
    uint32_t uses;   /* others that keep it for a while: its creation, calls under way */
} handle;

typedef struct handles { /* embedded in the record of its host */
    borrow_ops ops;
    bool (*part)(struct handles *handles, mr_actor actor);
    borrow borrow;
    map by_owner; /* first word → map of second word → handle; owned */
} handles;

/* `send` is as in borrow_ops, with the handles as its host: the node is the owner of all. `part` is called when nothing
 * has a handle of the actor any more; true: calls to it are under way, and handle_unuse is called with the last. */
void handles_init(handles *handles, mr_status (*send)(void *handles, borrow_message *message),
                  bool (*part)(struct handles *handles, mr_actor actor));
void handles_fini(handles *handles);
void handles_feed(handles *handles); /* there may be room again, or some time has passed */

handle *handle_find(const handles *handles, mr_actor actor); /* NULL: this process has none */
handle *handle_meet(handles *handles, mr_actor actor);       /* made if there is none, CARRIED; had by nothing yet */
mr_actor handle_actor(const handle *handle);

/* One more or one less; with the last of all it is gone. */
void handle_name(handle *handle);
void handle_unname(handles *handles, handle *handle);
void handle_enclose(handle *handle);
void handle_disclose(handles *handles, handle *handle);
void handle_use(handle *handle);
void handle_unuse(handles *handles, handle *handle);

void handle_take(handles *handles, handle *handle); /* tells the node, without waiting for its word */
static inline uint32_t handle_had(const handle *handle) { return handle->names + handle->inside + handle->uses; }
