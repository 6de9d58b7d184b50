/* shelf.h — object store of a process (store/store.h) for the runtime: opened when the node has given it a hold table,
 * done without where there is none; and the objects in it that the process uses.
 *
 *   shelf_join ──► asked for a desk ──► open ──► shelf_close
 *                        └── refused, or the node is gone: none; values then travel through the rings
 *
 *   shelf_make ──► room ── bytes written, shelf_seal ──► held ── shelf_show ──► shown ── shelf_hide ──► held
 *                    └── shelf_abort                      ▲ └── the last shelved_unref ──► gone, here
 *   shelf_expect(ref) ──► expected ── taken ──────────────┘
 *
 * A *shelved* object is shared (shelved_ref, shelved_unref): a process has one record of it, found by its slot. It is
 * held, and may be spilled while it is not shown. An expected one is taken at once or, if the hold table is full, when
 * the vault has answered; its sender keeps it until it hears of that.
 *
 * Requests for memory or for an object on disk may have to wait for the vault. Calls of the program wait and drive the
 * port meanwhile (host.wait); event handlers do not wait: MR_BUSY.
 *
 * With the context's lock held, which is let go only in host.wait. The bytes may be used without it. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "store/vault_client.h"

enum {
    SHELF_VALUE_MIN = 64 * 1024,          /* smaller values travel inside messages */
    SHELF_PATIENCE_US = 10 * 1000 * 1000, /* for an object to come back from disk */
};

typedef struct shelf_host {
    void *context;
    /* Drives for at most timeout_us, or until shelf_host.answered was called. MR_CLOSED: the runtime is over;
     * MR_CANCELLED: whoever waits has given up. */
    mr_status (*wait)(void *context, int64_t timeout_us);
    void (*answered)(void *context); /* the vault has answered something */
} shelf_host;

typedef struct shelf {
    const arena *arena; /* borrowed; NULL: a process without shared memory (in the simulator) */
    clock_source clock;
    uint64_t process;
    shelf_host host;
    vault_client vault;
    store *store; /* NULL: not open (yet) */
    bool asked;   /* for a desk */
    bool closed;
    map by_slot;   /* slot → shelved */
    list expected; /* of shelved: not taken yet */
    lens kept;     /* after the end: what is still shown lies here */
} shelf;

typedef struct shelved {
    list place; /* in shelf->expected until it was taken */
    shelf *shelf;
    uint32_t refs;
    uint32_t shown;
    object_ref ref;
    uint64_t size;
    store_object *object; /* NULL: expected, lost, or the shelf is closed */
    bool lost;            /* it was gone before it could be taken */
} shelved;

/* The host's operations may be NULL: nobody waits. */
void shelf_init(shelf *shelf, const arena *arena, uint64_t process, clock_source clock, const shelf_host *host);
void shelf_join(shelf *shelf, calls *calls, link_id node); /* asks for a desk; again if there was no room for it */
bool shelf_is_open(shelf *shelf);                          /* opens it if the desk has come */
void shelf_poll(shelf *shelf);                             /* the node says that something was taken or is wanted */
/* Before the port goes. What is shown stays as it is until shelf_fini; `alone`: no other process is left to change it.
 */
void shelf_close(shelf *shelf, bool alone);
void shelf_fini(shelf *shelf); /* after the last shelved_unref */

/* `size` > 0 bytes to be written, a multiple of 64. MR_BUSY: not now, and `may_wait` is false; MR_NOMEM, MR_TOO_LARGE;
 * MR_CLOSED: there is no store. */
MR_MUST mr_status shelf_make(shelf *shelf, uint64_t size, bool may_wait, shelved **out, void **data);
void shelf_seal(shelved *shelved); /* written: held */
void shelf_abort(shelved *shelved);

/* A reference to what another process sent; it is taken now or later. MR_INVALID: it names nothing that could be an
 * object. MR_OBJECT_LOST: it is gone already. */
MR_MUST mr_status shelf_expect(shelf *shelf, const object_ref *ref, uint64_t size, shelved **out);
bool shelf_take_expected(shelf *shelf);                   /* tries again; true: nothing is expected any more */
shelved *shelf_find(shelf *shelf, const object_ref *ref); /* borrowed; NULL: this process does not have it */

shelved *shelved_ref(shelved *shelved);
void shelved_unref(shelved *shelved);
static inline bool shelved_is_taken(const shelved *shelved) { return shelved->object != NULL || shelved->lost; }

/* Its bytes, the same for everybody in this process, until shelf_hide. MR_OBJECT_LOST; MR_BUSY as shelf_make. */
MR_MUST mr_status shelf_show(shelved *shelved, bool may_wait, span *out);
void shelf_hide(shelved *shelved);
/* The arena, and where in it a byte that is shown lies: store_locate. NULL: it does not. */
const arena *shelf_locate(const shelf *shelf, const void *shown, uint64_t *offset);
/* What another process needs to expect it. */
object_ref shelved_name(shelved *shelved);
