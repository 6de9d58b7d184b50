/* work.c — what the processes of the runtime scenario submit, and what comes of it. See party.h. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "miniray/runtime.h"
#include "net/value.h"
#include "runtime/refs/cargo.h"
#include "sim/runtime/stream.h"

enum { GROUP_US = 2000, JOIN_RETRIES = 3 };

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

mr_status party_read_value(const mr_value *value, int64_t *out) {
    if (mr_value_kind(value) != MR_KIND_LIST) return read_number(value, out);
    int64_t numbers[RUNTIME_INPUTS_MAX] = {0};
    size_t count = mr_value_count(value);
    if (count > RUNTIME_INPUTS_MAX) return error_set(MR_CORRUPT, "a join has %zu values", count);
    for (size_t i = 0; i < count; i++) {
        mr_value item;
        MR_TRY(mr_value_item(value, i, &item));
        MR_TRY(party_read_value(&item, &numbers[i]));
    }
    *out = runtime_work_join(numbers, count);
    return MR_OK;
}

mr_status party_outcome(const object *object, int64_t *value) {
    value_doc doc;
    mr_value root;
    bundle_entry entry = object->value;
    if (object->state == OBJECT_FAILED) return object->failure->code;
    if (value_read_scalar(entry.bytes, &root)) return mr_value_int(&root, value);
    if (object->owner != NULL) MR_TRY(cargo_show(object->owner, object->index, false, &entry));
    mr_status status = bundle_entry_open(&entry, &doc, &root);
    if (status == MR_OK) {
        status = party_read_value(&root, value);
        value_close(&doc);
    }
    if (object->owner != NULL) cargo_hide(object->owner, object->index);
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
mr_status party_settle_now(party *party, runtime_work *work, object *result) {
    int64_t value = 0;
    result->seen = true;
    tell_failure(party, work, result);
    mr_status status = party_outcome(result, &value);
    runtime_ledger_settled(&party->world->ledger, work, status, value);
    return status;
}

static void work_ended(object_waiter *waiter, object *object) {
    watch *watch = container_of(waiter, struct watch, waiter);
    party *party = watch->party;
    int64_t value = 0;
    object->seen = true;
    mr_status status = party_outcome(object, &value);
    tell_failure(party, watch->work, object);
    list_remove(&watch->place);
    if (!party->stopping) {
        runtime_ledger_settled(&party->world->ledger, watch->work, status, value);
        if (watch->is_nested) party_nested_ended(party, watch, status, value);
    }
    free(watch);
}

watch *party_watch(party *party, runtime_work *work, object *object) {
    watch *watch = xcalloc(1, sizeof *watch);
    *watch = (struct watch){.waiter.fn = work_ended, .party = party, .work = work};
    list_push_back(&party->watches, &watch->place);
    object_wait(&party->client.objects, object, &watch->waiter);
    return watch;
}

/* Sends the work off; its maker's hold on the result goes with it. */
mr_status party_send(party *party, runtime_work *work, const mr_arg *args, object *result) {
    client *client = &party->client;
    const char *name = work->is_join ? PARTY_JOIN : work->actor == SIZE_MAX ? "sim_work" : "work";
    request_plan plan = {.name = names_get_text(&client->names, name, (span){0}),
                         .args = args + work->is_join, /* which has no number */
                         .count = !work->is_join + work->input_count,
                         .results = &result,
                         .returns = 1,
                         .streams = work->streams,
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
 * actor in it would wait for ever, as it should. Streams are nobody's arguments: they are dropped on the way. */
static size_t draw_kept(party *party, bool held, bool streams) {
    size_t start = rng_below(party_rng(party), PARTY_KEPT);
    for (size_t i = 0; i < PARTY_KEPT; i++) {
        size_t at = (start + i) % PARTY_KEPT;
        const runtime_work *work = &party->world->ledger.works[party->kept_works[at]];
        if (party->kept[at] != NULL && (held || !work->is_held) && (streams || !work->streams)) return at;
    }
    return SIZE_MAX;
}

static void draw_plan(party *party, runtime_work *work, mr_arg *args) {
    runtime_ledger *ledger = &party->world->ledger;
    rng *rng = party_rng(party);
    work->retries = rng_chance(rng, 0.5) ? (uint32_t)rng_below(rng, 4) : 0;
    work->fails = rng_chance(rng, 0.05);
    args[0] = mr_int(runtime_ledger_number(ledger, work));
    for (uint64_t i = rng_below(rng, RUNTIME_INPUTS_MAX + 1); i > 0; i--) {
        size_t kept = draw_kept(party, work->is_held, false);
        if (kept == SIZE_MAX) continue;
        work->inputs[work->input_count++] = party->kept_works[kept];
        args[work->input_count] = mr_future(party->kept[kept]->ref);
    }
    if (ledger->streams && !work->is_held && rng_chance(rng, 0.4)) {
        work->streams = true;
        work->items = (uint32_t)rng_below(rng, RUNTIME_ITEMS_MAX + 1);
        work->ahead = (uint32_t)rng_between(rng, 1, RUNTIME_AHEAD_MAX);
    }
    work->place = party_draw_place(party);
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
    if (work->streams && flow_open(&party->client.flows, result, work->ahead) != MR_OK) MR_UNREACHABLE();
    mr_status status = party_send(party, work, args, result);
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
        party_watch(party, work, result);
    else /* failed at once: what it needs has */
        (void)party_settle_now(party, work, result);
    party->kept[place] = result;
    party->kept_works[place] = (size_t)runtime_ledger_number(ledger, work);
    if (work->streams) stream_take(party, work, result);
}

static runtime_work *submit_one(party *party, bool held) {
    size_t place = rng_below(party_rng(party), PARTY_KEPT);
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
    size_t first = draw_kept(party, false, false), place = rng_below(party_rng(party), PARTY_KEPT);
    if (first == SIZE_MAX || first == place) return;
    runtime_work *work = runtime_ledger_add(&party->world->ledger, party->process, SIZE_MAX, 0);
    if (work == NULL) return;
    mr_arg args[1 + RUNTIME_INPUTS_MAX];
    work->is_join = true;
    work->nested = 0;
    work->retries = JOIN_RETRIES;
    party_drop(party, place);
    for (size_t i = 0; i < RUNTIME_INPUTS_MAX; i++) {
        size_t kept = i == 0 ? first : draw_kept(party, false, false);
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
    bool drops = rng_chance(party_rng(party), 0.2);
    sim_node_after(party->node, rng_between(party_rng(party), 1, GROUP_US), end_group, party, drops);
}

void party_drop(party *party, size_t index) {
    object *object = party->kept[index];
    if (object == NULL) return;
    party->kept[index] = NULL;
    object->seen = true;
    if (object->streams) {
        runtime_work *work = &party->world->ledger.works[party->kept_works[index]];
        stream_drop(party, work);
        work->cancelled = work->cancelled || !work->settled;
    }
    object_unname(&party->client.objects, object);
}

void party_cancel(party *party) {
    size_t kept = draw_kept(party, true, true);
    if (kept == SIZE_MAX || party->kept[kept]->state != OBJECT_PENDING) return;
    runtime_work *work = &party->world->ledger.works[party->kept_works[kept]];
    bool force = work->actor == SIZE_MAX && !work->is_held && rng_chance(party_rng(party), 0.1) &&
                 party->world->seat_count < PARTY_SEATS / 2; /* it costs a worker */
    mr_status status = request_cancel(party->kept[kept], force ? WIRE_BY_FORCE : WIRE_WITH_CHILDREN);
    if (status == MR_BUSY && force) return; /* a forced one may be asked to come again */
    work->cancelled = true;
    if (status != MR_OK)
        sim_violation(party->world->sim, "a work without a result cannot be cancelled: %s", mr_last_error());
    sim_count(party->world->sim, "cancelled", 1);
}
