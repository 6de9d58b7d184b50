/* kv_worker.h — worker process: one rank, its steps, and its requests to slots.
 *
 * The states of a kv_worker, from registration to an open step and back, are those of its session (kv_session.h). In an
 * open step the program pushes and pulls (kv_request.h).
 *
 * A replay of a step, by this process or another, makes the same pushes in the same order for each slot. Then every
 * push is applied once, even if processes died meanwhile.
 *
 * Without steps   Outside rounds a program need not begin steps. Its pulls need none, and its first push
 *             opens a step that no process of the rank has begun (kv_worker_admit): so no push is mistaken for a
 *             repetition of a push of another process of the rank.
 * Loss        When all replicas of a slot are lost, all tables continue from a checkpoint, or are empty. For a program
 *             with steps, kv_worker_step is then the step to continue with. For a program without steps, its first
 *             request after the loss returns MR_STALE, once. If no worker was connected at the time of the loss, the
 *             first request of the next worker that connects returns MR_STALE.
 *
 * Rounds      A worker with a BSP table joins the rounds (kv_worker_join): its steps are rounds. In a mixed deployment
 *             (cluster_map.h) a worker without one continues without waiting; the kv_worker adds empty contributions to
 *             the rounds of its ended steps, one after the other: the rounds wait for all ranks.
 * Reader      A kv_worker may be a reader (cluster_map.h): it holds no rank, begins no steps, and only pulls. Each of
 *             its pulls from slots with rounds shows one version (reader_pull.h).
 * Order       Requests to one slot are sent in their order (slot_queue.h); in BSP a pull shows the version of the step
 *             regardless of later pushes.
 * Threads     the one that runs the van's event loop. */
#pragma once
#include "cluster/metadata_store.h"
#include "kv/client/push_encoder.h"
#include "kv/control/dataset_spec.h"
#include "kv/control/kv_process.h"
#include "ps/cluster_map.h"

typedef struct kv_worker kv_worker;

/* `options.role`: CONTROL_READER, or CONTROL_WORKER (also 0). Statuses as of kv_process_open. */
MR_MUST mr_status kv_worker_open(const kv_process_options *options, kv_worker **out);
void kv_worker_close(kv_worker *worker); /* ends pending requests without calling their callbacks */

van *kv_worker_van(const kv_worker *worker);
control_client *kv_worker_control(const kv_worker *worker);
const char *kv_worker_scheduler(const kv_worker *worker);       /* address */
barrier_clients_where kv_worker_where(const kv_worker *worker); /* position of the program, for a barrier */
void kv_worker_stir(kv_worker *worker); /* a message was queued: it is sent before the loop waits */
metadata_store kv_worker_metadata(const kv_worker *worker);
catalog_client *kv_worker_catalog(const kv_worker *worker);
bool kv_worker_reads(const kv_worker *worker); /* whether it is a reader */
/* KV_PROCESS_ANY: not assigned yet. Of a reader: its place in the cluster map, behind the ranks. */
uint32_t kv_worker_rank(const kv_worker *worker);
const cluster_map *kv_worker_map(const kv_worker *worker); /* number 0: none yet */

/* MR_PEER_DIED: the deployment was stopped, and is gone (deployment_end.h). */
MR_MUST mr_status kv_worker_check_end(const kv_worker *worker);

/* MR_NOT_FOUND: the error names the ranks that exist. */
mr_status kv_worker_say_no_rank(const kv_worker *worker, uint32_t rank);

/* MR_OK: this process holds the rank, and its next step is known, or it is a reader with a place. MR_BUSY: not yet; the
 * error names the cause. MR_EXISTS: another process holds the rank. MR_NOT_FOUND: the rank does not exist. MR_DENIED:
 * the deployment has no readers. */
mr_status kv_worker_ready(const kv_worker *worker);

void kv_worker_join(kv_worker *worker);  /* joins the rounds with the next step that is begun */
void kv_worker_begin(kv_worker *worker); /* wants a step; no-op if a step is open or opening */
/* MR_OK: a step is open. Else as kv_worker_ready. A rank that is not in the round joins it. */
mr_status kv_worker_opened(const kv_worker *worker);
/* Admits a request of a program that has begun no step. MR_OK: it may be made. MR_BUSY: not yet; the error names the
 * cause. MR_STALE: acknowledged pushes are lost (returned once per loss), or the program uses steps and none is
 * open. */
mr_status kv_worker_admit(kv_worker *worker, bool pushes);
uint64_t kv_worker_step(const kv_worker *worker);   /* counted from 0: the open step, else the next one */
MR_MUST mr_status kv_worker_end(kv_worker *worker); /* MR_STALE: no step is open. MR_NOMEM: it is still open */

/* Leaves the rank out of the round of the open step: at its end its pushes to tables with rounds are dropped. MR_STALE:
 * no step is open. */
MR_MUST mr_status kv_worker_skip(kv_worker *worker);
/* Notes the learning rate of a push of the round; the last one of a table counts. */
void kv_worker_note_rate(kv_worker *worker, uint32_t table, float rate);
MR_MUST mr_status kv_worker_pass(kv_worker *worker); /* ends a step that was begun to leave: without this rank */
bool kv_worker_skips(const kv_worker *worker);       /* whether the rank is left out of the open step */
uint64_t kv_worker_skipped(const kv_worker *worker); /* steps, and pushes outside rounds, that were left out */

/* This rank leaves the rounds, if there are any. An open step without pushes is closed, and begins again. MR_DENIED: it
 * has pushes, or is a round. */
MR_MUST mr_status kv_worker_leave(kv_worker *worker);
/* MR_OK: from *round on the rounds do not wait for the rank; earlier rounds still do. MR_BUSY: not decided yet.
 * MR_DENIED: this is the last rank. MR_STALE: another generation has begun. */
mr_status kv_worker_left(const kv_worker *worker, uint64_t *round);
/* Leaves the slots without rounds, behind the last step: no pull waits for the rank there. MR_BUSY: not acknowledged
 * yet. The next begun step returns, at the step of the slowest rank. */
mr_status kv_worker_quit(kv_worker *worker);

/* MR_BUSY: under way. Else the outcome: MR_OK, MR_STALE, MR_CLOSED or a status of scatter_take, and the ticket is
 * freed. MR_NOT_FOUND: no such ticket, or its table was dropped. */
mr_status kv_worker_done(kv_worker *worker, uint64_t ticket);
/* Abandons the request: its caller may free its memory before the request is over. Values that are sent without a copy
 * are copied if still needed, and pulled values are discarded. MR_NOMEM: no memory for the copy. */
mr_status kv_worker_abandon(kv_worker *worker, uint64_t ticket);
/* Ends the callbacks of all requests under way with this status; their memory is not used any more. */
void kv_worker_fail_callbacks(kv_worker *worker, mr_status status);
/* The open request of this number; NULL: none. */
const struct ticket *kv_worker_ticket(const kv_worker *worker, uint64_t ticket);
/* Whether the request waits for the end of the open step, which sends it. */
bool kv_worker_is_unsent(const kv_worker *worker, uint64_t ticket);
/* Error text for a request under way, named by `what`: what the request waits for. MR_TIMEOUT, or MR_NOMEM: a server
 * has no memory for it. */
mr_status kv_worker_late(const kv_worker *worker, uint64_t ticket, const char *what);
mr_status kv_worker_settled(const kv_worker *worker); /* MR_BUSY: a push or an end of a step is not acknowledged */

/* Sets the folder of the rank's state (feedback_file.h); NULL: the state is not saved. MR_BUSY: a step has begun. */
MR_MUST mr_status kv_worker_keep(kv_worker *worker, const char *folder);

const push_encoder *kv_worker_encoder(const kv_worker *worker); /* for the counters of the codecs */

/* ---- Data. */

/* Sets the dataset of this worker (moved), unless it has one. */
void kv_worker_cut(kv_worker *worker, dataset_spec *spec);
/* Batch of the open step. MR_STALE: no step is open. MR_DENIED: there is no dataset. Other statuses as of
 * data_client_piece. */
mr_status kv_worker_piece(kv_worker *worker, uint64_t batch, batch_claims_piece *out);
void kv_worker_hand_back(kv_worker *worker);              /* hands back batches claimed for steps that have not begun */
mr_status kv_worker_handed_back(const kv_worker *worker); /* MR_BUSY: not yet */

bool kv_worker_eager(const kv_worker *worker); /* something is queued: it is sent before the loop waits */
/* Drops a table. Slots are informed with the end of the step; a program without steps ends an empty one. */
void kv_worker_drop(kv_worker *worker, uint32_t table);
bool kv_worker_tells(const kv_worker *worker); /* a callback of a finished request is pending */
/* Takes the next callback of a finished request; false: none. */
bool kv_worker_tell(kv_worker *worker, void (**done)(void *context, mr_status status), void **context,
                    mr_status *status);

/* Asserts the invariants of the session (kv_session.h) and these; called after every event in sanitizer builds and in
 * the simulator.
 *   8. There is a rank agent once the process is registered.
 *   9. There is a rank during a term, and only then.
 *  10. Nothing is under way before every slot has answered.
 *  11. There is one queue for each slot of the cluster map, with rounds where the slot has them.
 *  12. A queue that waits to be sent keeps the loop from waiting. */
void kv_worker_check(const kv_worker *worker);
