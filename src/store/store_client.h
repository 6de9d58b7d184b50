/* store_client.h — object store, process's side: create, seal, hold, view, release.
 *
 *   object_ref ref;                                   // in one process
 *   store_client_create(store, size, &object, &data);  // MR_BUSY: memory was requested, try again after the answer
 *   memcpy(data, …);  store_client_seal(store, object);  // immutable from here on; this process has one hold
 *   store_client_ref(store, object, &ref);            // … the ref travels in a message …
 *
 *   store_client_take(store, &ref, &object);          // in another process: a hold of its own. After the answer to the
 *   store_client_view(store, object, &data, &size);   // message the sender may drop its hold.
 *  store_client_unview(store, object);  store_client_drop(store, object);
 *
 * A *hold* keeps an object from being freed; it may be spilled to disk. A *pin* (a live view) also keeps it in memory.
 * While a message with a ref is under way, the sender keeps its hold until the receiver has confirmed a hold of its
 * own. The creating process frees an object whose ref was never given out, at once; the store server frees the others
 * when no process holds them. A store client requests a collection when objects that its process has dropped use half
 * of the memory lent to it: each collection then frees many objects, and memory that is in the caches is reused.
 *
 * Objects of up to STORE_CLIENT_SMALL bytes are packed, and a view of one is a copy; larger ones begin on a page and
 * are viewed in place, through the private mapping (private_mapping.h): writing into a view changes only the view. All
 * views of an object that exist in a process at the same time share the same bytes.
 *
 * The store server lends memory in stretches; requests go through store_client_ops, which never waits. Not thread-safe:
 * with several threads, the caller holds its lock (net/shm/poller.h). Any thread may use the bytes of views. A fork of
 * the process may call only store_client_abandon. */
#pragma once
#include "base/clock.h"
#include "store/private_mapping.h"
#include "store/store_server.h"

typedef struct store_client store_client;
typedef struct store_client_object store_client_object; /* handle of an object in this process */

typedef enum store_client_ask {
    STORE_CLIENT_LEASE,
    STORE_CLIENT_GIVE_BACK,
    STORE_CLIENT_RESTORE,
    STORE_CLIENT_COLLECT
} store_client_ask;

typedef struct store_client_request {
    store_client_ask ask;
    lease_kind kind; /* of a lease */
    uint64_t size;   /* of a lease */
    extent extent;   /* to be returned (STORE_CLIENT_GIVE_BACK) */
    object_ref ref;  /* to restore */
} store_client_request;

typedef struct store_client_ops {
    /* Sends a request to the store server. store_client_answer answers each request but STORE_CLIENT_GIVE_BACK, perhaps
     * before this function returns. Never blocks. MR_BUSY, MR_CLOSED: the request was not sent. */
    mr_status (*ask)(void *context, const store_client_request *request);
    /* Called inside operations, between any two changes that other processes can observe; the simulator runs other
     * processes there, or kills this one. May be NULL. */
    void (*step)(void *context);
} store_client_ops;

enum {
    STORE_CLIENT_SMALL = 32 * 1024,       /* largest object that is packed, and viewed as a copy */
    STORE_CLIENT_SMALL_STRETCH = 1 << 20, /* stretch for small objects */
    STORE_CLIENT_STRETCH = 8 << 20,       /* stretch for larger objects, up to a seventh of its size */
    STORE_CLIENT_OWN_BYTES = 1152 * 1024, /* larger objects have a stretch each; 1 MB and its headers do not */
    STORE_CLIENT_SPARE_BYTES = 64 << 20,  /* empty stretches kept for later objects; besides, one of any size */
};

typedef struct store_client_options {
    uint64_t process; /* this process's id */
    clock_source clock;
} store_client_options;

/* Arena, ops and context are borrowed until the store is closed. `lease_page` is the process page that a request for
 * LEASE_PAGE returned. */
MR_MUST mr_status store_client_open(const arena *arena, extent lease_page, const store_client_ops *ops, void *context,
                                    const store_client_options *options, store_client **out);
/* Ends all holds and views and unmaps their bytes. After this the process must leave the store server
 * (store_server_leave), or end. */
void store_client_close(store_client *store);
/* As store_client_close, but the bytes of objects viewed in place stay readable in a mapping that the caller owns (base
 * NULL: no object was viewed in place). The bytes are copied, unless no other process uses the arena (`alone`). */
void store_client_close_keeping(store_client *store, bool alone, private_mapping *out);
void store_client_abandon(store_client *store); /* as store_client_close, without access to shared memory */

/* Passes on the answer to a request. `status` MR_BUSY: the store server has no room now; retry after retry_us. */
void store_client_answer(store_client *store, const store_client_request *request, mr_status status, extent extent,
                         int64_t retry_us);

/* ---- Creation. */

/* *data is 64-byte aligned, uninitialized, and writable until the object is sealed; size 0 is allowed. MR_BUSY: try
 * again after the pending answer (store_client_retry_us < 0), or after store_client_retry_us. MR_NOMEM, MR_TOO_LARGE,
 * MR_CLOSED. */
MR_MUST mr_status store_client_create(store_client *store, uint64_t size, store_client_object **out, void **data);
int64_t store_client_retry_us(const store_client *store);
void store_client_seal(store_client *store, store_client_object *object);  /* this process has one hold */
void store_client_abort(store_client *store, store_client_object *object); /* instead of sealing; frees the handle */

/* ---- Holds. */

/* The ref of the object, to be sent to other processes, which may then hold the object. */
void store_client_ref(store_client *store, store_client_object *object, object_ref *out);
/* The ref of the object, for use in this process only. */
object_ref store_client_peek(const store_client_object *object);
/* Adds a hold. MR_NOT_FOUND: the object is gone. MR_INVALID: not a ref. MR_BUSY as in store_client_create. */
MR_MUST mr_status store_client_take(store_client *store, const object_ref *ref, store_client_object **out);
/* Removes a hold; the last one frees the handle. All views must have ended before. */
void store_client_drop(store_client *store, store_client_object *object);
/* Deletes the object for all processes: existing views stay valid, new ones get MR_OBJECT_LOST. The hold stays. */
void store_client_delete(store_client *store, store_client_object *object);

uint64_t store_client_size(const store_client_object *object);

/* ---- Views. */

/* Pins the object and returns its bytes. MR_BUSY: the object is being restored from disk; try again as with
 * store_client_create. MR_OBJECT_LOST. MR_NOMEM: no room to restore it, or to copy a small object. */
MR_MUST mr_status store_client_view(store_client *store, store_client_object *object, void **data, uint64_t *size);
void store_client_unview(store_client *store, store_client_object *object);
/* The offset in the arena of a byte that is viewed in place, for callers that share the byte by a protocol of their own
 * (train/shared_model.h). False: `viewed` is not in the private mapping. */
bool store_client_locate(const store_client *store, const void *viewed, uint64_t *offset);

/* Handles objects that the store server took and requests to return unused memory. Call it when the store server asks
 * for it (store_server_ops.nudge) and before the process waits for work. */
void store_client_poll(store_client *store);

typedef struct store_client_stats {
    uint64_t leased, used, spare; /* bytes in stretches, in blocks, in empty stretches */
    uint32_t objects, views;      /* records of objects; those with a view */
} store_client_stats;
store_client_stats store_client_stats_now(const store_client *store);
