/* connection.h — internals of a worker's connection, for the files that implement miniray/ps.h; see connection.c. */
#pragma once
#include "base/list.h"
#include "kv/worker/customer.h"
#include "miniray/ps.h"

/* MR_BUSY: not yet, and the error says what it waits for. */
typedef mr_status connection_asked_fn(customer *customer, void *argument);

void connection_lock(mr_ps *ps);
void connection_unlock(mr_ps *ps); /* those whose requests are over are told before it returns */
customer *connection_customer(mr_ps *ps);

/* The head of a handle that lives as long as its user likes: ps is NULL once the connection is closed. */
typedef struct connection_handle {
    list link;
    mr_ps *ps;
} connection_handle;
list *connection_handles(mr_ps *ps); /* all of them; with the lock */

/* Locked, before and after. MR_TIMEOUT: the error is that of the last time it asked. MR_DENIED: a callback waits. */
MR_MUST mr_status connection_await(mr_ps *ps, connection_asked_fn *asked, void *argument, int64_t timeout_us);
MR_MUST mr_status connection_wait(mr_ps *ps, uint64_t ticket, int64_t timeout_us); /* locked; for a request */
/* Locked; for a request that was MR_STALE. True: it may be made now (customer_admit); else *status says why not. */
bool connection_admit(mr_ps *ps, bool pushes, int64_t timeout_us, mr_status *status);
mr_status connection_is_answered(customer *customer, void *ticket); /* for connection_await: a message was answered */
void connection_leave(mr_ps *ps); /* locked: what was asked for leaves soon, also if nobody waits for it */

MR_MUST mr_status connection_check_wait(void); /* MR_DENIED: this is a callback */

mr_ps_info connection_info(const chart *chart, uint32_t rank); /* what the chart says, for this rank */
