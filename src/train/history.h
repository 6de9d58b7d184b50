/* history.h — results of past epochs, kept as finished futures.
 *
 * Ownership   each future is the history's own, released by history_fini. */
#pragma once
#include "miniray/runtime.h"

typedef struct history { /* zeroed it is empty */
    mr_ref *results;     /* owned */
    size_t count, capacity;
} history;

/* Moved on success. MR_NOMEM. */
MR_MUST mr_status history_add(history *history, mr_ref result);
MR_MUST mr_status history_get(const history *history, mr_context *mr, size_t index, mr_value *out); /* MR_NOT_FOUND */
void history_fini(history *history, mr_context *mr);
