/* store_server.h — object store server: lends extents, collects objects that no process holds, and spills.
 *
 * Lives beside the broker. It lends memory to the processes' stores (store_client.h): process pages, chunks of hold
 * tables, pages of slots, stretches; all of it is recorded in its own memory. It reads the hold tables to find objects
 * that no process holds, takes over the objects of a process that died, and makes room when memory is short:
 *
 *   collect objects without holds → ask for unused stretches → spill objects without views, least recently used first
 *     → MR_BUSY with a time to try again → MR_NOMEM, with the sizes, when it has been so for `patience_us`
 *
 * It does no I/O: memory and files come in through store_server_ops, time as `now_us`; it runs as well on any block of
 * memory in a test or in the simulator. Shared memory is written by others and is checked before use; a process
 * can harm its own objects there, no bookkeeping.
 *
 * Memory is lent to a process until it gives it back or store_server_leave reports that it can touch the arena no more.
 * A stretch for one object is lent to the process that had it before, if it is free: in the page tables of another it
 * would be new, which costs as much as the copy that it is for. Slots are kept for the store server's life
 * (object_header.h, invariant 2) and used again.
 *
 * Threads  one: that of the loop. */
#pragma once
#include "miniray/status.h"
#include "net/shm/arena.h"
#include "store/object_header.h"

typedef struct store_server store_server;

typedef struct store_server_ops { /* none blocks for long */
    /* Multiples of 4 KB. MR_NOMEM; MR_BUSY: it is being made ready, ask again. */
    mr_status (*extent_alloc)(void *context, uint64_t size, extent *out);
    void (*extent_free)(void *context, extent extent);
    /* Files; all three NULL: no spilling. A file is called by the ticket it was saved with. Saves and loads are
     * answered by store_server_moved with their ticket, later, not before this returns, unless they fail at once. The
     * bytes are borrowed until then; those that are saved may change meanwhile, which voids the result. `load` fails
     * with MR_CORRUPT if the bytes are not those that were saved. Everything happens in the order of the calls. */
    mr_status (*save)(void *context, uint64_t ticket, const void *data, uint64_t size);
    mr_status (*load)(void *context, uint64_t ticket, uint64_t file, void *data, uint64_t size);
    void (*forget)(void *context, uint64_t file); /* also one whose save is under way; not answered */
    /* Asks a process to call store_client_poll soon; may be NULL. */
    void (*nudge)(void *context, uint64_t process);
    /* Exactly these bytes, which were allocated before; any error: they are not to be had. May be NULL. */
    mr_status (*extent_take)(void *context, extent wanted);
} store_server_ops;

typedef struct store_server_options { /* zero: the defaults */
    uint64_t spill_bytes_max;         /* 0: as much as the disk takes */
    int64_t patience_us;              /* how long MR_BUSY is answered before MR_NOMEM; 0: STORE_SERVER_PATIENCE_US */
} store_server_options;

enum {
    STORE_SERVER_PATIENCE_US = 5 * 1000 * 1000,
    STORE_SERVER_COLLECT_US = 100 * 1000, /* releases are looked at this often when no request waits */
    STORE_SERVER_IDLE_US = 1000 * 1000,   /* and this often when nothing has been released */
    STORE_SERVER_RETRY_US = 2 * 1000,
    STORE_SERVER_DISK_RETRY_US = 1000 * 1000, /* after a failure of the disk */
};

/* Use of lent memory. */
typedef enum lease_kind {
    LEASE_PAGE,    /* one per process, first of all: PROCESS_PAGE_BYTES, zeroed */
    LEASE_HOLDS,   /* HOLDS_CHUNK_BYTES, zeroed */
    LEASE_SLOTS,   /* OBJECT_HEADER_PAGE_BYTES of slots, all FREE */
    LEASE_STRETCH, /* for many objects */
    LEASE_OWN,     /* for one object: the stretch goes with the object */
    LEASE_KINDS,
} lease_kind;

/* `arena` and the context are borrowed for the store server's life. */
store_server *store_server_open(const arena *arena, const store_server_ops *ops, void *context,
                                const store_server_options *options);
/* Gives all memory back; restores that wait end with MR_CLOSED. Saving and loading has stopped before: no other op is
 * called any more. */
void store_server_close(store_server *server);

/* A process's requests. MR_BUSY: *retry_us is when to ask again. MR_NOMEM, MR_TOO_LARGE; MR_INVALID: it has no
 * process page, or not the memory it names. */
MR_MUST mr_status store_server_lease(store_server *server, uint64_t process, lease_kind kind, uint64_t size,
                                     int64_t now_us, extent *out, int64_t *retry_us);
/* a stretch that is empty */
MR_MUST mr_status store_server_give_back(store_server *server, uint64_t process, extent extent);

/* Brings a spilled object back: done is called once, perhaps before this returns. MR_OK: it is in memory (and stays
 * while the asker has it pinned). MR_BUSY: no room now, ask again. MR_NOMEM as store_server_lease; MR_OBJECT_LOST,
 * MR_NOT_FOUND. */
typedef void store_server_done_fn(void *argument, mr_status status);
void store_server_restore(store_server *server, uint64_t process, const object_ref *ref, int64_t now_us,
                          store_server_done_fn *done, void *argument);

/* The store server's own holds, for objects that the node keeps beyond the life of every process
 * (store_server_holds.c); they are counted. The caller's process holds the object meanwhile. MR_OBJECT_LOST: it is
 * gone. */
MR_MUST mr_status store_server_keep(store_server *server, const object_ref *ref);
void store_server_let_go(store_server *server, const object_ref *ref); /* one that was kept */

/* The process can touch the arena no more: it died, or left. Its holds end, its half-written objects go, its objects
 * that others hold stay. Unknown processes are none. */
void store_server_leave(store_server *server, uint64_t process);

/* A save or load has ended. */
void store_server_moved(store_server *server, uint64_t ticket, mr_status status, int64_t now_us);

/* From time to time: collects released objects. Returns when to call again; CLOCK_NEVER_US: not before something
 * happens. */
int64_t store_server_tick(store_server *server, int64_t now_us);
void store_server_collect(store_server *server); /* now */

typedef struct store_server_stats {
    uint32_t processes, stretches, pages; /* present numbers */
    uint32_t objects;                     /* slots that are not FREE */
    uint64_t bytes;                       /* in stretches */
    uint64_t spilled_bytes;
    uint32_t moving;                                                  /* saves and loads under way */
    uint64_t collections, collected, spilled, restored, lost, voided; /* counts; voided: saves in vain */
} store_server_stats;
store_server_stats store_server_stats_now(const store_server *server);
