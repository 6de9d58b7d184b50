/* runtime_workload.c — submissions of the processes of the runtime scenario, and their outcomes. See sim_runtime.h. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "miniray/runtime.h"
#include "net/value.h"
#include "runtime/refs/attachment.h"
#include "sim/runtime/sim_stream.h"

enum { GROUP_US = 2000, JOIN_RETRIES = 3 };

/* ---- Values: a number, many bytes that begin and end with it, or (of a join) a list of these. */

static mr_status read_number(const mr_value *value, int64_t *out) {
    mr_span bytes;
    if (mr_value_kind(value) == MR_KIND_INT) return mr_value_int(value, out);
    MR_TRY(mr_value_bytes(value, &bytes));
    const uint8_t *data = bytes.data;
    if (bytes.size != SIM_RUNTIME_LARGE || memcmp(data, data + bytes.size - sizeof *out, sizeof *out) != 0)
        return error_set(MR_CORRUPT, "a large value is not what it was");
    memcpy(out, data, sizeof *out);
    return MR_OK;
}

mr_status sim_runtime_read_value(const mr_value *value, int64_t *out) {
    if (mr_value_kind(value) != MR_KIND_LIST) return read_number(value, out);
    int64_t numbers[RUNTIME_INPUTS_MAX] = {0};
    size_t count = mr_value_count(value);
    if (count > RUNTIME_INPUTS_MAX) return error_set(MR_CORRUPT, "a join has %zu values", count);
    for (size_t i = 0; i < count; i++) {
        mr_value item;
        MR_TRY(mr_value_item(value, i, &item));
        MR_TRY(sim_runtime_read_value(&item, &numbers[i]));
    }
    *out = runtime_work_join(numbers, count);
    return MR_OK;
}

mr_status sim_runtime_outcome(const object *object, int64_t *value) {
    value_doc doc;
    mr_value root;
    value_pack_entry entry = object->value;
    if (object->state == OBJECT_FAILED) return object->failure->code;
    if (value_read_scalar(entry.bytes, &root)) return mr_value_int(&root, value);
    if (object->owner != NULL) MR_TRY(attachment_show(object->owner, object->index, false, &entry));
    mr_status status = value_pack_entry_open(&entry, &doc, &root);
    if (status == MR_OK) {
        status = sim_runtime_read_value(&root, value);
        value_close(&doc);
    }
    if (object->owner != NULL) attachment_hide(object->owner, object->index);
    return status;
}

/* ---- Submitting. */

static void tell_failure(const sim_runtime *runtime, const runtime_work *work, const object *object) {
    if (object->state != OBJECT_FAILED || !sim_listens(runtime->world->sim)) return;
    char text[512];
    failure_text(object->failure, text, sizeof text);
    sim_trace_tell(sim_get_trace(runtime->world->sim), sim_now_us(runtime->world->sim), sim_node_name(runtime->node),
                   "work %d failed: %s", (int)runtime_checker_number(&runtime->world->checker, work), text);
}

/* Settles a work for which no process waits. */
mr_status sim_runtime_settle_now(sim_runtime *runtime, runtime_work *work, object *result) {
    int64_t value = 0;
    result->seen = true;
    tell_failure(runtime, work, result);
    mr_status status = sim_runtime_outcome(result, &value);
    runtime_checker_settled(&runtime->world->checker, work, status, value);
    return status;
}

static void work_ended(object_waiter *waiter, object *object) {
    watch *watch = container_of(waiter, struct watch, waiter);
    sim_runtime *runtime = watch->runtime;
    int64_t value = 0;
    object->seen = true;
    mr_status status = sim_runtime_outcome(object, &value);
    tell_failure(runtime, watch->work, object);
    list_remove(&watch->place);
    if (!runtime->stopping) {
        runtime_checker_settled(&runtime->world->checker, watch->work, status, value);
        if (watch->is_nested) sim_runtime_nested_ended(runtime, watch, status, value);
    }
    free(watch);
}

watch *sim_runtime_watch(sim_runtime *runtime, runtime_work *work, object *object) {
    watch *watch = xcalloc(1, sizeof *watch);
    *watch = (struct watch){.waiter.fn = work_ended, .runtime = runtime, .work = work};
    list_push_back(&runtime->watches, &watch->place);
    object_wait(&runtime->worker.objects, object, &watch->waiter);
    return watch;
}

/* Submits the work; the creator's hold on the result goes with it. */
mr_status sim_runtime_send(sim_runtime *runtime, runtime_work *work, const mr_arg *args, object *result) {
    core_worker *worker = &runtime->worker;
    const char *name = work->is_join ? SIM_RUNTIME_JOIN : work->actor == SIZE_MAX ? "sim_work" : "work";
    invocation_plan plan = {.name = name_table_get_text(&worker->names, name, (span){0}),
                            .args = args + work->is_join, /* a join has no number */
                            .count = !work->is_join + work->input_count,
                            .results = &result,
                            .returns = 1,
                            .streams = work->streams,
                            .group = work->is_held ? &runtime->group : NULL};
    resources need = {0};
    mr_status status = MR_OK;
    if (work->actor != SIZE_MAX) {
        mr_actor actor = runtime->world->checker.actors[work->actor].id;
        status = actors_submit(&worker->actors, actor, &plan, (int)work->retries);
    } else {
        double cpus = work->is_join ? 0 : work->key % 5 == 0 ? 0.5 : 1;
        if (resources_set(&need, "cpu", cpus) != MR_OK) MR_UNREACHABLE();
        if (work->place != SIZE_MAX) need.group = wire_group_key(runtime->world->checker.places[work->place].id);
        need.bundle = work->place != SIZE_MAX && work->key % 3 == 0;
        status = tasks_submit(&worker->tasks, &(task_plan){plan, .need = &need, .retries = (int)work->retries});
    }
    interned_name_unref(plan.name);
    return status;
}

/* `held`: also a result of a batch that was not submitted. A call outside the batch that waits for a later call of the
 * same actor in the batch would wait for ever, which is correct behaviour. Streams are never arguments: they are
 * dropped early. */
static size_t draw_kept(sim_runtime *runtime, bool held, bool streams) {
    size_t start = rng_below(sim_runtime_rng(runtime), SIM_RUNTIME_KEPT);
    for (size_t i = 0; i < SIM_RUNTIME_KEPT; i++) {
        size_t at = (start + i) % SIM_RUNTIME_KEPT;
        const runtime_work *work = &runtime->world->checker.works[runtime->kept_works[at]];
        if (runtime->kept[at] != NULL && (held || !work->is_held) && (streams || !work->streams)) return at;
    }
    return SIZE_MAX;
}

static void draw_plan(sim_runtime *runtime, runtime_work *work, mr_arg *args) {
    runtime_checker *checker = &runtime->world->checker;
    rng *rng = sim_runtime_rng(runtime);
    work->retries = rng_chance(rng, 0.5) ? (uint32_t)rng_below(rng, 4) : 0;
    work->fails = rng_chance(rng, 0.05);
    args[0] = mr_int(runtime_checker_number(checker, work));
    for (uint64_t i = rng_below(rng, RUNTIME_INPUTS_MAX + 1); i > 0; i--) {
        size_t kept = draw_kept(runtime, work->is_held, false);
        if (kept == SIZE_MAX) continue;
        work->inputs[work->input_count++] = runtime->kept_works[kept];
        args[work->input_count] = mr_future(runtime->kept[kept]->ref);
    }
    if (checker->streams && !work->is_held && rng_chance(rng, 0.4)) {
        work->streams = true;
        work->items = (uint32_t)rng_below(rng, RUNTIME_ITEMS_MAX + 1);
        work->ahead = (uint32_t)rng_between(rng, 1, RUNTIME_AHEAD_MAX);
    }
    work->place = sim_runtime_draw_place(runtime);
    if (work->place != SIZE_MAX || checker->actor_count == 0 || rng_chance(rng, 0.6)) return;
    size_t actor = rng_below(rng, checker->actor_count);
    if (checker->actors[actor].owner != runtime->process && !checker->actors[actor].known) return;
    uint32_t sequence = runtime_checker_sequence(checker, runtime->process, actor);
    work->actor = actor;
    work->sequence = work->is_held ? RUNTIME_UNSENT : sequence;
}

/* Submits the drawn work, and keeps its result at that index. */
static void submit_and_keep(sim_runtime *runtime, runtime_work *work, const mr_arg *args, size_t place) {
    runtime_checker *checker = &runtime->world->checker;
    object *result = object_create(&runtime->worker.objects, true);
    sim_note(runtime->world->sim, runtime->node, "submits work %d: %s, inputs %zd %zd",
             (int)runtime_checker_number(checker, work), work->actor == SIZE_MAX ? "task" : "call",
             work->input_count > 0 ? (ssize_t)work->inputs[0] : -1,
             work->input_count > 1 ? (ssize_t)work->inputs[1] : -1);
    if (work->streams && stream_reader_open(&runtime->worker.readers, result, work->ahead) != MR_OK) MR_UNREACHABLE();
    mr_status status = sim_runtime_send(runtime, work, args, result);
    if (status != MR_OK && runtime->worker.over == NULL)
        sim_violation(runtime->world->sim, "a work cannot be submitted: %s", mr_last_error());
    if (status != MR_OK) { /* the node is gone */
        work->settled = true;
        result->seen = true;
        object_unname(&runtime->worker.objects, result);
        object_drop(&runtime->worker.objects, result);
        return;
    }
    if (result->state == OBJECT_PENDING)
        sim_runtime_watch(runtime, work, result);
    else /* failed at once: one of its arguments failed */
        (void)sim_runtime_settle_now(runtime, work, result);
    runtime->kept[place] = result;
    runtime->kept_works[place] = (size_t)runtime_checker_number(checker, work);
    if (work->streams) sim_stream_take(runtime, work, result);
}

static runtime_work *submit_one(sim_runtime *runtime, bool held) {
    size_t place = rng_below(sim_runtime_rng(runtime), SIM_RUNTIME_KEPT);
    runtime_work *work = runtime_checker_add(&runtime->world->checker, runtime->process, SIZE_MAX, 0);
    if (work == NULL) return NULL;
    mr_arg args[1 + RUNTIME_INPUTS_MAX];
    work->is_held = held;
    sim_runtime_drop(runtime, place);
    draw_plan(runtime, work, args);
    submit_and_keep(runtime, work, args, place);
    return work;
}

void sim_runtime_submit(sim_runtime *runtime) { (void)submit_one(runtime, false); }

void sim_runtime_join(sim_runtime *runtime) {
    size_t first = draw_kept(runtime, false, false), place = rng_below(sim_runtime_rng(runtime), SIM_RUNTIME_KEPT);
    if (first == SIZE_MAX || first == place) return;
    runtime_work *work = runtime_checker_add(&runtime->world->checker, runtime->process, SIZE_MAX, 0);
    if (work == NULL) return;
    mr_arg args[1 + RUNTIME_INPUTS_MAX];
    work->is_join = true;
    work->nested = 0;
    work->retries = JOIN_RETRIES;
    sim_runtime_drop(runtime, place);
    for (size_t i = 0; i < RUNTIME_INPUTS_MAX; i++) {
        size_t kept = i == 0 ? first : draw_kept(runtime, false, false);
        work->inputs[work->input_count++] = runtime->kept_works[kept];
        args[work->input_count] = mr_future(runtime->kept[kept]->ref);
    }
    sim_count(runtime->world->sim, "joins", 1);
    submit_and_keep(runtime, work, args, place);
}

/* Submits the batch: its works run from now on, calls of an actor in the order of the batch; or drops it: they never
 * run. */
static void end_group(void *context, uint64_t dropped) {
    sim_runtime *runtime = context;
    runtime_checker *checker = &runtime->world->checker;
    for (size_t i = 0; i < runtime->grouped_count; i++) {
        runtime_work *work = runtime->grouped[i];
        work->cancelled = work->cancelled || dropped;
        work->is_held = dropped && !work->settled;
        if (!dropped && work->actor != SIZE_MAX)
            work->sequence = runtime_checker_sequence(checker, runtime->process, work->actor);
    }
    runtime->grouped_count = 0;
    sim_count(runtime->world->sim, dropped ? "groups dropped" : "groups", 1);
    if (dropped)
        invocations_drop(&runtime->group);
    else
        invocations_start(&runtime->group);
}

void sim_runtime_group(sim_runtime *runtime) {
    if (runtime->grouped_count > 0 || runtime->worker.over != NULL) return;
    for (size_t i = 0; i < SIM_RUNTIME_GROUP; i++) {
        runtime_work *work = submit_one(runtime, true);
        if (work != NULL) runtime->grouped[runtime->grouped_count++] = work;
    }
    if (runtime->grouped_count == 0) return;
    bool drops = rng_chance(sim_runtime_rng(runtime), 0.2);
    sim_node_after(runtime->node, rng_between(sim_runtime_rng(runtime), 1, GROUP_US), end_group, runtime, drops);
}

void sim_runtime_drop(sim_runtime *runtime, size_t index) {
    object *object = runtime->kept[index];
    if (object == NULL) return;
    runtime->kept[index] = NULL;
    object->seen = true;
    if (object->streams) {
        runtime_work *work = &runtime->world->checker.works[runtime->kept_works[index]];
        sim_stream_drop(runtime, work);
        work->cancelled = work->cancelled || !work->settled;
    }
    object_unname(&runtime->worker.objects, object);
}

void sim_runtime_cancel(sim_runtime *runtime) {
    size_t kept = draw_kept(runtime, true, true);
    if (kept == SIZE_MAX || runtime->kept[kept]->state != OBJECT_PENDING) return;
    runtime_work *work = &runtime->world->checker.works[runtime->kept_works[kept]];
    bool force = work->actor == SIZE_MAX && !work->is_held && rng_chance(sim_runtime_rng(runtime), 0.1) &&
                 runtime->world->site_count < SIM_RUNTIME_SITES / 2; /* a forced cancellation costs a worker */
    mr_status status = invocation_cancel(runtime->kept[kept], force ? WIRE_BY_FORCE : WIRE_WITH_CHILDREN);
    if (status == MR_BUSY && force) return; /* a forced cancellation may have to be repeated */
    work->cancelled = true;
    if (status != MR_OK)
        sim_violation(runtime->world->sim, "a work without a result cannot be cancelled: %s", mr_last_error());
    sim_count(runtime->world->sim, "cancelled", 1);
}
