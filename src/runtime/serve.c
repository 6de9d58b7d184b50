/* serve.c — see serve.h. */
#include "runtime/serve.h"

#include "runtime/worker.h"

/* Runs one call without the lock, and answers with it. */
static void run(mr_context *mr, mr_call *call) {
    client_stir(&mr->client);
    worker_show(mr->client.worker, call);
    context_unlock(mr);
    worker_run(mr->client.worker, call);
    context_lock(mr);
    mr->presence++;
    worker_finish(mr->client.worker, call);
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
