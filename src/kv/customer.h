/* customer.h — a worker as a process: one rank, its steps, and its requests with a ticket each.
 *
 *            has a number, a chart that gives it the rank, and the clocks of all slots
 *   opened ──────────────────────────────────────────────────────────────────────────► ready
 *
 *            customer_begin          BSP: all of the step before is acknowledged, the ledger says who is in
 *   ready ──────────────────► opening ─────────────────────────────────────────────────► open: pushes and pulls
 *     ▲ ▲                                                                                   │ customer_end
 *     │ └───────────────────────────────────────────────────────────────────────────────────┘
 *     └── another generation has begun: what is under way ends with MR_STALE, and the next step is another one
 *
 * A step that is played again, by this process or another, does the same things: the same pushes in the same order for
 * each slot. Then everything is applied once, whoever died on the way.
 *
 * Order       Requests for one slot are done in their order. A pull is asked when the pushes before it are
 *             acknowledged, so it shows them; in BSP it shows the version of the step whatever was pushed since.
 * Bounds      CUSTOMER_REQUESTS_MAX requests that were not asked after (customer_done).
 * Ownership   what is pushed, and where a pull goes, is borrowed until the ticket is done.
 * Threads     that of its van's loop. */
#pragma once
#include "kv/postoffice.h"
#include "ps/chart.h"

enum { CUSTOMER_REQUESTS_MAX = 1 << 20, CUSTOMER_FLOATS_MAX = 4 << 20 };

typedef struct customer customer;

/* `options.role` is set here. The statuses are those of postoffice_open. */
MR_MUST mr_status customer_open(const postoffice_options *options, customer **out);
void customer_close(customer *customer); /* what is under way ends with it */

van *customer_van(const customer *customer);
uint32_t customer_rank(const customer *customer);      /* POSTOFFICE_ANY: not known yet */
const chart *customer_chart(const customer *customer); /* number 0: none yet */

/* MR_OK: the rank is this process's, and its next step is known. MR_BUSY: not yet, and the error says what it waits
 * for. MR_EXISTS: another process plays the rank. MR_NOT_FOUND: there is no such rank. */
mr_status customer_ready(const customer *customer);

void customer_begin(customer *customer); /* no-op if a step is open or opening */
/* MR_OK: a step is open. Else as customer_ready, and MR_DENIED: the rank is not in this round. */
mr_status customer_opened(const customer *customer);
uint64_t customer_step(const customer *customer); /* counted from 0; of the open one, else the one that comes next */

/* All need an open step, else MR_STALE. MR_INVALID: no such slot, or too many floats. MR_BUSY: too many requests.
 * MR_EXISTS: of BSP, a second push of a slot in a step. */
MR_MUST mr_status customer_push(customer *customer, uint32_t slot, span floats, uint64_t *ticket);
/* At most `room` floats of the slot are written, then zeros. */
MR_MUST mr_status customer_pull(customer *customer, uint32_t slot, float *to, size_t room, uint64_t *ticket);
MR_MUST mr_status customer_end(customer *customer);

/* MR_BUSY: it is under way. Else it is over, and this is how: MR_OK, MR_STALE, MR_CLOSED; the ticket is then forgotten.
 * MR_NOT_FOUND: there is no such ticket. */
mr_status customer_done(customer *customer, uint64_t ticket);
size_t customer_open_count(const customer *customer); /* requests that are not over, ends of steps included */
