/* body.c — what a worker of the runtime scenario runs: what happens in a body is the simulator's. See
 * party.h. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "miniray/runtime.h"
#include "runtime/worker/worker.h"
#include "sim/runtime/stream.h"

enum { JOIN_LOOK_US = 100 };

static mr_status (*const join)(mr_context *, const mr_ref *, size_t, mr_ref *) __attribute__((used)) = mr_join;

/* The simulator sets the result before the body is called. */
MR_TASK(sim_work) { return MR_OK; }
MR_CREATE(sim_actor) { return MR_OK; }
MR_METHOD(sim_actor, work) { return MR_OK; }

uint8_t *party_large_of(int64_t value) {
    uint8_t *bytes = xcalloc(1, PARTY_LARGE);
    memcpy(bytes, &value, sizeof value);
    memcpy(bytes + PARTY_LARGE - sizeof value, &value, sizeof value);
    return bytes;
}

static mr_status give(mr_call *call, int64_t value, bool large) {
    if (!large) return mr_return(call, mr_int(value));
    uint8_t *bytes = party_large_of(value);
    mr_status status = mr_return(call, mr_bytes(bytes, PARTY_LARGE));
    free(bytes);
    return status;
}

static void tell_blocked(party *party, bool blocked) {
    uint8_t field = blocked;
    worker_waits(party->client.worker, blocked);
    client_tell_node(&party->client, NODE_BLOCKED, span_of(&field, 1));
}

static void read_inputs(party *party, int64_t *inputs) {
    for (size_t i = 0; i < party->work->input_count; i++) {
        mr_value value;
        if (mr_arg_value(party->call, 1 + i, &value) != MR_OK || party_read_value(&value, &inputs[i]) != MR_OK)
            sim_violation(party->world->sim, "an argument cannot be read: %s", mr_last_error());
    }
}

/* The body's outcome is set; now it is called, and answered. */
static void end_body(void *context, uint64_t unused) {
    party *party = context;
    mr_call *call = party->call;
    runtime_work *work = party->work;
    int64_t inputs[RUNTIME_INPUTS_MAX] = {0};
    if (work != NULL) {
        read_inputs(party, inputs);
        work->ends++;
        if (work->fails && party->failed != MR_CLOSED) party->failed = MR_INVALID; /* when it has done all it should */
    }
    if (party->failed != MR_OK)
        call->failed = failure_create(party->failed, "on purpose", "", NULL);
    else if (work != NULL && give(call, runtime_work_compute(work, party->nested, inputs), work->large) != MR_OK)
        sim_violation(party->world->sim, "a value cannot be returned: %s", mr_last_error());
    if (call->result != NULL && call->result->cargo != NULL) sim_count(party->world->sim, "large by name", 1);
    party->call = NULL;
    party->work = NULL;
    worker_ran(party->client.worker, call, worker_run(call));
    worker_finish(party->client.worker, call);
    party_work(party);
}

void party_nested_ended(party *party, const watch *watch, mr_status status, int64_t value) {
    party->nested[watch->index] = value;
    if (status != MR_OK) party->failed = status;
    if (--party->waits > 0) return;
    tell_blocked(party, false);
    sim_node_after(party->node, 1, end_body, party, 0);
}

/* One of the works that a body needs. MR_OK: it waits for it. */
static mr_status start_one_nested(party *party, runtime_work *parent, uint32_t index) {
    runtime_ledger *ledger = &party->world->ledger;
    objects *objects = &party->client.objects;
    runtime_work *work = runtime_ledger_add(ledger, party->process, (size_t)(parent - ledger->works), index);
    if (work == NULL) {
        parent->fails = true; /* the scene is full: it ends as if it had failed by itself */
        return MR_NOMEM;
    }
    work->retries = parent->retries;
    mr_arg args[] = {mr_int(runtime_ledger_number(ledger, work))};
    object *result = object_hold(object_create(objects, false));
    mr_status status = party_send(party, work, args, result);
    if (status != MR_OK) { /* the node is gone */
        work->settled = true;
        object_drop(objects, result);
    } else if (result->state != OBJECT_PENDING) { /* the body that starts it was cancelled */
        status = party_settle_now(party, work, result);
        sim_count(party->world->sim, "late children", 1);
    } else {
        if (party->call->cancelled)
            sim_violation(party->world->sim, "work %d runs although the body that submits it was cancelled before",
                          (int)runtime_ledger_number(ledger, work));
        watch *watch = party_watch(party, work, result);
        watch->index = index;
        watch->is_nested = true;
        sim_count(party->world->sim, "nested", 1);
    }
    object_drop(objects, result);
    return status;
}

/* Starts the works that its own needs. False: there are none. */
static bool start_nested(party *party) {
    runtime_work *parent = party->work;
    party->waits = parent->nested + 1; /* one more than there are, until all are submitted */
    for (uint32_t i = 0; i < parent->nested; i++) {
        mr_status status = start_one_nested(party, parent, i);
        if (status == MR_OK) continue;
        party->failed = status;
        party->waits--;
    }
    return --party->waits > 0;
}

static void half_body(void *context, uint64_t unused) {
    party *party = context;
    worker_tick(party->client.worker, 8 * sim_node_now_us(party->node)); /* bodies are short: so must be its ticks */
    bool stops = party->call->cancelled && (party->work == NULL || !party->work->stubborn);
    bool has_nested = party->work != NULL && party->work->nested > 0;
    if (has_nested && party->client.over != NULL) party->failed = MR_CLOSED;
    if (stops) party->failed = MR_CANCELLED; /* a body that looks starts nothing more */
    if (!has_nested || party->client.over != NULL || stops) {
        end_body(party, 0);
    } else if (start_nested(party)) {
        tell_blocked(party, true);
    } else {
        end_body(party, 0);
    }
}

static void first_half(void *context, uint64_t unused) { stream_give(context, half_body); }

static void begin_body(party *party) {
    runtime_ledger *ledger = &party->world->ledger;
    int64_t number = 0;
    party->failed = MR_OK;
    if (strcmp(party->call->name->text, PARTY_JOIN) == 0) { /* its body is the library's own */
        sim_node_after(party->node, rng_between(party_rng(party), 1, party->world->body_us), half_body, party, 0);
        return;
    }
    if (mr_arg_int(party->call, 0, &number) != MR_OK)
        sim_violation(party->world->sim, "the first argument cannot be read: %s", mr_last_error());
    if (party->call->method == WORKER_ACTOR_INIT) {
        runtime_ledger_made(ledger, (size_t)number, party->process);
        if (ledger->actors[number].fails) party->failed = MR_INVALID;
    } else {
        party->work = runtime_ledger_at(ledger, number);
        runtime_ledger_begins(ledger, party->work, party->process);
    }
    sim_node_after(party->node, rng_between(party_rng(party), 1, party->world->body_us), first_half, party, 0);
}

void party_work_later(void *context, uint64_t unused) { party_work(context); }

/* The first look asks for memory, so that the first large value has some. */
bool party_is_ready(party *party) {
    shelf *shelf = &party->client.shelf;
    shelved *shelved;
    void *data;
    if (!party->client.joined || !party->world->ledger.large || shelf->vault.failed != MR_OK)
        return party->client.joined;
    if (shelf->store != NULL) return true;
    if (shelf_is_open(shelf) && shelf_make(shelf, PARTY_LARGE / 64 * 64, false, &shelved, &data) == MR_OK)
        shelf_abort(shelved);
    return shelf->store != NULL;
}

void party_work(party *party) {
    worker *worker = party->client.worker;
    if (!party_is_ready(party) && party->client.over == NULL) { /* bodies run when mr_init is done, not before */
        sim_node_after(party->node, JOIN_LOOK_US, party_work_later, party, 0);
        return;
    }
    while (party->call == NULL && !worker_is_over(worker) && (party->call = worker_next(worker)) != NULL) {
        worker_show(worker, party->call);
        if (party->call->refused == MR_OK && party->call->failed == NULL) {
            begin_body(party);
            return;
        }
        sim_count(party->world->sim, "refused works", 1);
        worker_ran(worker, party->call, worker_run(party->call));
        worker_finish(worker, party->call);
        party->call = NULL;
    }
    if (worker_is_over(worker)) runtime_world_end(party->world, party->seat);
}
