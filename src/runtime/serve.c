/* serve.c — see serve.h. */
#include "runtime/serve.h"

#include "base/assert.h"
#include "runtime/worker.h"

/* Runs one call without the lock, and answers with it, unless the answer was deferred and is still to come. */
static void run(mr_context *mr, mr_call *call) {
    client_stir(&mr->client);
    worker_show(mr->client.worker, call);
    context_unlock(mr);
    worker_run(mr->client.worker, call);
    context_lock(mr);
    mr->presence++;
    call->left = true;
    if (!call->deferred || call->finished || call->failed != NULL) worker_finish(mr->client.worker, call);
}

void mr_defer(mr_call *call) { call->deferred = true; }

void mr_finish(mr_call *call, mr_status status) {
    mr_context *mr = call->mr;
    MR_ASSERT(call->deferred && !call->finished);
    worker_conclude(mr->client.worker, call, status);
    context_lock(mr);
    call->finished = true;
    if (call->left) worker_finish(mr->client.worker, call);
    client_stir(&mr->client);
    context_unlock(mr);
}

/* Waits until there is something to run. False: the runtime is over. */
static bool wait_for_work(mr_context *mr) {
    baton_waiter idle;
    baton_waiter_init(&idle);
    mr->idle = &idle;
    mr_status status = context_wait(mr, &idle, -1);
    mr->idle = NULL;
    return status == MR_OK;
}

void serve(mr_context *mr) {
    worker *worker = mr->client.worker;
    bool going_on = true;
    context_lock(mr);
    while (going_on && !worker_is_over(worker)) {
        mr_call *call = worker_next(worker);
        if (call != NULL)
            run(mr, call);
        else
            going_on = wait_for_work(mr);
    }
    context_unlock(mr);
}
