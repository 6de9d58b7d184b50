/* serve.c — see serve.h. */
#include "runtime/serve.h"

#include "base/assert.h"
#include "base/log.h"
#include "runtime/notice.h"
#include "runtime/worker.h"

/* The call has ended, and was not cancelled. */
static void tell_spared(mr_context *mr, notice *spared) {
    context_unlock(mr);
    spared->tell(spared);
    context_lock(mr);
}

/* Runs one call without the lock, and answers with it, unless the answer was deferred and is still to come. */
static void run(mr_context *mr, mr_call *call) {
    client_stir(&mr->client);
    if (mr->blocked > 0) context_blocked(mr, 0); /* others wait, but this one runs */
    worker_show(mr->client.worker, call);
    context_unlock(mr);
    worker_run(mr->client.worker, call);
    context_lock(mr);
    mr->presence++;
    call->left = true;
    worker_left(mr->client.worker, call);
    notice *spared = NULL;
    if (!call->deferred || call->finished || call->failed != NULL) {
        if (call->on_cancel != NULL) spared = notice_spared(call);
        worker_finish(mr->client.worker, call);
    }
    if (mr->blocked > 0) context_blocked(mr, 0);
    if (spared != NULL) tell_spared(mr, spared);
}

void mr_defer(mr_call *call) { call->deferred = true; }

void mr_finish(mr_call *call, mr_status status) {
    mr_context *mr = call->mr;
    MR_ASSERT(call->deferred && !call->finished);
    worker_conclude(mr->client.worker, call, status);
    context_lock(mr);
    call->finished = true;
    notice *spared = call->left ? notice_spared(call) : NULL;
    if (call->left) worker_finish(mr->client.worker, call);
    client_stir(&mr->client);
    context_unlock(mr);
    if (spared != NULL) spared->tell(spared);
}

/* Waits until there is something to run. False: the runtime is over. */
static bool wait_for_work(mr_context *mr) {
    serve_idle idle;
    baton_waiter_init(&idle.waiter);
    list_init(&idle.place);
    list_push_back(&mr->idle, &idle.place);
    mr_status status = context_wait(mr, &idle.waiter, -1);
    list_remove(&idle.place);
    return status == MR_OK;
}

static void *serve_more(void *argument) {
    serve(argument);
    return NULL;
}

/* As many threads as the actor shall have. What cannot be had is done without: calls then take longer. */
static void start_threads(mr_context *mr, uint32_t *there) {
    for (; *there < worker_threads(mr->client.worker); ++*there) {
        pthread_t thread;
        int failed = pthread_create(&thread, NULL, serve_more, mr);
        if (failed != 0) {
            log_warn("an actor has %u threads instead of %u", *there, worker_threads(mr->client.worker));
            *there = UINT32_MAX;
            return;
        }
        pthread_detach(thread); /* it ends with the process */
    }
}

void serve(mr_context *mr) {
    worker *worker = mr->client.worker;
    bool going_on = true;
    context_lock(mr);
    bool first = !mr->serving;
    uint32_t threads = 1;
    mr->serving = true;
    while (going_on && !worker_is_over(worker)) {
        mr_call *call = worker_next(worker);
        if (call != NULL)
            run(mr, call);
        else
            going_on = wait_for_work(mr);
        if (first && threads < worker_threads(worker)) start_threads(mr, &threads);
    }
    context_unlock(mr);
}
