/* kv_worker.h — worker process: one rank, its steps, and its requests to slots.
 *
 * Its states, from registering to an open step and back, are those of a session (kv_session.h). In an open step the
 * program pushes and pulls (kv_request.h).
 *
 * A step that is played again, by this process or another, does the same things: the same pushes in the same order for
 * each slot. Then everything is applied once, whoever died on the way.
 *
 * Without steps   A program need not begin steps, where there are no rounds. Its pulls need none, and its first push
 *            opens a step that no process of the rank has begun (kv_worker_admit): nothing that it pushes is taken for
 *             a repetition of what another process of the rank has pushed.
 * Loss        When all copies of a slot are lost, all tables continue from a checkpoint, or are empty. For a program
 *            with steps, kv_worker_step is then the step to continue with. For a program without steps, its first
 *             request after the loss returns MR_STALE, once. If no worker was connected at the time of the loss, the
 *             first request of the next worker that connects returns MR_STALE.
 *
 * Rounds     Whoever has a table of BSP joins them (kv_worker_join): its steps are rounds. In a mixed deployment
 *             (cluster_map.h) whoever has none goes on without waiting; to the rounds of the steps that it has ended it
 *             adds nothing, behind its back, one after the other: they wait for all ranks.
 * Order       What is asked of one slot goes in its order (slot_queue.h); in BSP a pull shows the version of the step
 *             whatever was pushed since.
 * Threads     that of its van's loop. */
#pragma once
#include "cluster/metadata_store.h"
#include "kv/client/push_encoder.h"
#include "kv/control/dataset_spec.h"
#include "kv/control/kv_process.h"
#include "ps/cluster_map.h"

typedef struct kv_worker kv_worker;

/* `options.role` is set here. The statuses are those of kv_process_open. */
MR_MUST mr_status kv_worker_open(const kv_process_options *options, kv_worker **out);
void kv_worker_close(kv_worker *worker); /* what is under way ends with it, and nobody is told */

van *kv_worker_van(const kv_worker *worker);
control_client *kv_worker_control(const kv_worker *worker);
barrier_clients_where kv_worker_where(const kv_worker *worker); /* its program is, for a barrier */
void kv_worker_stir(kv_worker *worker);                         /* something was said: it goes before the loop waits */
metadata_store kv_worker_metadata(const kv_worker *worker);
uint32_t kv_worker_rank(const kv_worker *worker);          /* KV_PROCESS_ANY: not known yet */
const cluster_map *kv_worker_map(const kv_worker *worker); /* number 0: none yet */

/* MR_OK: the rank is this process's, and its next step is known. MR_BUSY: not yet, and the error says what it waits
 * for. MR_EXISTS: another process plays the rank. MR_NOT_FOUND: there is no such rank. */
mr_status kv_worker_ready(const kv_worker *worker);

void kv_worker_join(kv_worker *worker);  /* the rounds, with the next step that is begun */
void kv_worker_begin(kv_worker *worker); /* no-op if a step is open or opening */
/* MR_OK: a step is open. Else as kv_worker_ready; a rank that is not in the round joins. */
mr_status kv_worker_opened(const kv_worker *worker);
/* For a request of a program that has begun no step: MR_OK, it may be made. MR_BUSY: not yet, and the error says what
 * it waits for. MR_STALE: acknowledged pushes are lost (returned once per loss), or the program uses steps and none is
 * open. */
mr_status kv_worker_admit(kv_worker *worker, bool pushes);
uint64_t kv_worker_step(const kv_worker *worker);   /* counted from 0; of the open one, else the one that comes next */
MR_MUST mr_status kv_worker_end(kv_worker *worker); /* MR_STALE: none is open */

/* Of BSP: this rank leaves the rounds. MR_DENIED: a step is open; MR_INVALID: there are no rounds. */
MR_MUST mr_status kv_worker_leave(kv_worker *worker);
/* MR_OK: from *round on nobody waits for it; what is before that has to be played. MR_BUSY: not decided yet. MR_DENIED:
 * it is the last one. MR_STALE: another generation has begun. */
mr_status kv_worker_left(const kv_worker *worker, uint64_t *round);

/* MR_BUSY: it is under way. Else it is over, and this is how: MR_OK, MR_STALE, MR_CLOSED, what scatter_take says; the
 * ticket is then forgotten. MR_NOT_FOUND: there is no such ticket, or its table was dropped. */
mr_status kv_worker_done(kv_worker *worker, uint64_t ticket);
/* Nobody asks after it any more, and its caller may have its memory back before the request is over: what was lent is
 * copied where it is still needed, and what is pulled goes nowhere. MR_NOMEM: there is none for the copy. */
mr_status kv_worker_abandon(kv_worker *worker, uint64_t ticket);
/* Of one that is under way, for people: what it waits for. MR_TIMEOUT, or MR_NOMEM: a server has none for it. */
mr_status kv_worker_late(const kv_worker *worker, uint64_t ticket);
mr_status
kv_worker_settled(const kv_worker *worker); /* MR_BUSY: not everything is acknowledged, ends of steps included */

/* Where the state of the rank is kept (feedback_file.h); NULL: nowhere. MR_BUSY: a step was begun. */
MR_MUST mr_status kv_worker_keep(kv_worker *worker, const char *folder);

const push_encoder *kv_worker_encoder(const kv_worker *worker); /* what its codecs have done */

/* ---- Data. */

/* it wants data, of this corpus; moved, if it is the first */
void kv_worker_cut(kv_worker *worker, dataset_spec *spec);
/* The piece of the open step. MR_STALE: none is open, or as data_client_piece, as is the rest. MR_DENIED: it was not
 * cut. */
mr_status kv_worker_piece(kv_worker *worker, uint64_t batch, batch_claims_piece *out);
void kv_worker_hand_back(kv_worker *worker);              /* what it has claimed for steps that it has not begun */
mr_status kv_worker_handed_back(const kv_worker *worker); /* MR_BUSY: not yet */

bool kv_worker_eager(const kv_worker *worker); /* something can go: it goes before the loop waits */
/* Slots are told with the end of the step: of one that begins and ends here, for a program without steps. */
void kv_worker_drop(kv_worker *worker, uint32_t table);
bool kv_worker_tells(const kv_worker *worker); /* there is somebody to be told that a request is over */
/* The next whose request is over and who is to be told; false: nobody. */
bool kv_worker_tell(kv_worker *worker, void (**done)(void *context, mr_status status), void **context,
                    mr_status *status);

/* Asserts the invariants of the session (kv_session.h) and these; called after every event in debug builds and by the
 * simulator.
 *   8. There is a player once the process is registered.
 *   9. There is a rank during a term, and only then.
 *  10. Nothing is under way before every slot has answered.
 *  11. There is one queue for each slot of the cluster map, with rounds where the slot has them.
 *  12. A queue that waits to be sent keeps the loop from waiting. */
void kv_worker_check(const kv_worker *worker);
