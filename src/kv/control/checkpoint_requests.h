/* checkpoint_requests.h — the scheduler's list of processes that wait for a checkpoint they requested
 * (mr_ps_checkpoint).
 *
 *   asks ── a checkpoint that was begun after that is complete ──► is told its number, as often as it asks
 *
 * Slots may have been cut already for the checkpoint under way: that checkpoint does not answer a request that arrives
 * now, but the next one does. Nor does the first checkpoint that this scheduler completes: the scheduler before it may
 * have had slots cut for it. When that one is complete, no slot has been cut for a later one (checkpointer.h).
 *
 * A requester has a token, and repeats its request; one that was silent for CHECKPOINT_REQUESTS_SILENT_US is forgotten.
 *
 * Bounds  CHECKPOINT_REQUESTS_MAX at a time; one more is not taken until another is forgotten.
 * Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHECKPOINT_REQUESTS_MAX = 256 };
#define CHECKPOINT_REQUESTS_SILENT_US INT64_C(10000000)

typedef struct checkpoint_request {
    uint64_t token;
    unsigned owed;   /* checkpoints that have to be completed first; 0: all are, */
    uint64_t number; /* and this was the last */
    int64_t asked_us;
} checkpoint_request;

typedef struct checkpoint_requests { /* zero-initialized: no requests */
    bool seen;                       /* a checkpoint was completed */
    size_t count;
    checkpoint_request list[CHECKPOINT_REQUESTS_MAX];
} checkpoint_requests;

/* `making`: a checkpoint is under way. Returns the number of the requested checkpoint; 0: not yet. */
uint64_t checkpoint_requests_ask(checkpoint_requests *requests, uint64_t token, bool making, int64_t now_us);
void checkpoint_requests_whole(checkpoint_requests *requests, uint64_t number); /* the one under way is complete */
