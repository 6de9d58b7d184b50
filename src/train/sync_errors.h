/* sync_errors.h — last sync of this process per model server, and whether its failure is still to be raised.
 *
 * A program may drop the future of a sync. If that sync fails, the runtime prints it once; the next sync or pull of the
 * same server then fails with it, so that no error is missed by a program that never looks. One that somebody has
 * looked at, or has still in hand, is his.
 *
 *  sync_errors_enter ──► in the book ── dropped, and pending or printed: sync_errors_owes ──► raised by the next one
 *                       └── looked at, in hand, or all went well ──► nothing is owed
 *
 * What failed only because something was owed is not owed again. With the context's lock taken inside. */
#pragma once
#include <stdbool.h>

#include "miniray/runtime.h"

/* True: *out is a future that the next call has to have as an argument; the caller's to release. It is owed no more. */
bool sync_errors_owes(mr_context *mr, mr_actor server, mr_ref *out);
/* `sync` is the last one now; `owed` was an argument of it, NULL: nothing was owed. */
void sync_errors_enter(mr_context *mr, mr_actor server, mr_ref sync, const mr_ref *owed);
/* What fails of these, now or later, is told by another future: it is not printed. */
void sync_errors_hush(mr_context *mr, const mr_ref *refs, size_t count);
