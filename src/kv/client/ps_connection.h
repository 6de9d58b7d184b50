/* ps_connection.h — internals of a worker's connection, for the files that implement miniray/ps.h; see
 * ps_connection.c. */
#pragma once
#include "base/list.h"
#include "kv/client/kv_worker.h"
#include "miniray/ps.h"

/* MR_BUSY: not yet, and the error says what it waits for. */
typedef mr_status ps_connection_asked_fn(kv_worker *worker, void *argument);

void ps_connection_lock(mr_ps *ps);
void ps_connection_unlock(mr_ps *ps); /* callbacks of finished requests are called before it returns */
kv_worker *ps_connection_worker(mr_ps *ps);

/* The head of a handle that its user frees: ps is NULL once the connection is closed. */
typedef struct ps_connection_handle {
    list link;
    mr_ps *ps;
} ps_connection_handle;
list *ps_connection_handles(mr_ps *ps); /* all handles; with the lock */

/* Locked, before and after. MR_TIMEOUT: the error is that of the last try. MR_DENIED: a callback waits. */
MR_MUST mr_status ps_connection_await(mr_ps *ps, ps_connection_asked_fn *asked, void *argument, int64_t timeout_us);
MR_MUST mr_status ps_connection_wait(mr_ps *ps, uint64_t ticket, int64_t timeout_us); /* locked; for a request */
/* Locked; for a request that was MR_STALE. True: it may be made now (kv_worker_admit); else *status is the error. */
bool ps_connection_admit(mr_ps *ps, bool pushes, int64_t timeout_us, mr_status *status);
void ps_connection_leave(mr_ps *ps); /* locked: requests are sent soon, also without a waiting thread */

MR_MUST mr_status ps_connection_check_wait(void); /* MR_DENIED: this is a callback */

mr_ps_info ps_connection_info(const cluster_map *map, uint32_t rank); /* from the cluster map, for this rank */
