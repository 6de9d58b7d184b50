/* worker.h — queue of the tasks and methods that this process is to run.
 *
 *   request ──► queued ── worker_next ──► running: worker_run, worker_finish ──► answered
 *                 ├── cancelled
 *                 └── given back: the caller gets MR_BUSY and sends it to another worker
 *
 * Calls are taken in order of arrival, one at a time or, in an actor with several threads, several. A task that has
 * waited for longer than a tick, or is queued behind a body that waits for others, is given back: its caller
 * underestimated the tasks before it, and the body may be waiting for this very task. Queued tasks are also given back
 * when a body is ended by force, which ends the process: they have not begun, and their callers know. An answer that
 * finds no room is kept until there is room. A worker that is an actor runs only that actor's methods. Pure over the
 * core worker's RPCs: worker_loop.h or the simulator runs the bodies. */
#pragma once
#include "net/rpc/rpc.h"
#include "runtime/worker/call.h"

enum { WORKER_THREADS_MAX = 1000 };

typedef struct worker worker;
struct core_worker;

/* Gives the core worker of a worker process its worker, which the core worker owns; before core_worker_start, since
 * requests may arrive as soon as the node knows the process. */
void worker_attach(struct core_worker *worker);

enum { WORKER_TICK_US = 2000 };
void worker_tick(worker *worker, int64_t now_us);    /* called periodically, also while a body runs */
bool worker_needs_ticks(const worker *worker);       /* tasks are queued behind a body */
void worker_waits(worker *worker, bool all_of_them); /* whether all running bodies wait for other tasks */

bool worker_is_over(const worker *worker);
bool worker_is_running(const worker *worker);    /* a call was taken and is not finished */
mr_call *worker_next(worker *worker);            /* takes the next call; NULL: none; borrowed until worker_finish */
void worker_show(worker *worker, mr_call *call); /* shows arguments that are in the store; may wait */
mr_status worker_run(mr_call *call);             /* runs the body; the lock is not needed */
/* Sets the outcome of a call by the status of its body, or of mr_finish: packs its results, or makes the failure. Only
 * one thread does so; the lock is not needed. */
void worker_conclude(worker *worker, mr_call *call, mr_status status);
void worker_left(worker *worker, const mr_call *call); /* later submissions are not children of the body */
void worker_finish(worker *worker, mr_call *call);     /* answers with the outcome */
/* After the last body: destroys the state of an actor whose last handle was released; else a no-op. Without the
 * lock. */
void worker_bid_drain(worker *worker);
/* Whether a worker that leaves is still needed: tasks submitted by its tasks are not done, or other processes borrow
 * its objects. */
bool worker_is_needed(const worker *worker);
/* The state of the actor in this process that its next process gets; borrowed until it is set; NULL: none. The locked
 * context sets it; a reference is taken. */
value_pack *worker_state(const worker *worker);
void worker_set_state(worker *worker, value_pack *state);

typedef struct worker_state_area { /* where the node reads the state after the death of this process; for state_api.c */
    void *memory;                  /* lent by the node; NULL: not yet */
    size_t bytes;
    bool is_needless; /* no process follows that needs the state */
} worker_state_area;
worker_state_area *worker_state_area_of(worker *worker);
uint32_t worker_threads(const worker *worker); /* threads that run methods */
uint32_t worker_running(const worker *worker); /* calls that were taken and not finished */
