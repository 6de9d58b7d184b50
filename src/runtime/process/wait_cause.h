/* wait_cause.h — errors of waits for an object: they name what makes the object, and the cause for which it is not
 * ready, found like the answer of `miniray why`. */
#pragma once
#include "base/error.h"
#include "runtime/process/context.h"

enum { WAIT_CAUSE_US = 100 * 1000, WAIT_CAUSE_TEXT_MAX = ERROR_TEXT_MAX };

/* Locked, but not during the search for the cause, which takes at most `search_us`; 0: no search. Writes the text of
 * mr_why about a pending object. */
void wait_cause_write(mr_context *mr, object *object, int64_t search_us, char out[WAIT_CAUSE_TEXT_MAX]);

/* The same for the error of a wait that timed out after `timeout_us`: MR_TIMEOUT. The search takes at most
 * WAIT_CAUSE_US, and is left out after shorter waits: those are polls. */
mr_status wait_cause_timed_out(mr_context *mr, object *object, int64_t timeout_us);
