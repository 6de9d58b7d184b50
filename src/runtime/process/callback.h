/* callback.h — callbacks of the program: a future is ready (mr_on_ready), a body was cancelled (mr_on_cancel).
 *
 *  callback_post ──► due ── the progress thread takes it, unlocks and calls ──► gone
 *                  └── callbacks_deliver at the end of the context
 *
 * Callbacks run without the lock, so they may use the runtime. While one runs, only waiting threads drive the
 * transport. */
#pragma once
#include "base/list.h"
#include "miniray/runtime.h"
#include "runtime/worker/call.h"

typedef struct callback { /* embedded in the callback's record */
    list place;
    void (*tell)(struct callback *callback); /* called without the lock; frees the record */
} callback;

void callback_post(mr_context *mr, callback *callback); /* locked */
bool callbacks_deliver(mr_context *mr);                 /* locked; unlocks around each; false: none was due */
/* Locked, after the end of all calls: calls the remaining callbacks of futures. */
void callbacks_end(mr_context *mr);

/* Callbacks of mr_on_cancel: the first function posts that of a cancelled call (locked); the second one returns that of
 * a call that has ended otherwise, to be called without the lock. */
void callback_cancelled(void *context, mr_call *call); /* as core_worker_host.cancelled, of a mr_context */
cancel_wish callback_spared(mr_call *call);            /* locked; fn NULL: no callback */
