/* sync_errors.h — last sync of this process per model server, and whether its failure is still to be raised.
 *
 * A program may drop the future of a sync. If that sync fails, the runtime prints it once; the next sync or pull of the
 * same server then fails with it, so that no error is missed by a program that never looks. A failure whose future the
 * program has read, or still holds, is not raised again.
 *
 *  sync_errors_enter ──► recorded ── dropped, and pending or printed: sync_errors_owes ──► raised by the next one
 *                        └── read, still held, or no failure ──► nothing is owed
 *
 * A sync that failed only because of an owed error is not owed again. The functions take the context's lock. */
#pragma once
#include <stdbool.h>

#include "miniray/runtime.h"

/* True: *out is a future that the next call needs as an argument; the caller releases it. The error is owed no more. */
bool sync_errors_owes(mr_context *mr, mr_actor server, mr_ref *out);
/* `sync` is the last one now; `owed` was an argument of it, NULL: nothing was owed. */
void sync_errors_enter(mr_context *mr, mr_actor server, mr_ref sync, const mr_ref *owed);
/* Failures of these futures, now or later, are reported by another future: they are not printed. */
void sync_errors_hush(mr_context *mr, const mr_ref *refs, size_t count);
