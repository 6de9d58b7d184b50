/* ps_connection.h — internals of a worker's connection, for the files that implement miniray/ps.h; see
 * ps_connection.c. */
#pragma once
#include "base/list.h"
#include "kv/client/kv_worker.h"
#include "miniray/ps.h"

/* MR_BUSY: the condition does not hold yet; the error names the cause. */
typedef mr_status ps_connection_asked_fn(kv_worker *worker, void *argument);

void ps_connection_lock(mr_ps *ps);
void ps_connection_unlock(mr_ps *ps); /* calls the callbacks of finished requests before it returns */
kv_worker *ps_connection_worker(mr_ps *ps);

/* Head of a handle of a table, which its user frees; ps is NULL once the connection is closed. */
typedef struct ps_connection_handle {
    list link;
    mr_ps *ps;
    uint32_t table;
    const char *name; /* of the table, borrowed from the handle */
} ps_connection_handle;
list *ps_connection_handles(mr_ps *ps); /* all handles; the caller has the lock */

/* whom a condition may wait for, besides servers */
typedef enum ps_connection_needs {
    PS_CONNECTION_SCHEDULER,
    PS_CONNECTION_RANKS,  /* ranks at an earlier step */
    PS_CONNECTION_BARRIER /* every rank */
} ps_connection_needs;
/* Waits for a condition; the lock is held before and after. `what` names the operation in errors: "barrier 'b'".
 * MR_TIMEOUT: the error is that of the last check, with the cause, for which other ranks are considered after long
 * waits if the condition needs them. MR_PEER_DIED: the deployment has ended. MR_DENIED: called from a callback. */
MR_MUST mr_status ps_connection_await(mr_ps *ps, const char *what, ps_connection_needs needs,
                                      ps_connection_asked_fn *asked, void *argument, int64_t timeout_us);
/* Waits for a request; the lock is held. MR_PEER_DIED: likewise, and the request is abandoned (kv_worker_abandon). */
MR_MUST mr_status ps_connection_wait(mr_ps *ps, uint64_t ticket, int64_t timeout_us);
/* For a request that returned MR_STALE; the lock is held. True: the request may be repeated (kv_worker_admit). False:
 * *status is the error. */
bool ps_connection_admit(mr_ps *ps, bool pushes, int64_t timeout_us, mr_status *status);
void ps_connection_leave(mr_ps *ps); /* the lock is held; requests are sent soon, even if no thread waits */

MR_MUST mr_status ps_connection_check_wait(void); /* MR_DENIED: called from a callback */
/* `what`: "begin a step". MR_DENIED: the connection is a reader. */
MR_MUST mr_status ps_connection_check_rank(const mr_ps *ps, const char *what);

mr_ps_info ps_connection_info(const cluster_map *map, uint32_t rank);
