/* cellar.h — checkpoint store (ps/depot.h) on its own thread, so that a slow disk blocks nothing else.
 *
 *   the loop's thread                                        the cellar's
 *   cellar_take ── batches that are for the depot ──► in ──► depot_take, depot_tick ──► disk
 *   host.send ◄──────────── letters ◄──────────────── out ◄── what the depot says
 *   host.on_trouble ◄────── what could not be done ◄──┘
 *
 * Shards lie there as safetensors files (slot_file.h), by the names that tables have.
 *
 * The depot is one more process, for all that the protocol knows: what it says and hears may be lost, and is said
 * again. So the queues are bounded and what is beyond that is dropped: `bytes_max` of letters that wait for the disk,
 * and as many that wait to be sent; one letter goes in whatever its size.
 *
 * Ownership   a bale that was taken is held until the loop hears that it is done with; only the loop's thread counts.
 * Threads     everything here is called by the loop's thread; the two meet at one lock. Where there is no loop there is
 *             no thread either: the same is done by cellar_tick. */
#pragma once
#include "base/bale.h"
#include "net/env.h"
#include "net/loop.h"
#include "ps/depot.h"

enum { CELLAR_BYTES_MAX = 256 << 20 };
#define CELLAR_ENDING ".safetensors" /* of the names of shards */

typedef struct cellar cellar;

typedef struct cellar_host {                                        /* called by the loop */
    void (*send)(void *context, const char *address, bale *letter); /* borrowed for the call */
    void (*on_trouble)(void *context, const char *text);            /* why no checkpoint is made; "": one was */
} cellar_host;

typedef struct cellar_options {
    const char *address, *director; /* copied */
    disk disk;                      /* borrowed for its life; used by its thread */
    bool exact;                     /* as of a depot */
    clock_source clock;
    int64_t written_us; /* when the checkpoint that is there was written, since 1970 */
    size_t bytes_max;   /* of each queue; 0: CELLAR_BYTES_MAX */
} cellar_options;

/* The host and its context are borrowed for its life. `loop` NULL: somebody ticks it. MR_IO: there is no thread, no
 * descriptor. */
MR_MUST mr_status cellar_open(loop *loop, const cellar_options *options, const cellar_host *host, void *context,
                              cellar **out);
void cellar_close(cellar *cellar); /* waits for what is just being written; NULL: no-op */

/* A batch of parts (ps/part.h): one that is not for a depot is left alone. The bale is where it lies, or NULL. */
void cellar_take(cellar *cellar, span batch, bale *bale);

int64_t cellar_next_us(cellar *cellar); /* CLOCK_NEVER_US: it has a thread */
void cellar_tick(cellar *cellar);

/* Which tables there are, as a catalogue (catalogue.h) has it; copied. */
void cellar_name_tables(cellar *cellar, span catalogue);

typedef struct cellar_look {
    uint64_t newest;    /* complete checkpoint; 0: none that can be read, or nothing was read yet */
    uint64_t oldest;    /* checkpoint that is kept; 0: likewise */
    int64_t written_us; /* when the newest was written, since 1970; 0: likewise */
    bool stuck;         /* depot_is_stuck */
} cellar_look;
cellar_look cellar_look_at(cellar *cellar);
