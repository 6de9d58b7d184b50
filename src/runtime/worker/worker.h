/* worker.h — queue of the tasks and methods that this process is to run.
 *
 *   request ──► queued ── worker_next ──► running: worker_run, worker_finish ──► answered
 *                 ├── cancelled
 *                 └── given back: the asker, told MR_BUSY, sends it to another worker
 *
 * They are taken in the order in which they came, one at a time or, in an actor with several threads, several. A task
 * that has waited for its turn for longer than a tick, or stands behind a body that waits for others, is given back:
 * who sent it here took those before it for shorter than they are, and the body may be waiting for this very task. So
 * is what waits where a body is ended by force, which ends the process: it was not begun, and its asker knows. An
 * answer that finds no room is kept until there is. A worker that is an actor runs only that actor's methods. Pure over
 * the client's calls: who runs the bodies is worker_loop.h's, or the simulator's. */
#pragma once
#include "net/rpc/rpc.h"
#include "runtime/worker/call.h"

enum { WORKER_THREADS_MAX = 1000 };

typedef struct worker worker;
struct core_worker;

/* Gives the client of a worker process its worker, which the client owns; before client_start, for work may come as
 * soon as the node knows the process. */
void worker_attach(struct core_worker *worker);

enum { WORKER_TICK_US = 2000 };
void worker_tick(worker *worker, int64_t now_us);    /* every now and then, also while a body runs */
void worker_waits(worker *worker, bool all_of_them); /* the bodies that run wait for others, or go on */

bool worker_is_over(const worker *worker);
bool worker_is_running(const worker *worker);    /* something was taken and is not finished */
mr_call *worker_next(worker *worker);            /* NULL: nothing to do; borrowed until worker_finish */
void worker_show(worker *worker, mr_call *call); /* its arguments, where they lie in the store; may wait */
mr_status worker_run(mr_call *call);             /* the body; the lock is not needed */
void worker_ran(worker *worker, mr_call *call, mr_status status); /* what it returned; likewise */
/* What came of a body that has deferred its answer; the lock is not needed. */
void worker_conclude(worker *worker, mr_call *call, mr_status status);
void worker_left(worker *worker, const mr_call *call); /* what is submitted from now on is not the body's */
void worker_finish(worker *worker, mr_call *call);     /* answers with what came of it */
/* After the last body: destroys the state of an actor whose last handle is gone; no-op otherwise. Without the lock. */
void worker_bid_drain(worker *worker);
/* It leaves, but what its tasks have submitted is not done, or others have references to what it owns. */
bool worker_is_needed(const worker *worker);
uint32_t worker_threads(const worker *worker); /* that shall run methods */
uint32_t worker_running(const worker *worker); /* calls that were taken and not finished */
