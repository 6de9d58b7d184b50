/* quiesce_client.h — worker's side of quiesce (quiesce.h): whether its ranks may begin another step.
 *
 *              PAUSE n            GONE of n; or no PAUSE n for QUIESCE_CLIENT_LEASE_US;
 *   trains ───────────────► rests ─────────────────────────────────────────────────────► trains; n is over
 *      ▲                        │ ▲  or the pause has lasted QUIESCE_CLIENT_MOST_US
 *      └── another generation ──┘ └ PAUSE n, repeated: the time is extended
 *
 * A rank rests at the end of its current step, or later if other ranks need more steps of it to end theirs (`floor`).
 * No failure leaves a worker at rest: the pause ends unless the controller keeps repeating it, and its total time is
 * bounded. A pause that is over does not begin again when a late message arrives. If a worker rests for too short a
 * time, a checkpoint fails, and nothing else: the cuts are compared (checkpoint_store.h).
 *
 * Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define QUIESCE_CLIENT_LEASE_US INT64_C(500000)
#define QUIESCE_CLIENT_MOST_US  INT64_C(20000000)
/* as the last ended step of a rank: it has left (consistency.h), and no rank waits for a step of it */
#define QUIESCE_CLIENT_LEFT UINT64_MAX

typedef struct quiesce_client { /* ready when zero-initialized */
    uint64_t number;            /* number of the pause; 0: none, ranks train */
    uint64_t floor;             /* steps to end before resting */
    uint64_t over;              /* pauses up to this number are over */
    int64_t since_us, until_us;
} quiesce_client;

/* Takes a PAUSE. False: that pause is over, or a later one is known. */
bool quiesce_client_take(quiesce_client *quiesce, uint64_t number, uint64_t floor, int64_t now_us);
void quiesce_client_end(quiesce_client *quiesce, uint64_t number); /* ends that pause and all before it */
void quiesce_client_tick(quiesce_client *quiesce, int64_t now_us);
/* resets the state for another generation, whose pauses count from the beginning */
void quiesce_client_forget(quiesce_client *quiesce);

/* True: a rank that has ended this step must not begin another now. */
static inline bool quiesce_client_holds(const quiesce_client *quiesce, uint64_t ended) {
    return quiesce->number != 0 && ended >= quiesce->floor;
}
