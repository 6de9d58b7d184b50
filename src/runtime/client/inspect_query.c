/* inspect_query.c — see inspect_query.h. Tested by tests/inspect_test.c. */
#include "runtime/client/inspect_query.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/client/core_worker.h"
#include "runtime/common/report.h"
#include "runtime/refs/attachment.h"

enum { WAITS_SHOWN = 16, WAITING_SHOWN = 64 };

/* ---- The query. */

void inspect_query_encode(const inspect_query_question *question, uint8_t out[INSPECT_QUERY_FIELDS_SIZE]) {
    writer writer = writer_of(out, INSPECT_QUERY_FIELDS_SIZE);
    writer_u8(&writer, (uint8_t)question->what);
    writer_u32(&writer, question->process);
    writer_u32(&writer, question->limit);
    writer_u64(&writer, question->serial);
}

mr_status inspect_query_decode(span fields, inspect_query_question *out) {
    reader reader = reader_of(fields.data, fields.size);
    uint8_t what = reader_u8(&reader);
    inspect_query_question question = {
        .what = (inspect_query_what)what, .process = reader_u32(&reader), .limit = reader_u32(&reader)};
    question.serial = reader_u64(&reader);
    if (reader.failed || what >= INSPECT_QUERY_COUNT || question.limit > INSPECT_QUERY_ROWS_MAX)
        return error_set(MR_INVALID, "malformed query: kind %u, limit %u (at most %d)", what, question.limit,
                         INSPECT_QUERY_ROWS_MAX);
    *out = question;
    return MR_OK;
}

/* ---- Rows. */

typedef struct rows {
    core_worker *worker;
    const inspect_query_question *question;
    report report;
    report_list list;
    uint64_t bytes;
    int64_t now_us;
    map arguments; /* set of the objects that are arguments of a task or call */
} rows;

static mr_arg id_of(rows *rows, char letter, mr_ref ref) {
    return report_id_arg(&rows->report, letter, ref.word[0], ref.word[1]);
}

/* Ids of the arguments that are pending futures. */
static mr_arg waits_for(rows *rows, const arguments *arguments) {
    report_list ids = {.limit = WAITS_SHOWN};
    const arguments_futures *futures = arguments_are_settled(arguments) ? NULL : arguments->futures;
    for (uint32_t i = 0; futures != NULL && i < futures->count; i++) {
        const object *object = futures->items[i].object;
        if (object->state != OBJECT_PENDING) continue;
        if (report_wants(&ids)) report_add(&rows->report, &ids, id_of(rows, 'o', object->ref));
    }
    return report_list_arg(&ids);
}

static mr_arg age_of(const rows *rows, int64_t since_us) {
    return mr_int(since_us > 0 && rows->now_us > since_us ? rows->now_us - since_us : 0);
}

static mr_arg task_row(rows *rows, const task_snapshot *snapshot) {
    static const char *const states[] = {
        [TASK_SNAPSHOT_ARGUMENTS] = "arguments", [TASK_SNAPSHOT_QUEUED] = "queued", [TASK_SNAPSHOT_SENT] = "sent"};
    const invocation *invocation = snapshot->invocation;
    report *report = &rows->report;
    char need[RESOURCES_TEXT_MAX] = "";
    if (snapshot->need != NULL) resources_text(snapshot->need, need, sizeof need);
    mr_arg worker = snapshot->process == 0 ? mr_nil() : report_id_arg(report, 'p', snapshot->process, 0);
    mr_arg actor =
        !snapshot->is_call ? mr_nil() : report_id_arg(report, 'a', snapshot->actor.word[0], snapshot->actor.word[1]);
    return REPORT_MAP(report, {"id", id_of(rows, snapshot->is_call ? 'c' : 't', invocation->result->ref)},
                      {"kind", mr_str(snapshot->is_call ? "call" : "task")}, {"name", mr_str(invocation->name->text)},
                      {"state", mr_str(states[snapshot->state])}, {"age_us", age_of(rows, invocation->since_us)},
                      {"waits_for", waits_for(rows, &invocation->arguments)}, {"worker", worker},
                      {"needs", snapshot->need != NULL ? report_copy(report, span_of(need, strlen(need))) : mr_nil()},
                      {"retries", snapshot->is_call ? mr_nil() : mr_int(snapshot->retries)}, {"actor", actor},
                      {"actor_state", snapshot->is_call ? mr_str(snapshot->actor_state) : mr_nil()});
}

static bool add_task(void *context, const task_snapshot *snapshot) {
    rows *rows = context;
    uint64_t wanted = rows->question->serial;
    if (wanted != 0 && snapshot->invocation->result->ref.word[1] != wanted) return true;
    if (report_wants(&rows->list)) report_add(&rows->report, &rows->list, task_row(rows, snapshot));
    return wanted == 0;
}

static void task_rows(rows *rows) {
    if (tasks_each(&rows->worker->tasks, add_task, rows)) actors_each(&rows->worker->actors, add_task, rows);
}

/* ---- Objects. */

static uint64_t bytes_of(const object *object) {
    if (object->state != OBJECT_READY) return 0;
    return object->owner != NULL ? attachment_bytes(object->owner, object->index) : object->value.bytes.size;
}

static bool note_arguments(void *context, const task_snapshot *snapshot) {
    rows *rows = context;
    const arguments_futures *futures = snapshot->invocation->arguments.futures;
    if (futures != NULL && map_reserve(&rows->arguments, futures->count) != MR_OK) {
        error_clear(); /* the report then lacks arguments */
        return false;
    }
    for (uint32_t i = 0; futures != NULL && i < futures->count; i++)
        map_put(&rows->arguments, (uint64_t)(uintptr_t)futures->items[i].object, rows);
    return true;
}

/* Holders of the object in this process: the program or the running body, an actor, a pending call, values that refer
 * to it. */
static mr_arg held_by(rows *rows, const object *object) {
    const core_worker *worker = rows->worker;
    const char *program = worker->worker == NULL                         ? "driver, "
                          : worker->worker_ops->is_actor(worker->worker) ? "actor state, "
                                                                         : "task, ";
    bool argument = map_get(&rows->arguments, (uint64_t)(uintptr_t)object) != NULL;
    char text[96];
    int size =
        snprintf(text, sizeof text, "%s%s%s%s", object->names > 0 ? program : "", argument ? "task argument, " : "",
                 object->maker != NULL ? "in flight, " : "", object->inside > 0 ? "inside values, " : "");
    return report_text(&rows->report, "%.*s", size > 2 ? size - 2 : 0, text);
}

static mr_arg object_row(rows *rows, const object *object) {
    static const char *const states[] = {
        [OBJECT_PENDING] = "pending", [OBJECT_READY] = "ready", [OBJECT_FAILED] = "failed"};
    report *report = &rows->report;
    char text[400] = "";
    if (object->state == OBJECT_FAILED) failure_text(object->failure, text, sizeof text);
    return REPORT_MAP(report, {"id", id_of(rows, 'o', object->ref)}, {"state", mr_str(states[object->state])},
                      {"bytes", mr_int((int64_t)bytes_of(object))}, {"holds", mr_int(object->holds)},
                      {"held_by", held_by(rows, object)},
                      {"failure", text[0] == '\0' ? mr_nil() : report_text(report, "%s", text)});
}

typedef struct sized {
    uint64_t bytes;
    const object *object;
} sized;

static int larger_first(const void *a, const void *b) {
    const sized *left = a, *right = b;
    if (left->bytes != right->bytes) return left->bytes < right->bytes ? 1 : -1;
    return left->object->ref.word[1] < right->object->ref.word[1] ? -1 : 1;
}

static void choose(rows *rows, const object *object, sized *sorted, size_t *count) {
    if (rows->question->serial != 0 && object->ref.word[1] != rows->question->serial) return;
    sorted[*count] = (sized){bytes_of(object), object};
    rows->bytes += sorted[(*count)++].bytes;
}

/* All objects that the program has a reference to, or that are arguments of its tasks and calls; the largest are
 * shown. */
static void object_rows(rows *rows) {
    const objects *all = &rows->worker->objects;
    size_t count = 0;
    sized *sorted;
    if (alloc_try(all->count * sizeof(sized) + 1, &sorted) != MR_OK) return;
    uint32_t at = 0;
    (void)(tasks_each(&rows->worker->tasks, note_arguments, rows) &&
           actors_each(&rows->worker->actors, note_arguments, rows));
    for (const object *object; (object = objects_next(all, &at)) != NULL;) choose(rows, object, sorted, &count);
    map_for_each (slot, &rows->arguments) {
        const object *object = (const struct object *)(uintptr_t)slot.key;
        if (object->names == 0) choose(rows, object, sorted, &count);
    }
    if (count > 0) qsort(sorted, count, sizeof *sorted, larger_first);
    for (size_t i = 0; i < count; i++)
        if (report_wants(&rows->list)) report_add(&rows->report, &rows->list, object_row(rows, sorted[i].object));
    map_fini(&rows->arguments);
    free(sorted);
}

/* ---- The answer. */

/* Objects that threads of this process wait for: those with a waiter that is neither a task nor a call. */
static mr_arg waiting(rows *rows) {
    report_list ids = {.limit = WAITING_SHOWN};
    uint32_t at = 0;
    for (const object *object; (object = objects_next(&rows->worker->objects, &at)) != NULL;) {
        bool waited_for = false;
        list_for_each (place, &object->waiters)
            if (!arguments_wait_by(container_of(place, object_waiter, place))) waited_for = true;
        if (waited_for && report_wants(&ids)) report_add(&rows->report, &ids, id_of(rows, 'o', object->ref));
    }
    return report_list_arg(&ids);
}

static mr_arg whole(rows *rows, span does) {
    const core_worker *worker = rows->worker;
    size_t queued = worker->worker == NULL ? 0 : worker->worker_ops->queued(worker->worker);
    return REPORT_MAP(&rows->report, {"process", mr_int(REPORT_PROCESS(worker->objects.process))},
                      {"pid", mr_int(worker->pid)}, {"role", mr_str(worker->role == WIRE_WORKER ? "worker" : "driver")},
                      {"waiting", waiting(rows)}, {"queued", mr_int((int64_t)queued)},
                      {"rows", report_list_arg(&rows->list)}, {"total", mr_int((int64_t)rows->list.total)},
                      {"bytes", mr_int((int64_t)rows->bytes)}, {"memory_waits", mr_int(worker->memory_waits)},
                      {"does", does.size == 0 ? mr_nil() : report_copy(&rows->report, does)});
}

static void answer(rows *rows, rpc_call_token token, span does) {
    core_worker *worker = rows->worker;
    mr_arg arg = whole(rows, does);
    value_pack *values;
    mr_status status = value_pack_create(&(value_pack_item){.arg = &arg}, 1, &values);
    if (status == MR_OK)
        reply_queue_answer(&worker->replies, worker->rpc, token, values);
    else
        wire_refuse(worker->rpc, token, status, mr_last_error());
    report_fini(&rows->report);
}

void inspect_query_tell(core_worker *worker, rpc_call_token token, span does) {
    inspect_query_question question = {.what = INSPECT_QUERY_DOES};
    rows rows = {.worker = worker, .question = &question};
    report_init(&rows.report);
    answer(&rows, token, does);
}

void inspect_query_answer(core_worker *worker, const rpc_call_request *request) {
    inspect_query_question question;
    wire_body_drop(request->body.data);
    mr_status status = inspect_query_decode(request->payload, &question);
    if (status != MR_OK) {
        wire_refuse(worker->rpc, request->token, status, mr_last_error());
        return;
    }
    if (question.what == INSPECT_QUERY_DOES) {
        bool later = worker->host->describe != NULL && worker->host->describe(worker->host->context, request->token);
        if (!later) inspect_query_tell(worker, request->token, (span){0});
        return;
    }
    rows rows = {.worker = worker,
                 .question = &question,
                 .list = {.limit = question.limit},
                 .now_us = clock_now_us(worker->env->clock)};
    report_init(&rows.report);
    if (question.what == INSPECT_QUERY_TASKS) task_rows(&rows);
    if (question.what == INSPECT_QUERY_OBJECTS) object_rows(&rows);
    answer(&rows, request->token, (span){0});
}
