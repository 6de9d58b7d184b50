/* customer.h — worker process: one rank, its steps, and its requests to slots.
 *
 * Its states, from registering to an open step and back, are those of a session (kv_session.h). In an open step the
 * program pushes and pulls (errand.h).
 *
 * A step that is played again, by this process or another, does the same things: the same pushes in the same order for
 * each slot. Then everything is applied once, whoever died on the way.
 *
 * Without steps   A program need not begin steps, where there are no rounds. Its pulls need none, and its first push
 *             opens a step that no process of the rank has begun (customer_admit): nothing that it pushes is taken for
 *             a repetition of what another process of the rank has pushed.
 * Loss        When all copies of a slot are lost, all tables continue from a checkpoint, or are empty. For a program
 *             with steps, customer_step is then the step to continue with. For a program without steps, its first
 *             request after the loss returns MR_STALE, once. If no worker was connected at the time of the loss, the
 *             first request of the next worker that connects returns MR_STALE.
 *
 * Rounds      Whoever has a table of BSP joins them (customer_join): its steps are rounds. In a mixed deployment
 *             (chart.h) whoever has none goes on without waiting; to the rounds of the steps that it has ended it adds
 *             nothing, behind its back, one after the other: they wait for all ranks.
 * Order       What is asked of one slot goes in its order (chute.h); in BSP a pull shows the version of the step
 *             whatever was pushed since.
 * Threads     that of its van's loop. */
#pragma once
#include "cluster/coordinator.h"
#include "kv/corpus.h"
#include "kv/postoffice.h"
#include "kv/worker/coder.h"
#include "ps/chart.h"

typedef struct customer customer;

/* `options.role` is set here. The statuses are those of postoffice_open. */
MR_MUST mr_status customer_open(const postoffice_options *options, customer **out);
void customer_close(customer *customer); /* what is under way ends with it, and nobody is told */

van *customer_van(const customer *customer);
office *customer_office(const customer *customer);
arrivals_where customer_where(const customer *customer); /* its program is, for a barrier */
void customer_stir(customer *customer);                  /* something was said: it goes before the loop waits */
coordinator customer_coordinator(const customer *customer);
uint32_t customer_rank(const customer *customer);      /* POSTOFFICE_ANY: not known yet */
const chart *customer_chart(const customer *customer); /* number 0: none yet */

/* MR_OK: the rank is this process's, and its next step is known. MR_BUSY: not yet, and the error says what it waits
 * for. MR_EXISTS: another process plays the rank. MR_NOT_FOUND: there is no such rank. */
mr_status customer_ready(const customer *customer);

void customer_join(customer *customer);  /* the rounds, with the next step that is begun */
void customer_begin(customer *customer); /* no-op if a step is open or opening */
/* MR_OK: a step is open. Else as customer_ready; a rank that is not in the round joins. */
mr_status customer_opened(const customer *customer);
/* For a request of a program that has begun no step: MR_OK, it may be made. MR_BUSY: not yet, and the error says what
 * it waits for. MR_STALE: acknowledged pushes are lost (returned once per loss), or the program uses steps and none is
 * open. */
mr_status customer_admit(customer *customer, bool pushes);
uint64_t customer_step(const customer *customer);   /* counted from 0; of the open one, else the one that comes next */
MR_MUST mr_status customer_end(customer *customer); /* MR_STALE: none is open */

/* Of BSP: this rank leaves the rounds. MR_DENIED: a step is open; MR_INVALID: there are no rounds. */
MR_MUST mr_status customer_leave(customer *customer);
/* MR_OK: from *round on nobody waits for it; what is before that has to be played. MR_BUSY: not decided yet. MR_DENIED:
 * it is the last one. MR_STALE: another generation has begun. */
mr_status customer_left(const customer *customer, uint64_t *round);

/* MR_BUSY: it is under way. Else it is over, and this is how: MR_OK, MR_STALE, MR_CLOSED, what scatter_take says; the
 * ticket is then forgotten. MR_NOT_FOUND: there is no such ticket, or its table was dropped. */
mr_status customer_done(customer *customer, uint64_t ticket);
/* Nobody asks after it any more, and its caller may have its memory back before the request is over: what was lent is
 * copied where it is still needed, and what is pulled goes nowhere. MR_NOMEM: there is none for the copy. */
mr_status customer_abandon(customer *customer, uint64_t ticket);
/* Of one that is under way, for people: what it waits for. MR_TIMEOUT, or MR_NOMEM: a server has none for it. */
mr_status customer_late(const customer *customer, uint64_t ticket);
mr_status
customer_settled(const customer *customer); /* MR_BUSY: not everything is acknowledged, ends of steps included */

/* Where the state of the rank is kept (memoir.h); NULL: nowhere. MR_BUSY: a step was begun. */
MR_MUST mr_status customer_keep(customer *customer, const char *folder);

const coder *customer_coder(const customer *customer); /* what its codecs have done */

/* ---- Data. */

void customer_cut(customer *customer, corpus *corpus); /* it wants data, of this corpus; moved, if it is the first */
/* The piece of the open step. MR_STALE: none is open, or as feed_piece, as is the rest. MR_DENIED: it was not cut. */
mr_status customer_piece(customer *customer, uint64_t batch, claims_piece *out);
void customer_hand_back(customer *customer);              /* what it has claimed for steps that it has not begun */
mr_status customer_handed_back(const customer *customer); /* MR_BUSY: not yet */

bool customer_eager(const customer *customer); /* something can go: it goes before the loop waits */
/* Slots are told with the end of the step: of one that begins and ends here, for a program without steps. */
void customer_drop(customer *customer, uint32_t table);
bool customer_tells(const customer *customer); /* there is somebody to be told that a request is over */
/* The next whose request is over and who is to be told; false: nobody. */
bool customer_tell(customer *customer, void (**done)(void *context, mr_status status), void **context,
                   mr_status *status);

/* Asserts the invariants of the session (kv_session.h) and these; called after every event in debug builds and by the
 * simulator.
 *   8. There is a player once the process is registered.
 *   9. There is a rank during a term, and only then.
 *  10. Nothing is under way before every slot has answered.
 *  11. There is one queue for each slot of the cluster map, with rounds where the slot has them.
 *  12. A queue that waits to be sent keeps the loop from waiting. */
void customer_check(const customer *customer);
