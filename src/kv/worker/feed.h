/* feed.h — data client of a worker: a member of the consumer group (cluster/roster.h) that claims batches for the steps
 * of its rank in advance.
 *
 * It attends from when it plays its rank, and asks for some steps ahead: a step normally finds its piece here. How many
 * grows when a step had to wait, and shrinks towards the end of an epoch, so that nobody is left with the rest of it.
 *
 *            feed_piece: some steps are claimed                       feed_leave: not begun, and claimed
 *   attends ────────────────────────────────────► step → piece ────────────────────────────────────────► handed back
 *      ▲                                            │                                                        │
 *      └────────────────────────────────────────────┴────────────────────── feed_piece ◄────── rests ◄───────┘
 *
 * Which steps are over, and may be forgotten, it learns from the scheduler (ps/horizon.h); what it has missed of those
 * (misses.h) goes to others. Taken out of the roster though it lives, it comes back with another incarnation.
 *
 * Threads     that of its host's loop. */
#pragma once
#include "base/rng.h"
#include "cluster/attendee.h"
#include "cluster/coordinator.h"
#include "kv/corpus.h"
#include "ps/chart.h"

#define FEED_MARK_US INT64_C(300000)                      /* so often it asks what is over */
enum { FEED_STEPS_LEAST = 4, FEED_STEPS_MOST = 1 << 14 }; /* that it claims at once */

typedef struct feed_options {
    uint32_t rank;
    const char *address, *scheduler; /* borrowed for its life */
    coordinator coordinator;
    rng *rng;
    corpus corpus; /* moved */
    void (*send)(void *context, const char *address, const letter *letter);
    uint64_t (*acknowledged)(void *context); /* steps of the rank that all slots have */
    void *context;
} feed_options;

typedef struct feed feed;

feed *feed_create(const feed_options *options);
void feed_destroy(feed *feed); /* the coordinator owes it no answer any more; NULL: no-op */

/* ---- What happens to its rank. NULL: no-op. */

void feed_begin(feed *feed, uint64_t incarnation, int64_t now_us); /* this process plays it */
void feed_end(feed *feed);                                         /* no more */
/* It goes on with this step, in this generation; steps before `begun` an earlier process of the rank may have begun. */
void feed_resume(feed *feed, const chart *chart, uint64_t step, uint64_t begun);
void feed_miss(feed *feed, uint64_t from, uint64_t to); /* steps from … to - 1 were over without it */

bool feed_take(feed *feed, const letter *letter); /* false: not for it */
int64_t feed_next_us(const feed *feed);
void feed_tick(feed *feed, int64_t now_us);

/* ---- For its program. */

/* The piece of the step, with `batch` items if it is not claimed yet. MR_BUSY: not yet, and the error says why.
 * MR_STALE: it is forgotten, since nobody was to play the step again. MR_CORRUPT. */
mr_status feed_piece(feed *feed, uint64_t step, uint64_t batch, int64_t now_us, claims_piece *out);

/* Hands back what steps from this one on have: none of them was begun. It then rests. */
void feed_leave(feed *feed, uint64_t step, int64_t now_us);
mr_status feed_left(const feed *feed); /* MR_BUSY: that is not decided yet */
