/* store_server.h — object store server: lends extents, collects objects that no process holds, and spills.
 *
 * The store server runs in the process of the broker. It lends memory to store clients (store_client.h): process pages,
 * chunks of hold tables, pages of slots, stretches; the records of these are in the server's own memory. It reads the
 * hold tables to find objects that no process holds, takes over the objects of dead processes, and makes room when
 * memory is full:
 *
 *   collect objects without holds → ask for unused stretches → spill objects without views, least recently used first
 *     → MR_BUSY with a time to try again → MR_NOMEM, with the sizes, after `patience_us`
 *
 * The store server does no I/O: memory and files are accessed through store_server_ops, and the time is the parameter
 * `now_us`; tests and the simulator run it on any block of memory. Shared memory is written by other processes and is
 * checked before use; a process can damage only its own objects there, not the server's records.
 *
 * Memory is lent to a process until the process returns it, or store_server_leave reports that the process has no more
 * access to the arena. A stretch for one object is lent to the process that had it before, if it is free: page faults
 * of another process in that stretch cost as much as copying the object. Pages of slots are never freed
 * (object_header.h, invariant 2) but lent again.
 *
 * Threads  one: the thread of the loop. */
#pragma once
#include "miniray/status.h"
#include "net/shm/arena.h"
#include "store/object_header.h"

typedef struct store_server store_server;

typedef struct store_server_ops { /* none blocks for long */
    /* Sizes are multiples of 4 KB. MR_NOMEM. MR_BUSY: memory is being prepared; ask again. */
    mr_status (*extent_alloc)(void *context, uint64_t size, extent *out);
    void (*extent_free)(void *context, extent extent);
    /* Files; all three NULL: no spilling. A file is identified by the ticket of its save. Unless save or load fails at
     * once, store_server_moved answers with the ticket, after this function has returned. The bytes are borrowed until
     * then; bytes that are being saved may change meanwhile, and the result is then dropped. `load` fails with
     * MR_CORRUPT if the bytes are not the saved ones. The calls take effect in their order. */
    mr_status (*save)(void *context, uint64_t ticket, const void *data, uint64_t size);
    mr_status (*load)(void *context, uint64_t ticket, uint64_t file, void *data, uint64_t size);
    void (*forget)(void *context, uint64_t file); /* also while its save is pending; has no answer */
    /* Makes a process call store_client_poll soon; may be NULL. */
    void (*nudge)(void *context, uint64_t process);
    /* Allocates exactly this extent, which was allocated before and freed. Any error: it is in use. May be NULL. */
    mr_status (*extent_take)(void *context, extent wanted);
} store_server_ops;

typedef struct store_server_options { /* zeroed: defaults */
    uint64_t spill_bytes_max;         /* 0: no limit but the disk */
    int64_t patience_us;              /* time of MR_BUSY before MR_NOMEM; 0: STORE_SERVER_PATIENCE_US */
} store_server_options;

enum {
    STORE_SERVER_PATIENCE_US = 5 * 1000 * 1000,
    STORE_SERVER_COLLECT_US = 100 * 1000, /* shortest time between two collections by store_server_tick */
    STORE_SERVER_IDLE_US = 1000 * 1000,   /* interval of store_server_tick while no hold was removed */
    STORE_SERVER_RETRY_US = 2 * 1000,
    STORE_SERVER_DISK_RETRY_US = 1000 * 1000, /* pause after a failed save */
};

/* Uses of lent memory. */
typedef enum lease_kind {
    LEASE_PAGE,    /* one per process, its first request: PROCESS_PAGE_BYTES, zeroed */
    LEASE_HOLDS,   /* HOLDS_CHUNK_BYTES, zeroed */
    LEASE_SLOTS,   /* OBJECT_HEADER_PAGE_BYTES of slots, all FREE */
    LEASE_STRETCH, /* for many objects */
    LEASE_OWN,     /* for one object: freed with the object */
    LEASE_KINDS,
} lease_kind;

/* Arena, ops and context are borrowed until store_server_close. */
store_server *store_server_open(const arena *arena, const store_server_ops *ops, void *context,
                                const store_server_options *options);
/* Frees all memory; waiting restores end with MR_CLOSED. Saves and loads must have stopped before: extent_free is the
 * only op that is called. */
void store_server_close(store_server *server);

/* Lends memory to a process. MR_BUSY: ask again after *retry_us. MR_NOMEM, MR_TOO_LARGE. MR_EXISTS: the process has a
 * process page. MR_INVALID: it has none, or size or kind is wrong. */
MR_MUST mr_status store_server_lease(store_server *server, uint64_t process, lease_kind kind, uint64_t size,
                                     int64_t now_us, extent *out, int64_t *retry_us);
/* Takes back an empty stretch. MR_INVALID: the process does not have it. */
MR_MUST mr_status store_server_give_back(store_server *server, uint64_t process, extent extent);

/* Restores a spilled object: `done` is called once, perhaps before this returns. MR_OK: the object is in memory, and
 * stays there while the requesting process has it pinned. MR_BUSY: no room now; ask again. MR_NOMEM as in
 * store_server_lease. MR_OBJECT_LOST, MR_NOT_FOUND. */
typedef void store_server_done_fn(void *argument, mr_status status);
void store_server_restore(store_server *server, uint64_t process, const object_ref *ref, int64_t now_us,
                          store_server_done_fn *done, void *argument);

/* Adds one of the store server's own holds, for objects that the node keeps longer than any process lives. The caller
 * must make sure that some process holds the object during the call. MR_OBJECT_LOST: the object is gone. */
MR_MUST mr_status store_server_keep(store_server *server, const object_ref *ref);
void store_server_let_go(store_server *server, const object_ref *ref); /* removes one such hold */

/* The process has no more access to the arena: it died or left. Its holds end and its unsealed objects are freed; its
 * objects that other processes hold stay. An unknown process is ignored. */
void store_server_leave(store_server *server, uint64_t process);

/* Reports the end of a save or load. */
void store_server_moved(store_server *server, uint64_t ticket, mr_status status, int64_t now_us);

/* Collects objects if holds were removed. Returns the time of the next call; CLOCK_NEVER_US: after the next request. */
int64_t store_server_tick(store_server *server, int64_t now_us);
void store_server_collect(store_server *server); /* collects at once */

typedef struct store_server_stats {
    uint32_t processes, stretches, pages; /* current numbers */
    uint32_t objects;                     /* slots that are not FREE */
    uint64_t bytes;                       /* in stretches */
    uint64_t spilled_bytes;
    uint32_t moving; /* pending saves and loads */
    /* Counts of events; voided: saves whose result was dropped. */
    uint64_t collections, collected, spilled, restored, lost, voided;
} store_server_stats;
store_server_stats store_server_stats_now(const store_server *server);
