/* sim_body.c — simulated bodies of the workers of the runtime scenario. See sim_runtime.h. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "miniray/runtime.h"
#include "runtime/worker/worker.h"
#include "sim/runtime/sim_stream.h"

enum { JOIN_LOOK_US = 100 };

static mr_status (*const join)(mr_context *, const mr_ref *, size_t, mr_ref *) __attribute__((used)) = mr_join;

/* The simulator sets the result before the body is called. */
MR_TASK(sim_work) { return MR_OK; }
MR_CREATE(sim_actor) { return MR_OK; }
MR_METHOD(sim_actor, work) { return MR_OK; }

uint8_t *sim_runtime_large_of(int64_t value) {
    uint8_t *bytes = xcalloc(1, SIM_RUNTIME_LARGE);
    memcpy(bytes, &value, sizeof value);
    memcpy(bytes + SIM_RUNTIME_LARGE - sizeof value, &value, sizeof value);
    return bytes;
}

static mr_status give(mr_call *call, int64_t value, bool large) {
    if (!large) return mr_return(call, mr_int(value));
    uint8_t *bytes = sim_runtime_large_of(value);
    mr_status status = mr_return(call, mr_bytes(bytes, SIM_RUNTIME_LARGE));
    free(bytes);
    return status;
}

static void tell_blocked(sim_runtime *runtime, bool blocked) {
    uint8_t field = blocked;
    worker_waits(runtime->worker.worker, blocked);
    core_worker_tell_node(&runtime->worker, NODE_BLOCKED, span_of(&field, 1));
}

static void read_inputs(sim_runtime *runtime, int64_t *inputs) {
    for (size_t i = 0; i < runtime->work->input_count; i++) {
        mr_value value;
        if (mr_arg_value(runtime->call, 1 + i, &value) != MR_OK || sim_runtime_read_value(&value, &inputs[i]) != MR_OK)
            sim_violation(runtime->world->sim, "an argument cannot be read: %s", mr_last_error());
    }
}

/* The body's result is set; now the body is called, and answered. */
static void end_body(void *context, uint64_t unused) {
    sim_runtime *runtime = context;
    mr_call *call = runtime->call;
    runtime_work *work = runtime->work;
    int64_t inputs[RUNTIME_INPUTS_MAX] = {0};
    if (work != NULL) {
        read_inputs(runtime, inputs);
        work->ends++;
        /* after all its works */
        if (work->fails && runtime->failed != MR_CLOSED) runtime->failed = MR_INVALID;
    }
    if (runtime->failed != MR_OK)
        call->failed = failure_create(runtime->failed, "on purpose", "", NULL);
    else if (work != NULL && give(call, runtime_work_compute(work, runtime->nested, inputs), work->large) != MR_OK)
        sim_violation(runtime->world->sim, "a value cannot be returned: %s", mr_last_error());
    if (call->result != NULL && call->result->attachment != NULL) sim_count(runtime->world->sim, "large by name", 1);
    runtime->call = NULL;
    runtime->work = NULL;
    worker_conclude(runtime->worker.worker, call, worker_run(call));
    worker_finish(runtime->worker.worker, call);
    sim_runtime_work(runtime);
}

void sim_runtime_nested_ended(sim_runtime *runtime, const watch *watch, mr_status status, int64_t value) {
    runtime->nested[watch->index] = value;
    if (status != MR_OK) runtime->failed = status;
    if (--runtime->waits > 0) return;
    tell_blocked(runtime, false);
    sim_node_after(runtime->node, 1, end_body, runtime, 0);
}

/* Starts one of the works that a body needs. MR_OK: the body waits for it. */
static mr_status start_one_nested(sim_runtime *runtime, runtime_work *parent, uint32_t index) {
    runtime_checker *checker = &runtime->world->checker;
    objects *objects = &runtime->worker.objects;
    runtime_work *work = runtime_checker_add(checker, runtime->process, (size_t)(parent - checker->works), index);
    if (work == NULL) {
        parent->fails = true; /* no room for another work: the body ends as if it had failed by itself */
        return MR_NOMEM;
    }
    work->retries = parent->retries;
    mr_arg args[] = {mr_int(runtime_checker_number(checker, work))};
    object *result = object_hold(object_create(objects, false));
    mr_status status = sim_runtime_send(runtime, work, args, result);
    if (status != MR_OK) { /* the node is gone */
        work->settled = true;
        object_drop(objects, result);
    } else if (result->state != OBJECT_PENDING) { /* the body that starts it was cancelled */
        status = sim_runtime_settle_now(runtime, work, result);
        sim_count(runtime->world->sim, "late children", 1);
    } else {
        if (runtime->call->cancelled)
            sim_violation(runtime->world->sim, "work %d runs although the body that submits it was cancelled before",
                          (int)runtime_checker_number(checker, work));
        watch *watch = sim_runtime_watch(runtime, work, result);
        watch->index = index;
        watch->is_nested = true;
        sim_count(runtime->world->sim, "nested", 1);
    }
    object_drop(objects, result);
    return status;
}

/* Starts the works that its own work needs. False: there are none. */
static bool start_nested(sim_runtime *runtime) {
    runtime_work *parent = runtime->work;
    runtime->waits = parent->nested + 1; /* one more than there are, until all are submitted */
    for (uint32_t i = 0; i < parent->nested; i++) {
        mr_status status = start_one_nested(runtime, parent, i);
        if (status == MR_OK) continue;
        runtime->failed = status;
        runtime->waits--;
    }
    return --runtime->waits > 0;
}

static void half_body(void *context, uint64_t unused) {
    sim_runtime *runtime = context;
    /* bodies are short: so must be the intervals of ticks */
    worker_tick(runtime->worker.worker, 8 * sim_node_now_us(runtime->node));
    bool stops = runtime->call->cancelled && (runtime->work == NULL || !runtime->work->stubborn);
    bool has_nested = runtime->work != NULL && runtime->work->nested > 0;
    if (has_nested && runtime->worker.over != NULL) runtime->failed = MR_CLOSED;
    if (stops) runtime->failed = MR_CANCELLED; /* a body that checks for cancellation starts nothing more */
    if (!has_nested || runtime->worker.over != NULL || stops) {
        end_body(runtime, 0);
    } else if (start_nested(runtime)) {
        tell_blocked(runtime, true);
    } else {
        end_body(runtime, 0);
    }
}

static void first_half(void *context, uint64_t unused) { sim_stream_give(context, half_body); }

static void begin_body(sim_runtime *runtime) {
    runtime_checker *checker = &runtime->world->checker;
    int64_t number = 0;
    runtime->failed = MR_OK;
    if (strcmp(runtime->call->name->text, SIM_RUNTIME_JOIN) == 0) { /* the library implements this body */
        sim_node_after(runtime->node, rng_between(sim_runtime_rng(runtime), 1, runtime->world->body_us), half_body,
                       runtime, 0);
        return;
    }
    if (mr_arg_int(runtime->call, 0, &number) != MR_OK)
        sim_violation(runtime->world->sim, "the first argument cannot be read: %s", mr_last_error());
    if (runtime->call->method == WORKER_ACTOR_INIT) {
        runtime_checker_made(checker, (size_t)number, runtime->process);
        if (checker->actors[number].fails) runtime->failed = MR_INVALID;
    } else {
        runtime->work = runtime_checker_at(checker, number);
        runtime_checker_begins(checker, runtime->work, runtime->process);
    }
    sim_node_after(runtime->node, rng_between(sim_runtime_rng(runtime), 1, runtime->world->body_us), first_half,
                   runtime, 0);
}

void sim_runtime_work_later(void *context, uint64_t unused) { sim_runtime_work(context); }

/* The first call requests memory, so that the first large value has some. */
bool sim_runtime_is_ready(sim_runtime *runtime) {
    store_provider *provider = &runtime->worker.provider;
    stored_object *object;
    void *data;
    if (!runtime->worker.joined || !runtime->world->checker.large || provider->store_server.failed != MR_OK)
        return runtime->worker.joined;
    if (provider->store != NULL) return true;
    if (store_provider_is_open(provider) &&
        store_provider_make(provider, SIM_RUNTIME_LARGE / 64 * 64, false, &object, &data) == MR_OK)
        store_provider_abort(object);
    return provider->store != NULL;
}

void sim_runtime_work(sim_runtime *runtime) {
    worker *worker = runtime->worker.worker;
    /* bodies run only after mr_init */
    if (!sim_runtime_is_ready(runtime) && runtime->worker.over == NULL) {
        sim_node_after(runtime->node, JOIN_LOOK_US, sim_runtime_work_later, runtime, 0);
        return;
    }
    while (runtime->call == NULL && !worker_is_over(worker) && (runtime->call = worker_next(worker)) != NULL) {
        worker_show(worker, runtime->call);
        if (runtime->call->refused == MR_OK && runtime->call->failed == NULL) {
            begin_body(runtime);
            return;
        }
        sim_count(runtime->world->sim, "refused works", 1);
        worker_conclude(worker, runtime->call, worker_run(runtime->call));
        worker_finish(worker, runtime->call);
        runtime->call = NULL;
    }
    if (worker_is_over(worker)) sim_runtime_world_end(runtime->world, runtime->site);
}
