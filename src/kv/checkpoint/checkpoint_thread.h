/* checkpoint_thread.h — checkpoint store (ps/checkpoint_store.h) on its own thread, so that a slow disk does not block
 * the process.
 *
 *   the loop's thread                                        the checkpoint thread
 *   checkpoint_thread_take ── packets for the store ──► in ──► checkpoint_store_take_bytes and _tick ──► disk
 *   host.send ◄──────────── control messages ◄───────── out ◄── messages of the checkpoint store
 *   host.on_trouble ◄────── errors ◄──────────────────────┘
 *
 * Slot snapshots are stored as safetensors files (snapshot_file.h), with the names of the tables.
 *
 * For the protocol the checkpoint store is one more process: its messages may be lost, and are repeated. So the queues
 * are bounded, and messages beyond the bound are dropped: `bytes_max` of messages that wait for the disk, and as many
 * that wait to be sent; an empty queue accepts a message of any size.
 *
 * Ownership  a received shared buffer is held until its job is done; only the loop's thread changes reference counts.
 * Threads    the loop's thread calls these functions; the two threads share one lock. Without a loop there is no
 *            thread either: checkpoint_thread_tick does the same work. */
#pragma once
#include "base/shared_bytes.h"
#include "net/env.h"
#include "net/event_loop.h"
#include "ps/checkpoint_store.h"

enum { CHECKPOINT_THREAD_BYTES_MAX = 256 << 20 };
#define CHECKPOINT_THREAD_ENDING ".safetensors" /* suffix of the names of slot snapshots */

typedef struct checkpoint_thread checkpoint_thread;

typedef struct checkpoint_thread_host {                                      /* called in the loop's thread */
    void (*send)(void *context, const char *address, shared_bytes *message); /* `message` is borrowed for the call */
    void (*on_trouble)(void *context, const char *text); /* `text`: why no checkpoint is made; "": one was made */
} checkpoint_thread_host;

typedef struct checkpoint_thread_options {
    const char *address, *controller; /* address: copied; controller: borrowed until checkpoint_thread_close */
    disk disk;                        /* borrowed until checkpoint_thread_close; used by the thread */
    uint32_t slot_count;              /* as of checkpoint_store, like `exact` */
    bool exact;
    clock_source clock;
    int64_t written_us; /* time of the current checkpoint, since 1970 */
    size_t bytes_max;   /* limit of each queue; 0: CHECKPOINT_THREAD_BYTES_MAX */
} checkpoint_thread_options;

/* Host and context are borrowed until checkpoint_thread_close. `loop` NULL: no thread, and the caller calls
 * checkpoint_thread_tick. MR_IO: no thread or descriptor is available. */
MR_MUST mr_status checkpoint_thread_open(event_loop *loop, const checkpoint_thread_options *options,
                                         const checkpoint_thread_host *host, void *context, checkpoint_thread **out);
void checkpoint_thread_close(checkpoint_thread *thread); /* waits for the current write; NULL: no-op */

/* Takes a packet of slot messages (ps/slot_message.h); one that is not for a checkpoint store is ignored. `bytes`: the
 * shared buffer that contains the packet, or NULL. */
void checkpoint_thread_take(checkpoint_thread *thread, span batch, shared_bytes *bytes);

int64_t checkpoint_thread_next_us(checkpoint_thread *thread); /* CLOCK_NEVER_US: there is a thread */
void checkpoint_thread_tick(checkpoint_thread *thread);

/* Adds a table, as bytes (table_catalog.h; copied), without bytes removes it; id 0: removes all tables. As of
 * catalog_log_follow_fn. */
void checkpoint_thread_name_table(void *thread, uint32_t id, span table);

typedef struct checkpoint_thread_look {
    uint64_t newest;         /* newest complete checkpoint; 0: none readable, or not read yet */
    uint64_t oldest;         /* oldest kept checkpoint; 0: likewise */
    uint64_t oldest_version; /* version of its slots with rounds */
    int64_t written_us;      /* time of the newest checkpoint, since 1970; 0: likewise */
    bool stuck;              /* as of checkpoint_store_is_stuck */
} checkpoint_thread_look;
checkpoint_thread_look checkpoint_thread_look_at(checkpoint_thread *thread);
