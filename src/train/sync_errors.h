/* sync_errors.h — last sync of this process per model server, and whether its failure is still to be raised.
 *
 * A program may release the future of a sync. If that sync fails, the runtime prints the failure once, and the next
 * sync or pull with the same server fails with it, so that a program that reads no futures notices it, too. A failure
 * whose future the program has read, or still holds, is not raised again.
 *
 *  sync_errors_enter ──► recorded ── released, and pending or printed: sync_errors_owes ──► raised by the next call
 *                        └── read, still held, or no failure ──► not owed
 *
 * The failure of a sync that was caused by an owed error is not owed again. The functions take the context's lock. */
#pragma once
#include <stdbool.h>

#include "miniray/runtime.h"

/* True: *out is the owed future, which the next call must have as an argument; the caller releases it. The error is not
 * owed any more. */
bool sync_errors_owes(mr_context *mr, mr_actor server, mr_ref *out);
/* Records `sync` as the last one of the server. `owed` is the future that was its argument; NULL: none. */
void sync_errors_enter(mr_context *mr, mr_actor server, mr_ref sync, const mr_ref *owed);
/* Keeps failures of these futures, now or later, from being printed: another future reports them. */
void sync_errors_hush(mr_context *mr, const mr_ref *refs, size_t count);
