/* checkpoint_requests.h — the scheduler's list of processes that wait for a checkpoint they requested
 * (mr_ps_checkpoint).
 *
 *   request ── a checkpoint begun after the request is complete ──► every repetition is answered with its number
 *
 * A checkpoint under way does not answer a new request, since some slots may have been cut for it already; the next
 * checkpoint does. For the same reason the first checkpoint that a scheduler completes answers no request: the previous
 * scheduler may have begun it. When it is complete, no slot has been cut for a later one (checkpointer.h).
 *
 * A requester has a token, and repeats its request. A request that was not repeated for CHECKPOINT_REQUESTS_SILENT_US
 * is deleted when a new one arrives.
 *
 * Bounds  CHECKPOINT_REQUESTS_MAX requests; further ones are refused until one is deleted.
 * Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHECKPOINT_REQUESTS_MAX = 256 };
#define CHECKPOINT_REQUESTS_SILENT_US INT64_C(10000000)

typedef struct checkpoint_request {
    uint64_t token;
    unsigned owed;   /* checkpoints that must complete before the request is answered; 0: `number` is set */
    uint64_t number; /* the checkpoint that answers the request */
    int64_t asked_us;
} checkpoint_request;

typedef struct checkpoint_requests { /* zero-initialized: no requests */
    bool seen;                       /* a checkpoint was completed */
    size_t count;
    checkpoint_request list[CHECKPOINT_REQUESTS_MAX];
} checkpoint_requests;

/* Adds or repeats a request. `making`: a checkpoint is under way. Returns the number of the requested checkpoint; 0:
 * not complete yet. */
uint64_t checkpoint_requests_ask(checkpoint_requests *requests, uint64_t token, bool making, int64_t now_us);
/* the checkpoint under way is complete */
void checkpoint_requests_whole(checkpoint_requests *requests, uint64_t number);
