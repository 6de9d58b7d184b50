/* client_internal.h — internals of the store client, shared by store_client.c (objects) and store_client_memory.c
 * (extents). No other file includes this.
 *
 * An object's record is freed with its last hold. Exception: the record of an object that this process created and
 * shared stays, without a hold (idle), until the store server has ended the object and its block can be used again.
 *
 * Invariants (store_client_check)
 *   1  A record is found by its slot. A record has an entry of the hold table exactly while it has holds, a data
 *      pointer exactly while it has views, and views only while it has holds; `viewed` counts the records with views.
 *   2  An object without a hold was created by this process and is in `idle`; idle_count and idle_bytes include it. An
 *      object that was created here and is held is in `made`.
 *   3  Only objects created here use memory of this process: a block, or a stretch for this object alone, never both.
 *   4  `leased` is the size of all stretches, `spare_bytes` that of the empty ones; the block allocators are consistent
 *      (block_allocator.h).
 *   5  Every entry of the hold table is free or belongs to one record; no more slots are free than were lent. */
#pragma once
#include "base/error.h"
#include "base/failpoint.h"
#include "base/list.h"
#include "base/map.h"
#include "store/block_allocator.h"
#include "store/hold_table.h"
#include "store/private_mapping.h"
#include "store/store_client.h"

typedef struct own_stretch { /* lent for one object */
    list place;              /* in store->spare while the stretch has no object */
    extent extent;
} own_stretch;

struct store_client_object {
    list place; /* in store->made or store->idle, if this process created the object */
    object_header *header;
    object_ref ref;
    uint64_t size;
    hold_entry *entry; /* NULL: no hold */
    uint32_t holds, views;
    bool made;      /* created by this process, which owns slot and memory */
    bool shown;     /* its ref was given out: other processes may hold the object */
    bool restoring; /* the store server was asked to restore the object, */
    bool refused;   /* and had no room for it, at refused_us */
    int64_t refused_us;
    block *block; /* its memory, if created here and not taken by the store server: block or own */
    own_stretch *own;
    void *data;           /* what views show; NULL: no view */
    uint64_t data_offset; /* in the arena, of an object viewed in place */
};

/* A point between two changes of shared memory that other processes can observe: a failpoint, and a hook of tests. */
#define STORE_CLIENT_STEP(store, name)                                        \
    do {                                                                      \
        FAILPOINT(name);                                                      \
        if ((store)->ops->step != NULL) (store)->ops->step((store)->context); \
    } while (0)

/* Requests that may have an answer pending. */
typedef enum store_client_want { WANT_SLOTS, WANT_HOLDS, WANT_SMALL, WANT_PAGES, WANT_OWN, WANTS } store_client_want;

struct store_client {
    const arena *arena;
    const store_client_ops *ops;
    void *context;
    store_client_options options;
    private_mapping views;
    hold_table holds;
    uint64_t next_number;
    list made; /* objects that this process created and holds */
    list idle; /* objects that this process created and shared, and holds no more */
    size_t idle_count;
    uint64_t idle_bytes;
    bool collecting;              /* a collection was requested from the store server */
    map by_slot;                  /* slot offset → store_client_object */
    object_header **free_headers; /* owned stack */
    size_t free_slot_count, slot_capacity;

    block_allocator small, pages;
    list spare;                   /* empty own_stretches, the oldest first */
    uint64_t leased, spare_bytes; /* sizes of all stretches, and of the empty ones */
    uint64_t *touched;            /* owned; a bit for each TOUCH_BYTES of the arena in this process's page tables */
    uint64_t taken_seen, moved_seen, wanted_seen;

    bool pending[WANTS];
    mr_status failed[WANTS]; /* status of the last answer; returned once */
    char failure[ERROR_TEXT_MAX];
    int64_t retry_us;
    uint32_t viewed;
};

/* ---- store_client_memory.c */

void store_client_memory_init(store_client *store);
void store_client_memory_fini(store_client *store);
/* Makes sure that a slot (WANT_SLOTS) or hold entry (WANT_HOLDS) is free. MR_BUSY: requested from the store server. */
mr_status store_client_need(store_client *store, store_client_want want);
/* Allocates memory; sets object->block or object->own. */
mr_status store_client_memory_take(store_client *store, uint64_t size, store_client_object *object);
uint64_t store_client_memory_offset(const store_client_object *object);
/* Makes the object's memory available to this process again. */
void store_client_memory_release(store_client *store, store_client_object *object);
/* For an object whose memory the store server took: a block is reused, a stretch of its own is gone. */
void store_client_memory_forget(store_client *store, store_client_object *object);
/* Returns empty stretches to the store server. `close`: also closes nearly empty ones. */
void store_client_memory_back(store_client *store, bool close);
/* Requests slots and entries before the last one is used, so that no caller has to wait for them. */
void store_client_ask_ahead(store_client *store);
void store_client_ask_collect(store_client *store); /* if enough objects are idle */

/* ---- store_client_check.c */

void store_client_check(const store_client *store); /* asserts the invariants above (base/invariants.h) */
