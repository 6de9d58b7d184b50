/* client_internal.h — internals of the store client, shared by store_client.c (objects) and store_client_memory.c
 * (extents). No other file includes this.
 *
 * An object's record ends with its last hold, but for one: an object that this process made and gave out stays on
 * record, with no hold (idle), until the store server has taken it and the block can be used again.
 *
 * Invariants (store_client_check)
 *   1  A record is found by its slot. It has an entry of the hold table exactly while it has holds, bytes to show
 *      exactly while it has views, and views only while it has holds; `viewed` counts those with views.
 *   2  An object without a hold was made here, is in `idle`, and is counted there with its bytes; one that was made
 *      here and is held is in `made`.
 *   3  Only objects made here have memory of this process, a block or a stretch of its own, never both.
 *   4  `leased` is the size of all stretches, `spare_bytes` that of the empty ones; the blocks are sound
 *      (block_allocator.h).
 *   5  Every entry of the hold table is free or one record's; no more slots are free than were lent. */
#pragma once
#include "base/error.h"
#include "base/failpoint.h"
#include "base/list.h"
#include "base/map.h"
#include "store/block_allocator.h"
#include "store/hold_table.h"
#include "store/private_mapping.h"
#include "store/store_client.h"

typedef struct own_stretch { /* leased for one object */
    list place;              /* in store->spare while it has none */
    extent extent;
} own_stretch;

struct store_client_object {
    list place; /* in store->made or store->idle if we made it */
    object_header *header;
    object_ref ref;
    uint64_t size;
    hold_entry *entry; /* NULL: no hold */
    uint32_t holds, views;
    bool made;      /* by this process: slot and memory are ours */
    bool shown;     /* others may know it */
    bool restoring; /* the store server was asked to bring it back, */
    bool refused;   /* and had no room for it, at this time: */
    int64_t refused_us;
    block *block; /* its memory, if made and not taken: one of the two */
    own_stretch *own;
    void *data;           /* of the views */
    uint64_t data_offset; /* of bytes viewed in place */
};

/* Between two steps that others can see. */
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
    list made; /* objects that this process made and holds */
    list idle; /* that it made, gave out and does not hold any more */
    size_t idle_count;
    uint64_t idle_bytes;
    bool collecting;              /* the store server has been asked to look for objects that no process holds */
    map by_slot;                  /* slot offset → store_client_object */
    object_header **free_headers; /* owned stack */
    size_t free_slot_count, slot_capacity;

    block_allocator small, pages;
    list spare;                   /* own_stretches that are empty, the oldest first */
    uint64_t leased, spare_bytes; /* spare: all empty stretches */
    uint64_t *touched;            /* owned; a bit for each TOUCH_BYTES that this process's page tables have */
    uint64_t taken_seen, moved_seen, wanted_seen;

    bool pending[WANTS];
    mr_status failed[WANTS]; /* of the last answer; reported once */
    char failure[ERROR_TEXT_MAX];
    int64_t retry_us;
    uint32_t viewed;
};

/* ---- store_client_memory.c */

void store_client_memory_init(store_client *store);
void store_client_memory_fini(store_client *store);
/* Sees to it that a slot and a hold entry can be had. MR_BUSY: asked for. */
mr_status store_client_need(store_client *store, store_client_want want);
/* sets block or own */
mr_status store_client_memory_take(store_client *store, uint64_t size, store_client_object *object);
uint64_t store_client_memory_offset(const store_client_object *object);
/* it is this process's to use again */
void store_client_memory_release(store_client *store, store_client_object *object);
/* the store server took it; a block is still ours to reuse */
void store_client_memory_forget(store_client *store, store_client_object *object);
/* gives empty stretches back; closes nearly empty ones */
void store_client_memory_back(store_client *store, bool close);
/* Slots and entries are asked for before the last is gone, so that no caller has to wait for them. */
void store_client_ask_ahead(store_client *store);
void store_client_ask_collect(store_client *store); /* if there is enough to collect */

/* ---- store_client_check.c */

void store_client_check(const store_client *store); /* asserts the invariants above (base/invariants.h) */
