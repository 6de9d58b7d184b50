/* store_provider.h — object store of a process (store/store_client.h) for the runtime: opened when the node has given
 * it a hold table, done without where there is none; and the objects in it that the process uses.
 *
 *  store_provider_join ──► asked for a desk ──► open ──► store_provider_close
 *                        └── refused, or the node is gone: none; values then travel through the rings
 *
 *  store_provider_make ──► room ── bytes written, store_provider_seal ──► held ── store_provider_show ──► shown ──
 *  store_provider_hide ──► held
 *                    └── store_provider_abort       ▲ └── the last stored_object_unref ──► gone, here
 *  store_provider_expect(ref) ──► expected ── taken ──────────────┘
 *
 * A *shelved* object is shared (stored_object_ref, stored_object_unref): a process has one record of it, found by its
 * slot. It is held, and may be spilled while it is not shown. An expected one is taken at once or, if the hold table is
 * full, when the store server has answered; its sender keeps it until it hears of that.
 *
 * Requests for memory or for an object on disk may have to wait for the store server. Calls of the program wait and
 * drive the port meanwhile (host.wait); event handlers do not wait: MR_BUSY.
 *
 * With the context's lock held, which is let go only in host.wait. The bytes may be used without it. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "store/store_rpc_client.h"

enum {
    STORE_PROVIDER_VALUE_MIN = 64 * 1024,          /* smaller values travel inside messages */
    STORE_PROVIDER_PATIENCE_US = 10 * 1000 * 1000, /* for an object to come back from disk */
};

typedef struct store_provider_host {
    void *context;
    /* Drives for at most timeout_us, or until store_provider_host.answered was called. MR_CLOSED: the runtime is over;
     * MR_CANCELLED: whoever waits has given up. */
    mr_status (*wait)(void *context, int64_t timeout_us);
    void (*answered)(void *context); /* the store server has answered something */
} store_provider_host;

typedef struct store_provider {
    const arena *arena; /* borrowed; NULL: a process without shared memory (in the simulator) */
    clock_source clock;
    uint64_t process;
    store_provider_host host;
    store_rpc_client store_server;
    store_client *store; /* NULL: not open (yet) */
    bool asked;          /* for a desk */
    bool closed;
    map by_slot;          /* slot → shelved */
    list expected;        /* of shelved: not taken yet */
    private_mapping kept; /* after the end: what is still shown lies here */
} store_provider;

typedef struct stored_object {
    list place; /* in shelf->expected until it was taken */
    store_provider *provider;
    uint32_t refs;
    uint32_t shown;
    object_ref ref;
    uint64_t size;
    store_client_object *object; /* NULL: expected, lost, or the shelf is closed */
    bool lost;                   /* it was gone before it could be taken */
} stored_object;

/* The host's operations may be NULL: nobody waits. */
void store_provider_init(store_provider *provider, const arena *arena, uint64_t process, clock_source clock,
                         const store_provider_host *host);
/* asks for a desk; again if there was no room for it */
void store_provider_join(store_provider *provider, rpc *rpc, link_id node);
bool store_provider_is_open(store_provider *provider); /* opens it if the desk has come */
/* the node says that something was taken or is wanted */
void store_provider_poll(store_provider *provider);
/* Before the port goes. What is shown stays as it is until store_provider_fini; `alone`: no other process is left to
 * change it.
 */
void store_provider_close(store_provider *provider, bool alone);
void store_provider_fini(store_provider *provider); /* after the last stored_object_unref */

/* `size` > 0 bytes to be written, a multiple of 64. MR_BUSY: not now, and `may_wait` is false; MR_NOMEM, MR_TOO_LARGE;
 * MR_CLOSED: there is no store. */
MR_MUST mr_status store_provider_make(store_provider *provider, uint64_t size, bool may_wait, stored_object **out,
                                      void **data);
void store_provider_seal(stored_object *object); /* written: held */
void store_provider_abort(stored_object *object);

/* A reference to what another process sent; it is taken now or later. MR_INVALID: it names nothing that could be an
 * object. MR_OBJECT_LOST: it is gone already. */
MR_MUST mr_status store_provider_expect(store_provider *provider, const object_ref *ref, uint64_t size,
                                        stored_object **out);
/* tries again; true: nothing is expected any more */
bool store_provider_take_expected(store_provider *provider);
/* borrowed; NULL: this process does not have it */
stored_object *store_provider_find(store_provider *provider, const object_ref *ref);

stored_object *stored_object_ref(stored_object *object);
void stored_object_unref(stored_object *object);
static inline bool stored_object_is_taken(const stored_object *object) {
    return object->object != NULL || object->lost;
}

/* Its bytes, the same for everybody in this process, until store_provider_hide. MR_OBJECT_LOST; MR_BUSY as
 * store_provider_make. */
MR_MUST mr_status store_provider_show(stored_object *object, bool may_wait, span *out);
void store_provider_hide(stored_object *object);
/* The arena, and where in it a byte that is shown lies: store_client_locate. NULL: it does not. */
const arena *store_provider_locate(const store_provider *provider, const void *shown, uint64_t *offset);
/* What another process needs to expect it. */
object_ref stored_object_name(stored_object *object);
