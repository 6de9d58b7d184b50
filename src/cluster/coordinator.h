/* coordinator.h — what a cluster decides, through an operation table.
 *
 * Named values, each with a version that counts its changes from 1. A change is a compare-and-swap, so each version of
 * each value is decided once; and it is durable before anybody is told. Backends: the keeper of this cluster, reached
 * by letters (remote.h).
 *
 * The slots do not block. `done` is called exactly once for each, later, never from within the slot. */
#pragma once
#include <stdint.h>

#include "base/bytes.h"
#include "miniray/status.h"

typedef struct coordinator_answer { /* borrowed for the duration of done */
    mr_status status;
    uint64_t version; /* of the value below; 0: never written */
    span value;
} coordinator_answer;

typedef void coordinator_done_fn(void *argument, const coordinator_answer *answer);

typedef struct coordinator_ops {
    const char *name;

    /* The newest version. MR_OK, or it could not be asked (MR_TIMEOUT, MR_CLOSED, MR_IO, …). */
    void (*get)(void *self, const char *key, coordinator_done_fn *done, void *argument);

    /* Makes `value` (borrowed for the call) version expected + 1, if `expected` is the newest one.
     *   MR_OK     decided: the answer has the new version and no value
     *   MR_STALE  refused, because another version is there: the answer has the newest
     *   else      not known: it may have been decided, or be decided yet. Ask with get. */
    void (*compare_and_swap)(void *self, const char *key, uint64_t expected, span value, coordinator_done_fn *done,
                             void *argument);
} coordinator_ops;

typedef struct coordinator { /* two words, passed by value */
    const coordinator_ops *ops;
    void *self;
} coordinator;
