/* notice.h — callbacks of the program: a future is ready (mr_on_ready), a body was cancelled (mr_on_cancel).
 *
 *   notice_post ──► due ── the progress thread takes it, lets go of the lock and calls ──► gone
 *                    └── notices_deliver at the end of the context
 *
 * Callbacks run without the lock, so they may use the runtime. While one runs, only waiting threads drive the port. */
#pragma once
#include "base/list.h"
#include "miniray/runtime.h"
#include "runtime/call.h"

typedef struct notice { /* embedded in what is to be told */
    list place;
    void (*tell)(struct notice *notice); /* without the lock; frees it */
} notice;

void notice_post(mr_context *mr, notice *notice); /* locked */
bool notices_deliver(mr_context *mr);             /* locked; lets go of the lock around each; false: none was due */
/* Locked, after the end of everything: whoever still waits for a future is told. */
void notices_end(mr_context *mr);

/* Of mr_on_cancel. The call was cancelled (locked); or has ended without: its notice, to be told without the lock. */
void notice_cancelled(void *context, mr_call *call); /* as client_host.cancelled, of a mr_context */
cancel_wish notice_spared(mr_call *call);            /* locked; fn NULL: nobody asked to be told */
