/* runtime_party.c — see runtime_party.h. The node is in runtime_node.c. */
#include "sim/runtime_party.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "miniray/runtime.h"
#include "net/value.h"
#include "runtime/cargo.h"
#include "runtime/worker.h"

enum { TICK_US = 50 * 1000, JOIN_LOOK_US = 100, GROUP_US = 2000, JOIN_RETRIES = 3 };

#define JOIN ".join" /* runtime/join.c; named, so that it is linked: */
static mr_status (*const join)(mr_context *, const mr_ref *, size_t, mr_ref *) __attribute__((used)) = mr_join;

/* What happens in a body is the simulator's: it sets the result before the body is called. */
MR_TASK(sim_work) { return MR_OK; }
MR_CREATE(sim_actor) { return MR_OK; }
MR_METHOD(sim_actor, work) { return MR_OK; }

typedef struct watch { /* of a work that was submitted here */
    object_waiter waiter;
    list place;
    party *party;
    runtime_work *work;
    bool is_nested;
    uint32_t index; /* of a nested one: among its parent's */
} watch;

static rng *rng_of(const party *party) { return sim_rng(party->world->sim); }

static uint64_t process_of(const sim_node *node) {
    return ((uint64_t)sim_node_index(node) + 1) << 32 | sim_node_process(node);
}

/* ---- Values: a number, many bytes that begin and end with it, or (of a join) a list of such. */

static mr_status read_number(const mr_value *value, int64_t *out) {
    mr_span bytes;
    if (mr_value_kind(value) == MR_KIND_INT) return mr_value_int(value, out);
    MR_TRY(mr_value_bytes(value, &bytes));
    const uint8_t *data = bytes.data;
    if (bytes.size != PARTY_LARGE || memcmp(data, data + bytes.size - sizeof *out, sizeof *out) != 0)
        return error_set(MR_CORRUPT, "a large value is not what it was");
    memcpy(out, data, sizeof *out);
    return MR_OK;
}

static mr_status read_value(const mr_value *value, int64_t *out) {
    if (mr_value_kind(value) != MR_KIND_LIST) return read_number(value, out);
    int64_t numbers[RUNTIME_INPUTS_MAX] = {0};
    size_t count = mr_value_count(value);
    if (count > RUNTIME_INPUTS_MAX) return error_set(MR_CORRUPT, "a join has %zu values", count);
    for (size_t i = 0; i < count; i++) {
        mr_value item;
        MR_TRY(mr_value_item(value, i, &item));
        MR_TRY(read_value(&item, &numbers[i]));
    }
    *out = runtime_work_join(numbers, count);
    return MR_OK;
}

static mr_status outcome(const object *object, int64_t *value) {
    value_doc doc;
    mr_value root;
    bundle_entry entry = object->value;
    if (object->state == OBJECT_FAILED) return object->failure->code;
    if (value_read_scalar(entry.bytes, &root)) return mr_value_int(&root, value);
    if (object->owner != NULL) MR_TRY(cargo_show(object->owner, object->index, false, &entry));
    mr_status status = bundle_entry_open(&entry, &doc, &root);
    if (status == MR_OK) {
        status = read_value(&root, value);
        value_close(&doc);
    }
    if (object->owner != NULL) cargo_hide(object->owner, object->index);
    return status;
}

static mr_status give(mr_call *call, int64_t value, bool large) {
    if (!large) return mr_return(call, mr_int(value));
    uint8_t *bytes = xcalloc(1, PARTY_LARGE);
    memcpy(bytes, &value, sizeof value);
    memcpy(bytes + PARTY_LARGE - sizeof value, &value, sizeof value);
    mr_status status = mr_return(call, mr_bytes(bytes, PARTY_LARGE));
    free(bytes);
    return status;
}

/* ---- Submitting. */

static void tell_failure(const party *party, const runtime_work *work, const object *object) {
    if (object->state != OBJECT_FAILED || !sim_listens(party->world->sim)) return;
    char text[512];
    failure_text(object->failure, text, sizeof text);
    journal_tell(sim_journal(party->world->sim), sim_now_us(party->world->sim), sim_node_name(party->node),
                 "work %d failed: %s", (int)runtime_ledger_number(&party->world->ledger, work), text);
}

/* What came of a work without anybody waiting for it. */
static mr_status settle_now(party *party, runtime_work *work, object *result) {
    int64_t value = 0;
    result->seen = true;
    tell_failure(party, work, result);
    mr_status status = outcome(result, &value);
    runtime_ledger_settled(&party->world->ledger, work, status, value);
    return status;
}

static void nested_ended(party *party, const watch *watch, mr_status status, int64_t value);

static void work_ended(object_waiter *waiter, object *object) {
    watch *watch = container_of(waiter, struct watch, waiter);
    party *party = watch->party;
    int64_t value = 0;
    object->seen = true;
    mr_status status = outcome(object, &value);
    tell_failure(party, watch->work, object);
    list_remove(&watch->place);
    if (!party->stopping) {
        runtime_ledger_settled(&party->world->ledger, watch->work, status, value);
        if (watch->is_nested) nested_ended(party, watch, status, value);
    }
    free(watch);
}

static watch *watch_add(party *party, runtime_work *work, object *object) {
    watch *watch = xcalloc(1, sizeof *watch);
    *watch = (struct watch){.waiter.fn = work_ended, .party = party, .work = work};
    list_push_back(&party->watches, &watch->place);
    object_wait(&party->client.objects, object, &watch->waiter);
    return watch;
}

/* Sends the work off; its maker's hold on the result goes with it. */
static mr_status submit(party *party, runtime_work *work, const mr_arg *args, object *result) {
    client *client = &party->client;
    const char *name = work->is_join ? JOIN : work->actor == SIZE_MAX ? "sim_work" : "work";
    request_plan plan = {.name = names_get_text(&client->names, name, (span){0}),
                         .args = args + work->is_join, /* which has no number */
                         .count = !work->is_join + work->input_count,
                         .results = &result,
                         .returns = 1,
                         .group = work->is_held ? &party->group : NULL};
    resources need = {0};
    mr_status status = MR_OK;
    if (work->actor != SIZE_MAX) {
        mr_actor actor = party->world->ledger.actors[work->actor].id;
        status = actors_submit(&client->actors, actor, &plan, (int)work->retries);
    } else {
        double cpus = work->is_join ? 0 : work->key % 5 == 0 ? 0.5 : 1;
        if (resources_set(&need, "cpu", cpus) != MR_OK) MR_UNREACHABLE();
        if (work->place != SIZE_MAX) need.group = wire_group_key(party->world->ledger.places[work->place].id);
        need.bundle = work->place != SIZE_MAX && work->key % 3 == 0;
        status = tasks_submit(&client->tasks, &(task_plan){plan, .need = &need, .retries = (int)work->retries});
    }
    name_unref(plan.name);
    return status;
}

/* `held`: also one of a group that was not submitted. A call outside of it that waits for a later call of the same
 * actor in it would wait for ever, as it should. */
static size_t draw_kept(party *party, bool held) {
    size_t start = rng_below(rng_of(party), PARTY_KEPT);
    for (size_t i = 0; i < PARTY_KEPT; i++) {
        size_t at = (start + i) % PARTY_KEPT;
        if (party->kept[at] != NULL && (held || !party->world->ledger.works[party->kept_works[at]].is_held)) return at;
    }
    return SIZE_MAX;
}

/* One of its own: of others' it would not know whether they are there yet. */
static void draw_place(party *party, runtime_work *work) {
    const runtime_ledger *ledger = &party->world->ledger;
    size_t index = rng_below(rng_of(party), ledger->place_count);
    if (ledger->places[index].owner == party->process) work->place = index;
}

static void draw_plan(party *party, runtime_work *work, mr_arg *args) {
    runtime_ledger *ledger = &party->world->ledger;
    rng *rng = rng_of(party);
    work->retries = rng_chance(rng, 0.5) ? (uint32_t)rng_below(rng, 4) : 0;
    work->fails = rng_chance(rng, 0.05);
    args[0] = mr_int(runtime_ledger_number(ledger, work));
    for (uint64_t i = rng_below(rng, RUNTIME_INPUTS_MAX + 1); i > 0; i--) {
        size_t kept = draw_kept(party, work->is_held);
        if (kept == SIZE_MAX) continue;
        work->inputs[work->input_count++] = party->kept_works[kept];
        args[work->input_count] = mr_future(party->kept[kept]->ref);
    }
    if (ledger->place_count > 0 && rng_chance(rng, party->world->places)) draw_place(party, work);
    if (work->place != SIZE_MAX || ledger->actor_count == 0 || rng_chance(rng, 0.6)) return;
    size_t actor = rng_below(rng, ledger->actor_count);
    if (ledger->actors[actor].owner != party->process && !ledger->actors[actor].known) return;
    uint32_t sequence = runtime_ledger_sequence(ledger, party->process, actor);
    work->actor = actor;
    work->sequence = work->is_held ? RUNTIME_UNSENT : sequence;
}

/* Submits what was drawn, and keeps its result there. */
static void submit_and_keep(party *party, runtime_work *work, const mr_arg *args, size_t place) {
    runtime_ledger *ledger = &party->world->ledger;
    object *result = object_create(&party->client.objects, true);
    sim_note(party->world->sim, party->node, "submits work %d: %s, inputs %zd %zd",
             (int)runtime_ledger_number(ledger, work), work->actor == SIZE_MAX ? "task" : "call",
             work->input_count > 0 ? (ssize_t)work->inputs[0] : -1,
             work->input_count > 1 ? (ssize_t)work->inputs[1] : -1);
    mr_status status = submit(party, work, args, result);
    if (status != MR_OK && party->client.over == NULL)
        sim_violation(party->world->sim, "a work cannot be submitted: %s", mr_last_error());
    if (status != MR_OK) { /* the node is gone */
        work->settled = true;
        result->seen = true;
        object_unname(&party->client.objects, result);
        object_drop(&party->client.objects, result);
        return;
    }
    if (result->state == OBJECT_PENDING)
        watch_add(party, work, result);
    else /* failed at once: what it needs has */
        (void)settle_now(party, work, result);
    party->kept[place] = result;
    party->kept_works[place] = (size_t)runtime_ledger_number(ledger, work);
}

static runtime_work *submit_one(party *party, bool held) {
    size_t place = rng_below(rng_of(party), PARTY_KEPT);
    runtime_work *work = runtime_ledger_add(&party->world->ledger, party->process, SIZE_MAX, 0);
    if (work == NULL) return NULL;
    mr_arg args[1 + RUNTIME_INPUTS_MAX];
    work->is_held = held;
    party_drop(party, place);
    draw_plan(party, work, args);
    submit_and_keep(party, work, args, place);
    return work;
}

void party_submit(party *party) { (void)submit_one(party, false); }

void party_join(party *party) {
    size_t first = draw_kept(party, false), place = rng_below(rng_of(party), PARTY_KEPT);
    if (first == SIZE_MAX || first == place) return;
    runtime_work *work = runtime_ledger_add(&party->world->ledger, party->process, SIZE_MAX, 0);
    if (work == NULL) return;
    mr_arg args[1 + RUNTIME_INPUTS_MAX];
    work->is_join = true;
    work->nested = 0;
    work->retries = JOIN_RETRIES;
    party_drop(party, place);
    for (size_t i = 0; i < RUNTIME_INPUTS_MAX; i++) {
        size_t kept = i == 0 ? first : draw_kept(party, false);
        work->inputs[work->input_count++] = party->kept_works[kept];
        args[work->input_count] = mr_future(party->kept[kept]->ref);
    }
    sim_count(party->world->sim, "joins", 1);
    submit_and_keep(party, work, args, place);
}

/* What is in the group runs from now on, calls of actors in the order in which they are in it; or never. */
static void end_group(void *context, uint64_t dropped) {
    party *party = context;
    runtime_ledger *ledger = &party->world->ledger;
    for (size_t i = 0; i < party->grouped_count; i++) {
        runtime_work *work = party->grouped[i];
        work->cancelled = work->cancelled || dropped;
        work->is_held = dropped && !work->settled;
        if (!dropped && work->actor != SIZE_MAX)
            work->sequence = runtime_ledger_sequence(ledger, party->process, work->actor);
    }
    party->grouped_count = 0;
    sim_count(party->world->sim, dropped ? "groups dropped" : "groups", 1);
    if (dropped)
        requests_drop(&party->group);
    else
        requests_start(&party->group);
}

void party_group(party *party) {
    if (party->grouped_count > 0 || party->client.over != NULL) return;
    for (size_t i = 0; i < PARTY_GROUP; i++) {
        runtime_work *work = submit_one(party, true);
        if (work != NULL) party->grouped[party->grouped_count++] = work;
    }
    if (party->grouped_count == 0) return;
    bool drops = rng_chance(rng_of(party), 0.2);
    sim_node_after(party->node, rng_between(rng_of(party), 1, GROUP_US), end_group, party, drops);
}

void party_drop(party *party, size_t index) {
    object *object = party->kept[index];
    if (object == NULL) return;
    party->kept[index] = NULL;
    object->seen = true;
    object_unname(&party->client.objects, object);
}

void party_cancel(party *party) {
    size_t kept = draw_kept(party, true);
    if (kept == SIZE_MAX || party->kept[kept]->state != OBJECT_PENDING) return;
    runtime_work *work = &party->world->ledger.works[party->kept_works[kept]];
    bool force = work->actor == SIZE_MAX && !work->is_held && rng_chance(rng_of(party), 0.1) &&
                 party->world->seat_count < PARTY_SEATS / 2; /* it costs a worker */
    mr_status status = request_cancel(party->kept[kept], force ? WIRE_BY_FORCE : WIRE_WITH_CHILDREN);
    if (status == MR_BUSY && force) return; /* a forced one may be asked to come again */
    work->cancelled = true;
    if (status != MR_OK)
        sim_violation(party->world->sim, "a work without a result cannot be cancelled: %s", mr_last_error());
    sim_count(party->world->sim, "cancelled", 1);
}

/* ---- Actors. */

typedef struct birth {
    actor_birth birth;
    list place;
    runtime_actor *actor;
} birth;

static void birth_told(actor_birth *told, const failure *refused) {
    birth *birth = container_of(told, struct birth, birth);
    birth->actor->known = refused == NULL;
    list_remove(&birth->place);
    free(birth);
}

static void make_actor(party *party) {
    runtime_ledger *ledger = &party->world->ledger;
    if (ledger->actor_count == RUNTIME_ACTORS_MAX) return;
    size_t index = ledger->actor_count++;
    runtime_actor *actor = &ledger->actors[index];
    *actor = (runtime_actor){.owner = party->process, .restarts = (uint32_t)rng_below(rng_of(party), 3)};
    actor->created_us = sim_now_us(party->world->sim);
    actor->fails = rng_chance(rng_of(party), 0.1);
    actor->detached = rng_chance(rng_of(party), party->world->detached);
    actor_plan plan = {.class_name = "sim_actor",
                       .name = "",
                       .name_space = "",
                       .restarts = actor->restarts,
                       .detached = actor->detached,
                       .threads = 1};
    mr_arg args[] = {mr_int((int64_t)index)};
    birth *birth = xcalloc(1, sizeof *birth);
    birth->birth.told = birth_told;
    birth->actor = actor;
    list_push_back(&party->births, &birth->place);
    if (actors_create(&party->client.actors, &plan, args, 1, &birth->birth, &actor->id) != MR_OK) { /* it is over */
        list_remove(&birth->place);
        free(birth);
    }
    sim_count(party->world->sim, "actors", 1);
}

static void kill_actor(party *party, runtime_actor *actor) {
    uint8_t fields[16];
    writer writer = writer_of(fields, sizeof fields);
    wire_put_actor(&writer, actor->id);
    actor->killed = true;
    client_tell_node(&party->client, NODE_ACTOR_KILL, span_of(fields, sizeof fields));
}

void party_actor(party *party) {
    runtime_ledger *ledger = &party->world->ledger;
    size_t index = rng_below(rng_of(party), RUNTIME_ACTORS_MAX);
    if (index >= ledger->actor_count || rng_chance(rng_of(party), 0.5))
        make_actor(party);
    else if (ledger->actors[index].owner == party->process && rng_chance(rng_of(party), 0.3))
        kill_actor(party, &ledger->actors[index]);
}

void party_kill_actors(party *party) {
    runtime_ledger *ledger = &party->world->ledger;
    for (size_t i = 0; i < ledger->actor_count; i++)
        if (ledger->actors[i].owner == party->process || !runtime_ledger_is_alive(ledger, ledger->actors[i].owner))
            kill_actor(party, &ledger->actors[i]);
}

bool party_is_idle(const party *party) {
    return party->client.tasks.open == 0 && !tasks_have_leases(&party->client.tasks) &&
           party->client.objects.count == 0 && list_empty(&party->watches) && list_empty(&party->place_waits);
}

/* ---- A worker's bodies. */

static void tell_blocked(party *party, bool blocked) {
    uint8_t field = blocked;
    worker_waits(party->client.worker, blocked);
    client_tell_node(&party->client, NODE_BLOCKED, span_of(&field, 1));
}

static void read_inputs(party *party, int64_t *inputs) {
    for (size_t i = 0; i < party->work->input_count; i++) {
        mr_value value;
        if (mr_arg_value(party->call, 1 + i, &value) != MR_OK || read_value(&value, &inputs[i]) != MR_OK)
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
        if (work->fails) party->failed = MR_INVALID;
    }
    if (party->failed != MR_OK)
        call->failed = failure_create(party->failed, "on purpose", "", NULL);
    else if (work != NULL && give(call, runtime_work_compute(work, party->nested, inputs), work->large) != MR_OK)
        sim_violation(party->world->sim, "a value cannot be returned: %s", mr_last_error());
    if (call->result != NULL && call->result->cargo != NULL) sim_count(party->world->sim, "large by name", 1);
    party->call = NULL;
    party->work = NULL;
    worker_run(party->client.worker, call);
    worker_finish(party->client.worker, call);
    party_work(party);
}

static void nested_ended(party *party, const watch *watch, mr_status status, int64_t value) {
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
    mr_status status = submit(party, work, args, result);
    if (status != MR_OK) { /* the node is gone */
        work->settled = true;
        object_drop(objects, result);
    } else if (result->state != OBJECT_PENDING) { /* the body that starts it was cancelled */
        status = settle_now(party, work, result);
        sim_count(party->world->sim, "late children", 1);
    } else {
        if (party->call->cancelled)
            sim_violation(party->world->sim, "work %d runs although the body that submits it was cancelled before",
                          (int)runtime_ledger_number(ledger, work));
        watch *watch = watch_add(party, work, result);
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

static void begin_body(party *party) {
    runtime_ledger *ledger = &party->world->ledger;
    int64_t number = 0;
    party->failed = MR_OK;
    if (strcmp(party->call->name->text, JOIN) == 0) { /* its body is the library's own */
        sim_node_after(party->node, rng_between(rng_of(party), 1, party->world->body_us), half_body, party, 0);
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
    sim_node_after(party->node, rng_between(rng_of(party), 1, party->world->body_us), half_body, party, 0);
}

static void work_later(void *context, uint64_t unused) { party_work(context); }

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
        sim_node_after(party->node, JOIN_LOOK_US, work_later, party, 0);
        return;
    }
    while (party->call == NULL && !worker_is_over(worker) && (party->call = worker_next(worker)) != NULL) {
        worker_show(worker, party->call);
        if (party->call->refused == MR_OK && party->call->failed == NULL) {
            begin_body(party);
            return;
        }
        sim_count(party->world->sim, "refused works", 1);
        worker_run(worker, party->call);
        worker_finish(worker, party->call);
        party->call = NULL;
    }
    if (worker_is_over(worker)) runtime_world_end(party->world, party->seat);
}

/* ---- Life. */

static void address(void *context, uint64_t process, char *out, size_t size) {
    const party *party = context;
    snprintf(out, size, "%s", sim_node_name(sim_node_at(party->world->sim, (size_t)(process >> 32) - 1)));
}

static void stirred(void *context) {}

static void called(void *context) {
    party *party = context;
    if (!party->stopping) sim_node_after(party->node, 1, work_later, party, 0);
}

static void end(void *context) {
    party *party = context;
    if (!party->stopping) runtime_world_end(party->world, party->seat);
}

static party *party_start(sim_node *node, const env *env, runtime_world *world, seat *seat) {
    party *party = xcalloc(1, sizeof *party);
    *party = (struct party){.world = world, .node = node, .seat = seat, .process = process_of(node)};
    party->tick_at_us = CLOCK_NEVER_US;
    if (seat != NULL) seat->process = party->process;
    list_init(&party->watches);
    list_init(&party->births);
    list_init(&party->place_waits);
    list_init(&party->group);
    writer writer = writer_of(party->about, sizeof party->about);
    writer_span32(&writer, (span){0}); /* no name space of its own; nothing that a launcher needs */
    party->host = (client_host){.context = party,
                                .node = sim_node_name(world->node),
                                .address = address,
                                .stirred = stirred,
                                .called = called,
                                .end = end};
    if (seat == NULL) party->host.about = span_of(party->about, writer_size(&writer));
    int pid = seat != NULL ? seat->pid : (int)(100000 + sim_node_index(node));
    client_init(&party->client, env, &party->host, seat != NULL ? WIRE_WORKER : WIRE_DRIVER, pid);
    party->client.mutations = (client_mutations){.no_requeue = sim_mutated(world->sim, "no-requeue"),
                                                 .no_retry_count = sim_mutated(world->sim, "no-retry-count"),
                                                 .no_order = sim_mutated(world->sim, "no-order"),
                                                 .no_release = sim_mutated(world->sim, "no-release"),
                                                 .no_late_cancel = sim_mutated(world->sim, "no-late-cancel"),
                                                 .no_hold = sim_mutated(world->sim, "no-hold"),
                                                 .no_keep = sim_mutated(world->sim, "no-keep"),
                                                 .no_took = sim_mutated(world->sim, "no-took"),
                                                 .no_crossing = sim_mutated(world->sim, "no-crossing"),
                                                 .fail_and_retry = sim_mutated(world->sim, "fail-and-retry")};
    sim_node_serve(node, &calls_events, party->client.calls);
    mr_status status = client_start(&party->client, party->process, world->ledger.large ? &world->arena : NULL);
    MR_ASSERT(status == MR_OK);
    return party;
}

static void *driver_start(sim_node *node, const env *env, void *argument) {
    return party_start(node, env, argument, NULL);
}

static void *worker_start(sim_node *node, const env *env, void *argument) {
    return party_start(node, env, ((seat *)argument)->world, argument);
}

/* A process that dies touches nothing any more: what it has in shared memory stays as it is. */
static void leave_memory(shelf *shelf) {
    if (shelf->store != NULL) store_abandon(shelf->store);
    shelf->store = shelf->vault.store = NULL;
    shelf_close(shelf, false);
}

static void stop(void *state) {
    party *party = state;
    party->stopping = true;
    leave_memory(&party->client.shelf);
    requests_drop(&party->group);
    client_end(&party->client, failure_create(MR_CLOSED, "the process ends", "", NULL));
    client_leave(&party->client, false);
    for (size_t i = 0; i < PARTY_KEPT; i++) party_drop(party, i);
    client_fini(&party->client);
    for (list *at; (at = list_pop_front(&party->watches)) != NULL;) free(container_of(at, watch, place));
    for (list *at; (at = list_pop_front(&party->births)) != NULL;) free(container_of(at, birth, place));
    free(party);
}

static int64_t next_us(void *state) {
    party *party = state;
    int64_t next_us = calls_next_us(party->client.calls);
    if (!tasks_have_leases(&party->client.tasks)) return next_us;
    if (party->tick_at_us == CLOCK_NEVER_US) party->tick_at_us = sim_node_now_us(party->node) + TICK_US;
    return party->tick_at_us < next_us ? party->tick_at_us : next_us;
}

static void tick(void *state, int64_t now_us) {
    party *party = state;
    party->tick_at_us = CLOCK_NEVER_US;
    (void)client_tick(&party->client, now_us);
}

const sim_program runtime_driver_program = {"driver", driver_start, stop, next_us, tick};
const sim_program runtime_worker_program = {"worker", worker_start, stop, next_us, tick};
