/* store_provider.h — object store of a process (store/store_client.h) for the runtime: opened when the node has given
 * the process a hold table, else absent; and the stored objects that the process uses.
 *
 *  store_provider_join ──► hold table requested ──► open ──► store_provider_close
 *                        └── refused, or the node is gone: no store; values are sent through the rings
 *
 *  store_provider_make ──► room ── bytes written, store_provider_seal ──► held ── store_provider_show ──► shown
 *                           └── store_provider_abort                       ▲ ▲ │                            │
 *  store_provider_expect(ref) ──► expected ── taken ───────────────────────┘ └─┼──── store_provider_hide ───┘
 *                                                                              └── last stored_object_unref ──► gone
 *
 * A *stored object* is shared (stored_object_ref, stored_object_unref): a process has one record of it, found by its
 * place in the store. A stored object is held, and may be spilled while it is not shown. An expected object is taken at
 * once or, if the hold table is full, when the store server has answered; its sender keeps it until a confirmation.
 *
 * Requests for memory or for an object on disk may have to wait for the store server. Calls of the program wait and
 * drive the transport meanwhile (host.wait); event handlers do not wait: MR_BUSY.
 *
 * With the context's lock held, which is released only in host.wait. The bytes may be used without it. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "store/store_rpc_client.h"

enum {
    STORE_PROVIDER_VALUE_MIN = 64 * 1024,          /* smaller values are sent inside messages */
    STORE_PROVIDER_PATIENCE_US = 10 * 1000 * 1000, /* limit of a wait for the store */
};

typedef struct store_provider_host {
    void *context;
    /* Drives for at most timeout_us, or until store_provider_host.answered was called. MR_CLOSED: the runtime is over;
     * MR_CANCELLED: the waiting call was cancelled. */
    mr_status (*wait)(void *context, int64_t timeout_us);
    void (*answered)(void *context); /* called when a response of the store server has arrived */
} store_provider_host;

typedef struct store_provider {
    const arena *arena; /* borrowed; NULL: a process without shared memory (in the simulator) */
    clock_source clock;
    uint64_t process;
    store_provider_host host;
    store_rpc_client store_server;
    store_client *store; /* NULL: not open (yet) */
    bool asked;          /* a hold table was requested */
    bool closed;
    map by_slot;          /* slot → stored_object */
    list expected;        /* elements: stored_object, not taken yet */
    private_mapping kept; /* after close: memory of objects still shown */
} store_provider;

typedef struct stored_object {
    list place; /* in provider->expected until taken */
    store_provider *provider;
    uint32_t refs;
    uint32_t shown;
    object_ref ref;
    uint64_t size;
    store_client_object *object; /* NULL: expected, lost, or the provider is closed */
    bool lost;                   /* gone before it could be taken */
} stored_object;

/* The host's operations may be NULL: no thread waits. */
void store_provider_init(store_provider *provider, const arena *arena, uint64_t process, clock_source clock,
                         const store_provider_host *host);
/* requests a hold table; repeated by the next call if there was no room */
void store_provider_join(store_provider *provider, rpc *rpc, link_id node);
bool store_provider_is_open(store_provider *provider); /* opens the store if the hold table has arrived */
/* called on CLIENT_STORE: the store server took objects, or wants memory back */
void store_provider_poll(store_provider *provider);
/* Called before the transport is closed. Shown objects stay unchanged until store_provider_fini; `alone`: no other
 * process is left to change them. */
void store_provider_close(store_provider *provider, bool alone);
void store_provider_fini(store_provider *provider); /* called after the last stored_object_unref */

/* Creates an object of `size` > 0 bytes, to be written at *data, a multiple of 64. MR_BUSY: not now, and `may_wait` is
 * false; MR_NOMEM, MR_TOO_LARGE; MR_CLOSED: there is no store. */
MR_MUST mr_status store_provider_make(store_provider *provider, uint64_t size, bool may_wait, stored_object **out,
                                      void **data);
void store_provider_seal(stored_object *object); /* the bytes are written: the object is held */
void store_provider_abort(stored_object *object);

/* Returns a reference to an object that another process sent, taken now or later. MR_INVALID, MR_CORRUPT: malformed
 * `ref` or `size`. MR_OBJECT_LOST: the object is gone. */
MR_MUST mr_status store_provider_expect(store_provider *provider, const object_ref *ref, uint64_t size,
                                        stored_object **out);
/* tries again to take expected objects; true: none is left */
bool store_provider_take_expected(store_provider *provider);
/* borrowed; NULL: not used in this process */
stored_object *store_provider_find(store_provider *provider, const object_ref *ref);

static inline stored_object *stored_object_ref(stored_object *object) {
    object->refs++;
    return object;
}
void stored_object_unref(stored_object *object);
static inline bool stored_object_is_taken(const stored_object *object) {
    return object->object != NULL || object->lost;
}

/* Shows the bytes of the object, at one address for the whole process, until store_provider_hide. MR_OBJECT_LOST;
 * MR_BUSY as store_provider_make. */
MR_MUST mr_status store_provider_show(stored_object *object, bool may_wait, span *out);
void store_provider_hide(stored_object *object);
/* The arena, and the offset of a shown byte in it: store_client_locate. NULL: not in the arena. */
const arena *store_provider_locate(const store_provider *provider, const void *shown, uint64_t *offset);
/* Name of the object, for store_provider_expect in another process. */
object_ref stored_object_name(stored_object *object);
