/* store_client.h — object store, process's side: create, seal, hold, view, release.
 *
 *   object_ref ref;                                   // in one process
 *   store_client_create(store, size, &object, &data);  // MR_BUSY: memory is on its way, try again after its answer
 *   memcpy(data, …);  store_client_seal(store, object);  // immutable from here on; the maker holds it once
 *   store_client_ref(store, object, &ref);            // … the ref travels in a message …
 *
 *   store_client_take(store, &ref, &object);          // in another: a hold of its own. Then the message's receiver
 *   store_client_view(store, object, &data, &size);   // answers, and the sender may let go.
 *  store_client_unview(store, object);  store_client_drop(store, object);
 *
 * A *hold* keeps an object from being freed; it may be spilled to disk. A *pin* (a live view) also keeps it in memory.
 * An object on its way belongs to the message that carries it: the sender keeps its hold until the receiver has taken
 * its own and has confirmed it. An object whose ref was never given out is freed by its maker alone, at once; others
 * are freed by the store server when no process holds them. The store server is asked to look when half of the memory
 * that a store has leased is in objects that this process has let go of: so each look frees many, and memory that is
 * warm is used again.
 *
 * Objects of up to STORE_CLIENT_SMALL bytes are packed, and a view of one is a copy; larger ones begin on a page and
 * are viewed in place, through the private mapping (private_mapping.h): writing into a view changes nothing but the
 * view. All views that a process has of one object at one time are the same bytes.
 *
 * Memory is leased from the store server in stretches; requests go through store_client_ops, which never waits. Not
 * thread-safe: with several threads the caller's lock is held (net/shm/poller.h). Bytes that were handed out may be
 * used by any thread. A fork of the process may only store_client_abandon. */
#pragma once
#include "base/clock.h"
#include "store/private_mapping.h"
#include "store/store_server.h"

typedef struct store_client store_client;
typedef struct store_client_object store_client_object; /* this process's handle of an object */

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
    extent extent;   /* to give back */
    object_ref ref;  /* to restore */
} store_client_request;

typedef struct store_client_ops {
    /* Sends it to the store server. All but STORE_CLIENT_GIVE_BACK are answered by store_client_answer, perhaps before
     * this returns. Never blocks. A failure means that it was not sent: MR_BUSY, MR_CLOSED. */
    mr_status (*ask)(void *context, const store_client_request *request);
    /* NULL: nothing. Called inside operations, between any two steps that others can see; the simulator lets others go
     * on there, or the process die. */
    void (*step)(void *context);
} store_client_ops;

enum {
    STORE_CLIENT_SMALL = 32 * 1024,       /* up to this many bytes a view is a copy */
    STORE_CLIENT_SMALL_STRETCH = 1 << 20, /* for small objects */
    STORE_CLIENT_STRETCH = 8 << 20,       /* for larger ones up to a seventh of it */
    STORE_CLIENT_OWN_BYTES = 1152 * 1024, /* above: a stretch of its own; 1 MB and what is around it has none */
    STORE_CLIENT_SPARE_BYTES = 64 << 20,  /* empty stretches that are kept for the next objects, and one of any size */
};

typedef struct store_client_options {
    uint64_t process; /* this process's id */
    clock_source clock;
} store_client_options;

/* The arena, ops and context are borrowed for the store's life. `desk` is the process page that LEASE_DESK gave. */
MR_MUST mr_status store_client_open(const arena *arena, extent lease_page, const store_client_ops *ops, void *context,
                                    const store_client_options *options, store_client **out);
/* Lets go of everything, views included: their bytes are unmapped. The process then tells the store server that it
 * leaves (or ends). */
void store_client_close(store_client *store);
/* The same, but objects viewed in place stay as they are, in a mapping that is the caller's from here on (base NULL:
 * nothing was viewed). They are copied, unless no other process has the arena any more (`alone`). */
void store_client_close_keeping(store_client *store, bool alone, private_mapping *out);
void store_client_abandon(store_client *store); /* the same without touching shared memory */

/* The answer to a request. `status` MR_BUSY: the store server has no room now and gave a time to try again. */
void store_client_answer(store_client *store, const store_client_request *request, mr_status status, extent extent,
                         int64_t retry_us);

/* ---- Making. */

/* *data is 64-byte aligned, uninitialized, writable until it is sealed; size 0 is allowed. MR_BUSY: try again when the
 * pending answer has come (store_client_retry_us < 0), or after store_client_retry_us. MR_NOMEM, MR_TOO_LARGE,
 * MR_CLOSED. */
MR_MUST mr_status store_client_create(store_client *store, uint64_t size, store_client_object **out, void **data);
int64_t store_client_retry_us(const store_client *store);
void store_client_seal(store_client *store, store_client_object *object);  /* the maker has one hold */
void store_client_abort(store_client *store, store_client_object *object); /* instead of sealing; the handle ends */

/* ---- Holding. */

/* from now on other processes may hold it */
void store_client_ref(store_client *store, store_client_object *object, object_ref *out);
/* the same, for use in this process only */
object_ref store_client_peek(const store_client_object *object);
/* One more hold. MR_NOT_FOUND: it is gone. MR_INVALID: no ref. MR_BUSY as store_client_create. */
MR_MUST mr_status store_client_take(store_client *store, const object_ref *ref, store_client_object **out);
/* one less; the handle ends with the last. Views end first */
void store_client_drop(store_client *store, store_client_object *object);
/* Ends the object for all processes: views that exist stay, new ones get MR_OBJECT_LOST. The hold stays. */
void store_client_delete(store_client *store, store_client_object *object);

uint64_t store_client_size(const store_client_object *object);

/* ---- Viewing. */

/* A pin, and where the bytes are; costs the same for every size. MR_BUSY: it is being brought back from disk, try again
 * as with store_client_create. MR_OBJECT_LOST, MR_NOMEM (there is no room for it, or for a copy of a small one). */
MR_MUST mr_status store_client_view(store_client *store, store_client_object *object, void **data, uint64_t *size);
void store_client_unview(store_client *store, store_client_object *object);
/* The offset in the arena of a byte that is viewed in place, for callers that share it with others by their own
 * protocol (train/shared_model.h). False: it is no such byte. */
bool store_client_locate(const store_client *store, const void *viewed, uint64_t *offset);

/* Handles objects that the store server took and memory that it wants back. To be called now and then: when a message
 * asks for it, before idling. */
void store_client_poll(store_client *store);

typedef struct store_client_stats {
    uint64_t leased, used, spare; /* bytes: in stretches, in objects, in empty stretches */
    uint32_t objects, views;      /* handles; of which with a view */
} store_client_stats;
store_client_stats store_client_stats_now(const store_client *store);
