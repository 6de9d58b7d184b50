/* server_internal.h — records of the store server, shared by store_server.c (extents), store_gc.c (garbage collection)
 * and store_spill.c (spilling). No other file includes this.
 *
 * Memory of an object, as the store server sees it:
 *   in a stretch of a live maker's   homes[] is NULL; the maker's allocator knows the place. In a LEASE_OWN stretch it
 *                                    is known here too, by its offset.
 *   in a stretch of the store server's  homes[] names it: it was restored there, or the maker is dead. The stretch is
 *                                    freed with its last object (`live`).
 *   in a file                        files has it, under its slot's offset
 *
 * Invariants: an object that is SPILLED has a file and no home; every object in a page without an owner that is in
 * memory has a home. store_server_check asserts those that show in the store server's own records:
 *   1  Processes and pages are found by their keys: by_id and by_page have them and nothing else.
 *   2  Every stretch is found by its offset, and is in the list of its owner, or of orphans.
 *   3  A home is a stretch without an owner; `live` counts the objects that have it as their home. A stretch without an
 *      owner has at least one, or is being loaded into.
 *   4  A page without an owner has `busy` slots that are not FREE: no more than a page has.
 *   5  A file belongs to a slot, and all files together are the bytes that are spilled; a save has no waiters.
 *   6  An object that the store server itself holds is in a page, and held at least once. */
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
    extent known[KNOWN_MAX]; /* LEASE_OWN stretches that it had: a ring; of size 0: none */
    size_t known_next;
    bool taken, moved;         /* objects of its were ended, or spilled or lost: it has to be notified */
    int64_t starving_since_us; /* CLOCK_NEVER_US: it is not */
} process_book;

typedef struct stretch_book {
    list place; /* in its process's stretches, or in server->orphans */
    extent extent;
    lease_kind kind;
    process_book *owner; /* NULL: the store server */
    uint32_t live;       /* objects that have it as their home */
} stretch_book;

typedef struct page_book {
    list place; /* in server->pages */
    list own;   /* in its process's pages */
    extent extent;
    process_book *owner;                                                   /* NULL: none */
    uint32_t busy;                                                         /* without an owner: slots not FREE */
    uint64_t held[PAGE_WORDS], pinned[PAGE_WORDS], candidates[PAGE_WORDS]; /* during a round; a bit for each slot */
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

typedef struct move_book { /* a save or load under way */
    list place;
    uint64_t ticket, sequence;
    page_book *page;
    uint32_t index;
    uint64_t size;
    stretch_book *into; /* where it is loaded to; NULL: a save */
    bool sent;          /* of a save: it has begun */
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
    map kept;      /* slot offset → how often the store server itself holds the object there, as a number */
    uint64_t next_ticket;
    uint64_t released_seen;   /* sum over the process pages */
    bool released;            /* a process left, or a file's object may be free */
    int64_t collect_at_us;    /* not before */
    int64_t disk_at_us;       /* no saving before */
    char disk_failure[128];   /* why the last save failed; "": it did not */
    store_server_stats stats; /* counts; present numbers are counted when asked for */
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

page_book *store_server_page(const store_server *server, uint64_t slot, uint32_t *index); /* NULL: no slot is there */
stretch_book *store_server_stretch_add(store_server *server, process_book *owner, extent extent, lease_kind kind);
void store_server_stretch_free(store_server *server, stretch_book *stretch);

/* The stretch of the object's bytes, after checking its slot; NULL: the slot makes no sense. */
stretch_book *store_server_home(const store_server *server, const page_book *page, uint32_t index);
/* of an object that no process has any more */
void store_server_take_memory(store_server *server, page_book *page, uint32_t index);

/* ---- store_gc.c */

/* A round is store_server_mark, store_server_condemn, store_server_mark, store_server_decide; tests let others act in
 * between. */
void store_server_mark(store_server *server);    /* reads all hold tables into held and pinned */
bool store_server_condemn(store_server *server); /* true: there is something to decide */
void store_server_decide(store_server *server);
void store_server_tell(store_server *server); /* the processes of which something was taken or moved */
uint64_t store_server_released(const store_server *server);

/* ---- store_usage.c */

/* The largest holders, for people: " (p3: 1048576 bytes in 1 object, …)", or "". */
void store_server_holders_text(store_server *server, char *out, size_t size);

/* ---- store_server_holds.c */

void store_server_mark_kept(store_server *server); /* a part of store_server_mark */

/* ---- store_spill.c */

/* Memory, with all that can be done to have it. `process` may be NULL. MR_NOMEM, after some patience, is not returned
 * for a stretch: there is less to ask for. */
mr_status store_server_room(store_server *server, process_book *process, lease_kind kind, uint64_t size, int64_t now_us,
                            extent *out, int64_t *retry_us);
/* Spilling is store_server_mark, store_server_spill_choose, store_server_mark, store_server_spill_send. */
void store_server_spill_choose(store_server *server, uint64_t size); /* `size` bytes, those under way included */
void store_server_spill_send(store_server *server, int64_t now_us);
void store_server_file_forget(store_server *server, uint64_t slot); /* no-op if there is none */
void store_server_moves_end(store_server *server);                  /* all of them, unfinished */

/* ---- store_server_check.c */

void store_server_check(const store_server *server); /* asserts the invariants above (base/invariants.h) */
