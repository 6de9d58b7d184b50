/* worker_loop.c — see worker_loop.h. Tested by tests/worker_start_test.c. */
#include "runtime/process/worker_loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "runtime/process/callback.h"
#include "runtime/worker/worker.h"

/* Calls the cancel callback of a call that has ended without being cancelled. */
static __attribute__((noinline)) void tell_spared(mr_context *mr, cancel_wish spared) {
    context_unlock(mr);
    spared.fn(spared.user, false);
    context_lock(mr);
}

/* The body called fork, and this is the child, which has returned from the body. The parent answers the call; the child
 * ends as a process does that returns from main. */
static _Noreturn void end_child(const mr_call *call, mr_status status) {
    log_warn(
        "'%s' called fork(), and the child (process %d) returned from it: the child ends here, and the parent's result "
        "counts; end a child with _exit()",
        call->name->text, (int)getpid());
    (void)fflush(NULL);
    _exit(status == MR_OK ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* ---- A deferred call has two ends, in any order and on any threads: its body returns (`left`), and its outcome is set
 * (`settled`). The thread of the later end, which finds the other with the lock held, answers and frees the call: the
 * other thread must not use it any more. */

/* Makes this thread the only one that sets the outcome. False: the call was not deferred, or a thread was first. */
static bool claim(mr_context *mr, mr_call *call) {
    context_lock(mr);
    bool first = call->deferred && !call->finished;
    if (first) call->finished = true;
    context_unlock(mr);
    return first;
}

/* Sets the outcome of a deferred call, and ends the call if its body has returned. False: as for claim. */
static bool settle(mr_context *mr, mr_call *call, mr_status status) {
    if (!claim(mr, call)) return false;
    worker_conclude(mr->worker.worker, call, status);
    context_lock(mr);
    call->settled = true;
    cancel_wish spared = call->left ? callback_spared(call) : (cancel_wish){0};
    if (call->left) worker_finish(mr->worker.worker, call);
    core_worker_stir(&mr->worker);
    context_unlock(mr);
    if (spared.fn != NULL) spared.fn(spared.user, false);
    return true;
}

/* The body of a deferred call has returned. If it failed, it has not passed its call on: its failure is the outcome. */
static __attribute__((noinline)) void leave_deferred(mr_context *mr, mr_call *call, mr_status status) {
    if (status == MR_OK || settle(mr, call, status)) return;
    log_error("%s returned %s after mr_finish had ended its call: ignored; a body returns MR_OK after it has passed "
              "its deferred call on",
              mr_call_name(call), mr_status_name(status));
}

/* ---- Lost output. */

/* The stream could not write to its file, or could not since then: reports it, and drops what the stream has in its
 * buffer. Output goes on when there is room. */
static __attribute__((noinline, cold)) void drop_output(mr_context *mr, FILE *stream) {
    clearerr(stream);
    int error = fflush(stream) == 0 ? 0 : errno;
    if (error == 0 && write(fileno(stream), "\n", 1) < 0) error = errno; /* the buffer is empty: asks for the cause */
    if (error == 0) error = EIO;
    __fpurge(stream);
    clearerr(stream);
    mr_output_lost(mr, error);
}

/* A body ignores errors of printf. */
static inline void check_output(mr_context *mr) {
    if (__builtin_expect(ferror_unlocked(stdout), 0)) drop_output(mr, stdout);
    if (__builtin_expect(ferror_unlocked(stderr), 0)) drop_output(mr, stderr);
}

/* ---- Running. */

/* Runs one call without the lock, and answers with it, unless the answer was deferred and is still pending. */
static void run(mr_context *mr, mr_call *call) {
    core_worker_stir(&mr->worker);
    if (mr->blocked > 0) context_blocked(mr, 0); /* other threads wait, but this one runs */
    worker_show(mr->worker.worker, call);
    rpc_foresee(mr->worker.rpc, call->token.link);
    context_unlock(mr);
    mr_status status = worker_run(call);
    if (!context_is_ours(mr)) end_child(call, status);
    check_output(mr);
    if (call->deferred)
        leave_deferred(mr, call, status);
    else
        worker_conclude(mr->worker.worker, call, status);
    context_lock(mr);
    mr->progress.presence++;
    call->left = true;
    worker_left(mr->worker.worker, call);
    cancel_wish spared = {0};
    if (!call->deferred || call->settled) {
        spared = callback_spared(call);
        worker_finish(mr->worker.worker, call);
    }
    if (mr->blocked > 0) context_blocked(mr, 0);
    if (spared.fn != NULL) tell_spared(mr, spared);
}

bool mr_call_cancelled(mr_call *call) {
    mr_context *mr = call->mr;
    context_lock(mr);
    context_look(mr);
    bool cancelled = call->cancelled;
    context_unlock(mr);
    return cancelled;
}

void mr_defer(mr_call *call) { call->deferred = true; }

void mr_finish(mr_call *call, mr_status status) {
    mr_context *mr = call->mr;
    if (!context_is_ours(mr)) end_child(call, status);
    if (!settle(mr, call, status))
        log_error("mr_finish: %s was not deferred (mr_defer), or has ended already; ignored", mr_call_name(call));
}

void mr_output_lost(mr_context *mr, int error) {
    if (!context_is_ours(mr)) return;
    uint32_t fields = (uint32_t)error;
    context_lock(mr);
    if (mr->worker.worker != NULL && !mr->output_lost) {
        mr->output_lost = true;
        core_worker_tell_node(&mr->worker, NODE_OUTPUT_LOST, span_of(&fields, sizeof fields));
    }
    context_unlock(mr);
}

void mr_resume(mr_context *mr, mr_call *call) {
    if (!context_is_ours(mr)) return;
    context_lock(mr);
    mr->worker.run = call == NULL || call->cancelled ? 0 : call->run;
    context_unlock(mr);
}

/* ---- Loops of actors. */

void mr_set_loop(mr_call *call, void (*fn)(void *user), void *user) {
    context_lock(call->mr);
    call->mr->loop = fn;
    call->mr->loop_user = user;
    context_unlock(call->mr);
}

static void worker_loop_in_loop(mr_context *mr) {
    context_unlock(mr);
    mr->loop(mr->loop_user);
    context_lock(mr);
}

/* Runs queued calls, but a bounded number: the actor's event loop has other work. Notifications, such as a
 * cancellation, are delivered before the calls that arrived after them. */
static bool run_some(mr_context *mr) {
    enum { SOME = 64 };
    int count = 0;
    for (; count < SOME; count++) {
        bool told = callbacks_deliver(mr);
        mr_call *call = worker_next(mr->worker.worker);
        if (call == NULL) return told || count > 0;
        run(mr, call);
    }
    return true;
}

static mr_status worker_loop_step(mr_context *mr, void *what, int64_t timeout_us) {
    const worker *worker = mr->worker.worker;
    if (worker_is_over(worker)) return MR_CLOSED;
    context_look(mr);
    if (run_some(mr)) return MR_OK;
    if (!mr->loop_woken && timeout_us != 0 && !worker_is_over(worker)) {
        mr_status status = context_wait_in_answering(mr, &mr->idle, timeout_us);
        if (status == CONTEXT_INTERRUPTED || (status == MR_OK && run_some(mr))) return status;
    }
    bool woken = mr->loop_woken;
    mr->loop_woken = false;
    return worker_is_over(worker) ? MR_CLOSED : woken ? MR_OK : MR_TIMEOUT;
}

mr_status mr_serve(mr_context *mr, int64_t timeout_us) {
    MR_TRY(context_check(mr, mr));
    if (mr->worker.worker == NULL)
        return error_set(MR_INVALID, "mr_serve in a driver (process %d): only workers serve", (int)getpid());
    context_lock(mr);
    mr_status status = context_done(mr, worker_loop_step(mr, NULL, timeout_us));
    return status == CONTEXT_INTERRUPTED ? context_resume(mr, worker_loop_step, NULL, timeout_us) : status;
}

void mr_yield_cpu(mr_context *mr) {
    if (!context_is_ours(mr)) return;
    context_lock(mr);
    if (context_state_of(mr) < CONTEXT_DETACHED) mr->makes_way = shm_transport_is_crowded(mr->transport);
    context_unlock(mr);
}

void mr_serve_wake(mr_context *mr) {
    if (!context_is_ours(mr)) return;
    context_lock(mr);
    mr->loop_woken = true;
    context_wake(mr, &mr->idle, true);
    context_unlock(mr);
}

/* ---- Threads of the worker. */

static void *worker_loop_more(void *argument) {
    worker_loop(argument);
    return NULL;
}

/* Starts the actor's threads. A thread that cannot be started is left out: calls then take longer. */
static void start_threads(mr_context *mr, uint32_t *there) {
    for (; *there < worker_threads(mr->worker.worker); ++*there) {
        pthread_t thread;
        int failed = pthread_create(&thread, NULL, worker_loop_more, mr);
        if (failed != 0) {
            log_warn("the actor has %u threads instead of %u: pthread_create: %s", *there,
                     worker_threads(mr->worker.worker), strerror(failed));
            *there = UINT32_MAX;
            return;
        }
        pthread_detach(thread); /* the thread ends with the process */
    }
}

void worker_loop(mr_context *mr) {
    worker *worker = mr->worker.worker;
    bool going_on = true;
    context_lock(mr);
    bool first = !mr->serving;
    uint32_t threads = 1;
    mr->serving = true;
    while (going_on && !worker_is_over(worker)) {
        mr_call *call = worker_next(worker);
        if (call != NULL)
            run(mr, call);
        else if (first && mr->loop != NULL)
            worker_loop_in_loop(mr);
        else
            going_on = context_wait_in(mr, &mr->idle, -1) == MR_OK;
        if (first && threads < worker_threads(worker)) start_threads(mr, &threads);
    }
    context_unlock(mr);
}

void worker_loop_out(mr_context *mr) {
    context_lock(mr);
    mr->drains = true;
    while (worker_is_needed(mr->worker.worker) && context_wait_in(mr, &mr->idle, -1) == MR_OK) {}
    context_unlock(mr);
}
