/* outcome.h — answer of a coordinator, stored for a test. */
#pragma once
#include "cluster/coordinator.h"

typedef struct outcome { /* zero-initialized: nothing yet */
    int count;           /* of answers */
    mr_status status;
    uint64_t version;
    char value[50]; /* as text */
} outcome;

void outcome_done(void *argument, const coordinator_answer *answer); /* a coordinator_done_fn; argument: an outcome */
