/* server_internal.h — records of the store server, shared by store_server.c (extents), store_gc.c (garbage collection)
 * and store_spill.c (spilling). No other file includes this.
 *
 * Memory of an object, as the store server sees it:
 *   in a stretch of a live process      homes[] is NULL; the allocator of the creating process has the block. A
 *                                       LEASE_OWN stretch is also found here, by its offset.
 *   in a stretch of the store server    homes[] points to the stretch: the object was restored there, or its creating
 *                                       process is dead. The stretch is freed with its last object (`live`).
 *   in a file                           `files` has a record under the slot's offset
 *
 * Invariants: a SPILLED object has a file and no home; every object that is in memory and whose page has no owner has a
 * home. store_server_check asserts the invariants that concern only the store server's own records:
 *   1  by_id and by_page contain exactly the processes and pages.
 *   2  Every stretch is found by its offset, and is in the list of its owner, or in `orphans`.
 *   3  A home is a stretch without an owner; `live` counts the objects that have it as their home. A stretch without an
 *      owner has at least one such object, or is the target of a load.
 *   4  `busy` counts the slots that are not FREE in a page without an owner; it is at most the slots of a page.
 *   5  A file belongs to a slot; the sizes of all files add up to spilled_bytes; a save has no waiters.
 *   6  An object that the store server itself holds is in a page, and its count of holds is at least 1. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "store/process_page.h"
#include "store/store_server.h"

enum { PAGE_WORDS = OBJECT_HEADERS_PER_PAGE / 64, PAGE_KEYS = OBJECT_HEADER_PAGE_BYTES / 4096 };

typedef struct chunk_book { /* of a hold table */
    list place;
    extent extent;
} chunk_book;

enum { KNOWN_MAX = 8 };

typedef struct process_book {
    uint64_t id;
    list place; /* in server->processes */
    extent lease_page;
    list chunks, stretches, pages;
    extent known[KNOWN_MAX]; /* ring of LEASE_OWN stretches that the process had before; size 0: none */
    size_t known_next;
    bool taken, moved;         /* objects of the process became GONE; were spilled or lost: it must be notified */
    int64_t starving_since_us; /* time of the first request that found no memory; CLOCK_NEVER_US: none */
} process_book;

typedef struct stretch_book {
    list place; /* in its process's stretches, or in server->orphans */
    extent extent;
    lease_kind kind;
    process_book *owner; /* NULL: the store server */
    uint32_t live;       /* objects whose home is this stretch */
} stretch_book;

typedef struct page_book {
    list place; /* in server->pages */
    list own;   /* in its process's pages */
    extent extent;
    process_book *owner; /* NULL: none */
    uint32_t busy;       /* of a page without an owner: slots that are not FREE */
    uint64_t held[PAGE_WORDS], pinned[PAGE_WORDS],
        candidates[PAGE_WORDS]; /* of a collection or spill; a bit for each slot */
    stretch_book *homes[OBJECT_HEADERS_PER_PAGE];
} page_book;

typedef struct file_book {
    uint64_t file; /* the ticket of its save */
    uint64_t size;
} file_book;

typedef struct waiter_book {
    list place; /* in move_book.waiters */
    store_server_done_fn *done;
    void *argument;
} waiter_book;

typedef struct move_book { /* a save or load that has not ended */
    list place;
    uint64_t ticket, sequence;
    page_book *page;
    uint32_t index;
    uint64_t size;
    stretch_book *into; /* target of a load; NULL: a save */
    bool sent;          /* of a save: ops->save was called */
    list waiters;
} move_book;

struct store_server {
    const arena *arena;
    const store_server_ops *ops;
    void *context;
    store_server_options options;
    list processes, pages, orphans, moves;
    map by_id;     /* process → process_book */
    map by_page;   /* slot offset / 4096 → page_book */
    map stretches; /* offset → stretch_book */
    map files;     /* slot offset → file_book, owned */
    map kept;      /* slot offset → count of the store server's own holds of the object, as a number */
    uint64_t next_ticket;
    uint64_t released_seen;   /* sum of process_page.released at the last collection */
    bool released;            /* objects may have lost their last hold: a process left, or a save ended */
    int64_t collect_at_us;    /* earliest time of the next collection by store_server_tick */
    int64_t disk_at_us;       /* earliest time of the next save */
    char disk_failure[128];   /* why the last save failed; "": it did not fail */
    store_server_stats stats; /* counts of events; store_server_stats_now adds the current numbers */
};

static inline object_header *page_slot(const store_server *server, const page_book *page, uint32_t index) {
    return (object_header *)arena_at(server->arena, page->extent.offset) + index;
}
static inline uint64_t slot_offset(const page_book *page, uint32_t index) {
    return page->extent.offset + index * sizeof(object_header);
}
static inline bool bit_of(const uint64_t *bits, uint32_t index) { return bits[index / 64] >> (index % 64) & 1; }
static inline void bit_set(uint64_t *bits, uint32_t index) { bits[index / 64] |= UINT64_C(1) << (index % 64); }
static inline process_page *page_of(const store_server *server, const process_book *process) {
    return arena_at(server->arena, process->lease_page.offset);
}

/* ---- store_server.c */

page_book *store_server_page(const store_server *server, uint64_t slot,
                             uint32_t *index); /* NULL: `slot` is not the offset of a slot */
stretch_book *store_server_stretch_add(store_server *server, process_book *owner, extent extent, lease_kind kind);
void store_server_stretch_free(store_server *server, stretch_book *stretch);

/* The stretch of the object's bytes, after a check of the slot; NULL: the slot's content is not valid. */
stretch_book *store_server_home(const store_server *server, const page_book *page, uint32_t index);
/* Takes the memory of an object that became GONE, LOST or SPILLED. */
void store_server_take_memory(store_server *server, page_book *page, uint32_t index);

/* ---- store_gc.c */

/* A collection is store_server_mark, store_server_condemn, store_server_mark, store_server_decide; tests run steps of
 * other processes in between. */
void store_server_mark(store_server *server);    /* reads all hold tables into held and pinned */
bool store_server_condemn(store_server *server); /* true: there are candidates for store_server_decide */
void store_server_decide(store_server *server);
void store_server_tell(store_server *server); /* notifies processes whose `taken` or `moved` is set */
uint64_t store_server_released(const store_server *server);

/* ---- store_usage.c */

/* The processes that hold the most bytes, as text: " (p3: 1048576 bytes in 1 object, …)", or "". */
void store_server_holders_text(store_server *server, char *out, size_t size);

/* ---- store_server_holds.c */

void store_server_mark_kept(
    store_server *server); /* part of store_server_mark: marks objects that the store server holds */

/* ---- store_spill.c */

/* Allocates an extent; if memory is full, collects objects, asks for unused stretches and spills. `process` may be
 * NULL. MR_BUSY: retry after *retry_us. MR_NOMEM: no room for patience_us; never for LEASE_STRETCH, because the client
 * can request the size of one object instead. */
mr_status store_server_room(store_server *server, process_book *process, lease_kind kind, uint64_t size, int64_t now_us,
                            extent *out, int64_t *retry_us);
/* Spilling is store_server_mark, store_server_spill_choose, store_server_mark, store_server_spill_send. */
void store_server_spill_choose(store_server *server,
                               uint64_t size); /* until saves and loads of `size` bytes are pending */
void store_server_spill_send(store_server *server, int64_t now_us);
void store_server_file_forget(store_server *server, uint64_t slot); /* no-op if the slot has no file */
void store_server_moves_end(store_server *server); /* ends all saves and loads; waiters get MR_CLOSED */

/* ---- store_server_check.c */

void store_server_check(const store_server *server); /* asserts the invariants above (base/invariants.h) */
