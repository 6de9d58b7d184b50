/* checkpoint_thread.h — checkpoint store (ps/checkpoint_store.h) on its own thread, so that a slow disk blocks nothing
 * else.
 *
 *   the loop's thread                                        the checkpoint thread
 *   checkpoint_thread_take ── packets for the store ──► in ──► checkpoint_store_take_bytes and _tick ──► disk
 *   host.send ◄──────────── control messages ◄───────── out ◄── messages of the checkpoint store
 *   host.on_trouble ◄────── errors ◄──────────────────────┘
 *
 * Slot snapshots lie there as safetensors files (snapshot_file.h), by the names of the tables.
 *
 * For the protocol the checkpoint store is one more process: its messages may be lost, and are repeated. So the queues
 * are bounded and messages beyond the bound are dropped: `bytes_max` of control messages that wait for the disk, and as
 * many that wait to be sent; one control message is accepted whatever its size.
 *
 * Ownership  a shared buffer that was taken is held until the loop hears that it is done with; only the loop's thread
 *            counts.
 * Threads    everything here is called by the loop's thread; the two threads share one lock. Without a loop there is no
 *            thread either: checkpoint_thread_tick does the same work. */
#pragma once
#include "base/shared_bytes.h"
#include "net/env.h"
#include "net/event_loop.h"
#include "ps/checkpoint_store.h"

enum { CHECKPOINT_THREAD_BYTES_MAX = 256 << 20 };
#define CHECKPOINT_THREAD_ENDING ".safetensors" /* of the names of slot snapshots */

typedef struct checkpoint_thread checkpoint_thread;

typedef struct checkpoint_thread_host {                                      /* called by the loop */
    void (*send)(void *context, const char *address, shared_bytes *message); /* borrowed for the call */
    void (*on_trouble)(void *context, const char *text); /* why no checkpoint is made; "": one was made */
} checkpoint_thread_host;

typedef struct checkpoint_thread_options {
    const char *address, *controller; /* address: copied; controller: borrowed for its life */
    disk disk;                        /* borrowed for its life; used by its thread */
    bool exact;                       /* as of a checkpoint store */
    clock_source clock;
    int64_t written_us; /* when the present checkpoint was written, since 1970 */
    size_t bytes_max;   /* of each queue; 0: CHECKPOINT_THREAD_BYTES_MAX */
} checkpoint_thread_options;

/* The host and its context are borrowed for its life. `loop` NULL: the caller ticks it. MR_IO: there is no thread, no
 * descriptor. */
MR_MUST mr_status checkpoint_thread_open(event_loop *loop, const checkpoint_thread_options *options,
                                         const checkpoint_thread_host *host, void *context, checkpoint_thread **out);
void checkpoint_thread_close(checkpoint_thread *thread); /* waits for the current write; NULL: no-op */

/* A packet of slot messages (ps/slot_message.h): one that is not for a checkpoint store is ignored. The shared buffer
 * holds it, or is NULL. */
void checkpoint_thread_take(checkpoint_thread *thread, span batch, shared_bytes *bytes);

int64_t checkpoint_thread_next_us(checkpoint_thread *thread); /* CLOCK_NEVER_US: it has a thread */
void checkpoint_thread_tick(checkpoint_thread *thread);

/* The tables, as a catalog (table_catalog.h) has them; copied. */
void checkpoint_thread_name_tables(checkpoint_thread *thread, span catalog);

typedef struct checkpoint_thread_look {
    uint64_t newest;    /* complete checkpoint; 0: none that can be read, or nothing was read yet */
    uint64_t oldest;    /* oldest kept checkpoint; 0: likewise */
    int64_t written_us; /* when the newest was written, since 1970; 0: likewise */
    bool stuck;         /* checkpoint_store_is_stuck */
} checkpoint_thread_look;
checkpoint_thread_look checkpoint_thread_look_at(checkpoint_thread *thread);
