/* inspect_why.c — see inspect.h. Chain of causes for which a task, call, object, actor or process waits: one step
 * for each cause, from process to process, until a step waits for nothing that the runtime knows.
 *
 * A step is a map: "id", "what" (a description), "age_us", "because", "release" (the event that ends the wait; "" if
 * the next step has it), "does" (of a process: its own description (mr_on_describe), or nil). The answer is {"steps":
 * list}. Tested by tests/inspect_test.c. */
#include <stdio.h>

#include "base/error.h"
#include "base/plural.h"
#include "base/slab.h"
#include "runtime/common/resources.h"
#include "runtime/inspect/inspect.h"

enum { STEPS_MAX = 32, ROWS_SEARCHED = 10 * 1000 };

typedef struct step {
    mr_arg id, what;
    int64_t age_us;
    mr_arg because, release; /* "" if not set */
    mr_arg does;             /* nil if not set */
} step;

typedef struct why {
    mr_inspect *inspect;
    bool brief; /* only the causes are wanted: no descriptions, which may take long */
    report report;
    report_list steps;
    report_id seen[STEPS_MAX];
    report_id next; /* letter 0: no next step */
    step last;      /* the newest of the steps */
} why;

static void set_next(why *why, span id) {
    char text[64];
    if (id.size >= sizeof text) return;
    memcpy(text, id.data, id.size);
    text[id.size] = '\0';
    if (!report_id_parse(text, &why->next)) why->next.letter = 0;
}

static mr_arg or_empty(mr_arg text) { return text.bytes.size > 0 ? text : mr_str(""); }

static void add_step(why *why, const step *step) {
    report *report = &why->report;
    why->last = *step;
    report_add(report, &why->steps,
               REPORT_MAP(report, {"id", step->id}, {"what", step->what},
                          {"age_us", step->age_us > 0 ? mr_int(step->age_us) : mr_nil()},
                          {"because", or_empty(step->because)}, {"release", or_empty(step->release)},
                          {"does", step->does}));
}

static mr_arg id_arg(why *why, const report_id *id) {
    return report_id_arg(&why->report, id->letter, id->process, id->serial);
}

#define TEXT(span_) (int)(span_).size, (const char *)(span_).data

/* Queries tasks or objects of a process: the one with that serial, or with serial 0 the first ROWS_SEARCHED. */
static mr_status ask(why *why, inspect_query_what what, uint32_t process, uint64_t serial, inspect_answer *out) {
    inspect_query_question question = {
        .what = what, .process = process, .limit = serial != 0 ? 1 : ROWS_SEARCHED, .serial = serial};
    return inspect_look(why->inspect, &question, out);
}

/* ---- Tasks. */

static void for_arguments(why *why, const mr_value *row, step *step) {
    mr_value ids = inspect_field(row, "waits_for"), first = {0};
    size_t count = mr_value_count(&ids);
    mr_span id = {0};
    if (count > 0 && mr_value_item(&ids, 0, &first) == MR_OK && mr_value_str(&first, &id) == MR_OK)
        set_next(why, span_of(id.data, id.size));
    step->because = report_text(&why->report, "%zu of its arguments %s still pending; the first is %.*s", count,
                                count == 1 ? "is" : "are", (int)id.size, (const char *)id.data);
}

/* Whether the machine's total resources cover `needs`, a text such as "cpu=1, gpu=0.5". */
static bool is_possible(const mr_value *node, span needs) {
    char text[RESOURCES_TEXT_MAX], *state;
    snprintf(text, sizeof text, "%.*s", TEXT(needs));
    mr_value resources = inspect_field(node, "resources"), row;
    for (char *item = strtok_r(text, ", ", &state); item != NULL; item = strtok_r(NULL, ", ", &state)) {
        char *equals = strchr(item, '=');
        double amount = 0;
        if (equals == NULL || sscanf(equals + 1, "%lf", &amount) != 1) continue;
        *equals = '\0';
        int64_t total = 0;
        for (mr_iter iter = mr_value_iter(&resources); mr_iter_next(&iter, &row);)
            if (inspect_is(&row, "name", item)) total = inspect_int(&row, "total");
        if ((double)total < amount * 1000) return false;
    }
    return true;
}

static void write_resources(const mr_value *node, const char *key, char *out, size_t size) {
    mr_value resources = inspect_field(node, "resources"), row;
    size_t used = 0;
    out[0] = '\0';
    for (mr_iter iter = mr_value_iter(&resources); mr_iter_next(&iter, &row) && used < size;) {
        span name = inspect_text(&row, "name");
        used += (size_t)snprintf(out + used, size - used, "%s%.*s=%g", used == 0 ? "" : ", ", TEXT(name),
                                 (double)inspect_int(&row, key) / 1000);
    }
}

/* Writes the first 8 processes that hold resources and do not wait: "p5 (cpu=1, for p2), p6 (cpu=1)". Returns the count
 * of all such processes. */
static size_t write_holders(const mr_value *node, char *out, size_t size) {
    mr_value processes = inspect_field(node, "processes"), row;
    size_t used = 0, count = 0;
    out[0] = '\0';
    for (mr_iter iter = mr_value_iter(&processes); mr_iter_next(&iter, &row);) {
        span needs = inspect_text(&row, "needs"), id = inspect_text(&row, "id"), who = inspect_text(&row, "for");
        if (needs.size == 0 || inspect_is(&row, "state", "waits") || ++count > 8 || used >= size) continue;
        used += (size_t)snprintf(out + used, size - used, "%s%.*s (%.*s%s%.*s)", used == 0 ? "" : ", ", TEXT(id),
                                 TEXT(needs), who.size > 0 ? ", for " : "", TEXT(who));
    }
    return count;
}

/* The placement group that `needs` ends with ("cpu=1 in g2:1"), as a row of the node; false: none. */
static bool find_group(const mr_value *node, span needs, mr_value *row) {
    mr_value groups = inspect_field(node, "groups");
    for (mr_iter iter = mr_value_iter(&groups); mr_iter_next(&iter, row);) {
        span id = inspect_text(row, "id");
        if (id.size > 0 && needs.size >= id.size + 3 &&
            memcmp((const char *)needs.data + needs.size - id.size, id.data, id.size) == 0 &&
            memcmp((const char *)needs.data + needs.size - id.size - 3, "in ", 3) == 0)
            return true;
    }
    return false;
}

/* Writes the bundles of a group: "cpu=1 + cpu=1", the first 8. */
static void write_bundles(const mr_value *group, char *out, size_t size) {
    mr_value bundles = inspect_field(group, "bundles"), bundle;
    size_t used = 0, count = 0;
    mr_span text;
    out[0] = '\0';
    for (mr_iter iter = mr_value_iter(&bundles); mr_iter_next(&iter, &bundle) && ++count <= 8 && used < size;)
        if (mr_value_str(&bundle, &text) == MR_OK)
            used += (size_t)snprintf(out + used, size - used, "%s%.*s", used == 0 ? "" : " + ", (int)text.size,
                                     (const char *)text.data);
}

/* For a task or actor of a group whose resources are not reserved. */
static void for_group(why *why, const mr_value *group, const char *total, const char *free, step *step) {
    char bundles[256];
    span id = inspect_text(group, "id"), strategy = inspect_text(group, "strategy");
    write_bundles(group, bundles, sizeof bundles);
    step->because =
        report_text(&why->report, "placement group %.*s (%.*s) is not reserved: it needs %s; of %s only %s is free",
                    TEXT(id), TEXT(strategy), bundles, total, free);
    step->release = mr_str("a node with these resources; `miniray list groups` shows the groups");
}

static void for_worker(why *why, const mr_value *node, span needs, step *step) {
    char total[256], free[256], holders[512];
    mr_value group;
    write_resources(node, "total", total, sizeof total);
    write_resources(node, "free", free, sizeof free);
    if (find_group(node, needs, &group) && !inspect_is(&group, "state", "placed")) {
        for_group(why, &group, total, free, step);
        return;
    }
    if (!is_possible(node, needs)) {
        step->because =
            report_text(&why->report, "it needs %.*s, but this machine has only %s in total", TEXT(needs), total);
        step->release =
            mr_str("a node with more resources (num_cpus, num_gpus, resources of init, or of `miniray start`)");
        return;
    }
    mr_value workers = inspect_field(node, "workers");
    size_t count = write_holders(node, holders, sizeof holders);
    int starting = (int)inspect_int(&workers, "starting");
    if (count == 0 || starting > 0) {
        step->because = report_text(&why->report, "it needs a worker with %.*s; %d worker%s starting, %s is free",
                                    TEXT(needs), starting, starting == 1 ? " is" : "s are", free);
        step->release = mr_str("the start of a worker; if none starts, `miniray logs` shows why");
        return;
    }
    step->because =
        report_text(&why->report, "it needs a worker with %.*s; of %s only %s is free", TEXT(needs), total, free);
    step->release = report_text(&why->report, "the end of the work of %s%s", holders, count > 8 ? ", …" : "");
}

/* For a task or call that was sent to a worker, which is the next step. */
static void in_worker(why *why, const mr_value *row, step *step) {
    span worker = inspect_text(row, "worker");
    step->because = report_text(&why->report, "it was sent to %.*s, which runs it or an earlier call", TEXT(worker));
    set_next(why, worker);
}

/* ---- Calls. */

/* The next step is the first call to the same actor that is not sent: it holds back this call. */
static void behind_another(why *why, const mr_value *row, step *step) {
    inspect_answer answer;
    span actor = inspect_text(row, "actor"), id = inspect_text(row, "id");
    step->because = report_text(&why->report, "calls of %.*s run in order, and its queue is full", TEXT(actor));
    if (ask(why, INSPECT_QUERY_TASKS, why->seen[why->steps.count].process, 0, &answer) != MR_OK) {
        error_clear();
        return;
    }
    mr_value rows = inspect_field(inspect_part(&answer), "rows"), other;
    for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &other);) {
        span same = inspect_text(&other, "actor"), first = inspect_text(&other, "id");
        if (same.size != actor.size || memcmp(same.data, actor.data, actor.size) != 0) continue;
        if (inspect_is(&other, "state", "sent")) continue;
        if (first.size == id.size && memcmp(first.data, id.data, id.size) == 0) break;
        step->because = report_text(&why->report, "calls of %.*s run in order, and %.*s before it is not sent yet",
                                    TEXT(actor), TEXT(first));
        set_next(why, first);
        break;
    }
    inspect_answer_fini(&answer);
}

static void for_actor(why *why, const mr_value *row, step *step) {
    span actor = inspect_text(row, "actor"), state = inspect_text(row, "actor_state");
    if (inspect_is(row, "actor_state", "alive")) {
        behind_another(why, row, step);
        return;
    }
    step->because = report_text(&why->report, "its actor %.*s is %.*s", TEXT(actor), TEXT(state));
    set_next(why, actor);
}

static void pending_step(why *why, const mr_value *node, const mr_value *row) {
    span name = inspect_text(row, "name"), actor = inspect_text(row, "actor");
    step step = {.id = report_copy(&why->report, inspect_text(row, "id")), .age_us = inspect_int(row, "age_us")};
    step.what = actor.size > 0 ? report_text(&why->report, "call of %.*s on %.*s", TEXT(name), TEXT(actor))
                               : report_text(&why->report, "task %.*s", TEXT(name));
    if (inspect_is(row, "state", "arguments"))
        for_arguments(why, row, &step);
    else if (inspect_is(row, "state", "sent"))
        in_worker(why, row, &step);
    else if (actor.size > 0)
        for_actor(why, row, &step);
    else
        for_worker(why, node, inspect_text(row, "needs"), &step);
    add_step(why, &step);
}

/* ---- Objects, actors, processes. */

static mr_status object_step(why *why, const report_id *id) {
    inspect_answer answer;
    MR_TRY(ask(why, INSPECT_QUERY_OBJECTS, id->process, id->serial, &answer));
    mr_value rows = inspect_field(inspect_part(&answer), "rows"), row;
    span silent = inspect_text(inspect_part(&answer), "silent");
    mr_status status = MR_OK;
    if (silent.size > 0) {
        step step = {.id = id_arg(why, id),
                     .what = mr_str("object of a process that does not answer"),
                     .because = report_copy(&why->report, silent)};
        add_step(why, &step);
    } else if (mr_value_item(&rows, 0, &row) != MR_OK) {
        status =
            error_set(MR_NOT_FOUND, "process p%u has no object %c%u:%u: it was released, or never existed", id->process,
                      id->letter, id->process, (unsigned)(id->serial & ((UINT64_C(1) << SLAB_INDEX_BITS) - 1)));
    } else {
        span failure = inspect_text(&row, "failure");
        step step = {.id = id_arg(why, id)};
        step.what = failure.size > 0 ? report_text(&why->report, "failed: %.*s", TEXT(failure))
                                     : report_text(&why->report, "is ready, %lld bytes: it waits for nothing",
                                                   (long long)inspect_int(&row, "bytes"));
        add_step(why, &step);
    }
    inspect_answer_fini(&answer);
    return status;
}

static mr_status pending_or_object(why *why, const report_id *id) {
    inspect_answer answer;
    MR_TRY(ask(why, INSPECT_QUERY_TASKS, id->process, id->serial, &answer));
    mr_value rows = inspect_field(inspect_part(&answer), "rows"), row;
    bool asked = answer.count >= 2, found = mr_value_count(&rows) > 0 && mr_value_item(&rows, 0, &row) == MR_OK;
    if (found) pending_step(why, &answer.roots[0], &row);
    inspect_answer_fini(&answer);
    if (found) return MR_OK;
    if (asked) return object_step(why, id);
    if (why->steps.count == 0)
        return error_set(MR_NOT_FOUND, "there is no process p%u: it has ended, or never existed", id->process);
    step step = {.id = id_arg(why, id),
                 .what = mr_str("object of a process that has ended"),
                 .because = report_text(&why->report, "its owner p%u has ended, so the object is lost", id->process),
                 .release = mr_str("nothing: submit its task again")};
    add_step(why, &step);
    return MR_OK;
}

static bool find_row(const mr_value *node, const char *list, const char *id, mr_value *out) {
    mr_value rows = inspect_field(node, list);
    for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, out);)
        if (inspect_is(out, "id", id)) return true;
    return false;
}

static void actor_step(why *why, const mr_value *node, const report_id *id, const mr_value *row) {
    span class_name = inspect_text(row, "class"), worker = inspect_text(row, "worker");
    step step = {.id = id_arg(why, id)};
    step.what = report_text(&why->report, "actor of class %.*s", TEXT(class_name));
    if (inspect_is(row, "state", "pending")) {
        for_worker(why, node, inspect_text(row, "needs"), &step);
    } else if (inspect_is(row, "state", "dead")) {
        step.because = report_text(&why->report, "it is dead: %.*s", TEXT(inspect_text(row, "failure")));
        step.release = mr_str("nothing: create it again");
    } else {
        bool alive = inspect_is(row, "state", "alive");
        step.because =
            report_text(&why->report, alive ? "it runs in %.*s" : "it is being created in %.*s", TEXT(worker));
        set_next(why, worker);
    }
    add_step(why, &step);
}

/* Text about the body that the process runs, from its event ring. */
static mr_arg running_text(why *why, const mr_value *row) {
    mr_value running = inspect_field(row, "running"), first;
    if (mr_value_count(&running) == 0 || mr_value_item(&running, 0, &first) != MR_OK) return mr_str("");
    return report_text(&why->report, "it runs %.*s for p%d, for %.3f s", TEXT(inspect_text(&first, "name")),
                       (int)inspect_int(&first, "process"), (double)inspect_int(&first, "age_us") / 1e6);
}

/* The process's own description (mr_on_describe); nil: none. */
static mr_arg words_of(why *why, const report_id *id) {
    inspect_answer answer;
    mr_arg words = mr_nil();
    if (inspect_look(why->inspect, &(inspect_query_question){.what = INSPECT_QUERY_DOES, .process = id->process},
                     &answer) != MR_OK) {
        error_clear();
        return words;
    }
    span does = inspect_text(inspect_part(&answer), "does");
    if (does.size > 0) words = report_copy(&why->report, does);
    if (inspect_text(inspect_part(&answer), "silent").size > 0)
        words = mr_str("no description: the process did not answer in time");
    inspect_answer_fini(&answer);
    return words;
}

/* For a process with a thread that waits for store memory. */
static void for_memory(why *why, const mr_value *node, step *step) {
    mr_value facts = inspect_field(node, "facts"), store = inspect_field(node, "store");
    step->because =
        report_text(&why->report, "it waits for store memory: %lld objects take %lld of %lld bytes, %lld are on disk",
                    (long long)inspect_int(&store, "objects"), (long long)inspect_int(&store, "bytes"),
                    (long long)inspect_int(&facts, "arena_bytes"), (long long)inspect_int(&store, "spilled_bytes"));
    step->release = mr_str("the release of objects (`miniray memory` shows who holds them), or a larger store");
}

static void process_step(why *why, const mr_value *node, const mr_value *part, const report_id *id,
                         const mr_value *row) {
    span silent = inspect_text(part, "silent");
    mr_value waiting = inspect_field(part, "waiting"), first;
    mr_span object;
    step step = {.id = id_arg(why, id), .because = running_text(why, row)};
    step.what =
        report_text(&why->report, "%.*s, process %d", TEXT(inspect_text(row, "role")), (int)inspect_int(row, "pid"));
    if (silent.size == 0 && !why->brief) step.does = words_of(why, id);
    if (silent.size > 0) {
        step.because = report_text(&why->report, "it %.*s: stopped, or busy inside the runtime", TEXT(silent));
    } else if (inspect_int(part, "memory_waits") > 0) {
        for_memory(why, node, &step);
    } else if (mr_value_count(&waiting) > 0 && mr_value_item(&waiting, 0, &first) == MR_OK &&
               mr_value_str(&first, &object) == MR_OK) {
        step.because =
            report_text(&why->report, "it waits for %zu object%s; the first is %.*s", mr_value_count(&waiting),
                        plural(mr_value_count(&waiting)), (int)object.size, (const char *)object.data);
        set_next(why, span_of(object.data, object.size));
    } else if (step.because.bytes.size > 0) {
        step.release = mr_str("its return");
    } else if (inspect_is(row, "role", "driver")) {
        step.because = mr_str("it waits for nothing of Miniray: the driver computes, or waits for something else");
    } else {
        int queued = (int)inspect_int(part, "queued");
        step.because =
            queued > 0 ? report_text(&why->report, "%d call%s for it to run", queued, queued == 1 ? " waits" : "s wait")
                       : mr_str("it is idle");
    }
    add_step(why, &step);
}

static mr_status actor_or_process(why *why, const report_id *id) {
    inspect_answer answer;
    inspect_query_question question = {.what = id->letter == 'p' ? INSPECT_QUERY_TASKS : INSPECT_QUERY_NODE,
                                       .process = id->process};
    MR_TRY(inspect_look(why->inspect, &question, &answer));
    const mr_value *node = &answer.roots[0];
    char text[64];
    mr_value row;
    mr_status status = MR_OK;
    snprintf(text, sizeof text, id->letter == 'p' ? "p%u" : "a%u:%llu", id->process, (unsigned long long)id->serial);
    if (!find_row(node, id->letter == 'p' ? "processes" : "actors", text, &row))
        status = error_set(MR_NOT_FOUND, "there is no %s %s; `miniray list %s` shows ids",
                           id->letter == 'p' ? "process" : "actor", text, id->letter == 'p' ? "workers" : "actors");
    else if (id->letter == 'p')
        process_step(why, node, inspect_part(&answer), id, &row);
    else
        actor_step(why, node, id, &row);
    inspect_answer_fini(&answer);
    return status;
}

/* ---- The chain. */

/* A task, a call and an object with the same number are the same thing. */
static bool same(const report_id *a, const report_id *b) {
    bool numbered = strchr("tco", a->letter) != NULL && strchr("tco", b->letter) != NULL;
    return (a->letter == b->letter || numbered) && a->process == b->process && a->serial == b->serial;
}

static bool was_here(const why *why, const report_id *id) {
    for (size_t i = 0; i < why->steps.count; i++)
        if (same(&why->seen[i], id)) return true;
    return false;
}

static void add_circle(why *why, const report_id *id) {
    step step = {.id = id_arg(why, id),
                 .what = mr_str("deadlock"),
                 .because =
                     mr_str("it waits for itself, through the things that it waits for: none of them can continue"),
                 .release = mr_str("the cancellation of one of them")};
    add_step(why, &step);
}

static mr_status walk(why *why) {
    mr_status status = MR_OK;
    while (status == MR_OK && why->next.letter != 0 && why->steps.count < STEPS_MAX - 1) {
        report_id at = why->next;
        why->next.letter = 0;
        if (was_here(why, &at)) {
            add_circle(why, &at);
            break;
        }
        why->seen[why->steps.count] = at;
        size_t before = why->steps.count;
        status = at.letter == 'p' || at.letter == 'a' ? actor_or_process(why, &at) : pending_or_object(why, &at);
        if (status == MR_NOT_FOUND && before > 0) { /* the wait has ended: the answer is the steps so far */
            error_clear();
            status = MR_OK;
            break;
        }
    }
    return status;
}

mr_status inspect_why(mr_inspect *inspect, const report_id *id, mr_value *out) {
    why why = {.inspect = inspect, .steps = {.limit = STEPS_MAX}, .next = *id};
    report_init(&why.report);
    mr_status status = walk(&why);
    if (status == MR_OK) {
        mr_arg map = REPORT_MAP(&why.report, {"steps", report_list_arg(&why.steps)});
        status = inspect_value(&map, out);
    }
    report_fini(&why.report);
    return status;
}

void inspect_why_line(mr_inspect *inspect, const report_id *id, char *out, size_t size) {
    why why = {.inspect = inspect, .brief = true, .steps = {.limit = STEPS_MAX}, .next = *id};
    report_init(&why.report);
    mr_status status = walk(&why);
    span because = span_of(why.last.because.bytes.data, why.last.because.bytes.size);
    bool late = status == MR_TIMEOUT;
    if (because.size == 0)
        snprintf(out, size, "%s", late ? "unknown: the node did not answer in time; it is stopped or overloaded" : "");
    else
        snprintf(out, size, "%.*s (%.*s): %.*s%s", TEXT(why.last.id.bytes), TEXT(why.last.what.bytes), TEXT(because),
                 late ? ", and does not answer" : "");
    if (status != MR_OK) error_clear();
    report_fini(&why.report);
}
