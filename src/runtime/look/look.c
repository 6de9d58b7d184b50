/* look.c — see look.h. Tested by tests/seeing_test.c. */
#include "runtime/look/look.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/client.h"
#include "runtime/look/report.h"
#include "runtime/refs/cargo.h"

enum { WAITS_SHOWN = 16, WAITING_SHOWN = 64 };

/* ---- The question. */

void look_encode(const look_question *question, uint8_t out[LOOK_FIELDS_SIZE]) {
    writer writer = writer_of(out, LOOK_FIELDS_SIZE);
    writer_u8(&writer, (uint8_t)question->what);
    writer_u32(&writer, question->process);
    writer_u32(&writer, question->limit);
    writer_u64(&writer, question->serial);
}

mr_status look_decode(span fields, look_question *out) {
    reader reader = reader_of(fields.data, fields.size);
    uint8_t what = reader_u8(&reader);
    look_question question = {.what = (look_what)what, .process = reader_u32(&reader), .limit = reader_u32(&reader)};
    question.serial = reader_u64(&reader);
    if (reader.failed || what >= LOOK_COUNT || question.limit > LOOK_ROWS_MAX)
        return error_set(MR_INVALID, "malformed query: kind %u, limit %u (at most %d)", what, question.limit,
                         LOOK_ROWS_MAX);
    *out = question;
    return MR_OK;
}

/* ---- Rows. */

typedef struct rows {
    client *client;
    const look_question *question;
    report report;
    report_list list;
    uint64_t bytes;
    int64_t now_us;
    map arguments; /* object → it is an argument of a task or call */
} rows;

static mr_arg id_of(rows *rows, char letter, mr_ref ref) {
    return report_id_arg(&rows->report, letter, ref.word[0], ref.word[1]);
}

/* The futures that are not there yet. */
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

static mr_arg task_row(rows *rows, const sight *sight) {
    static const char *const states[] = {
        [SIGHT_ARGUMENTS] = "arguments", [SIGHT_QUEUED] = "queued", [SIGHT_SENT] = "sent"};
    report *report = &rows->report;
    char need[RESOURCES_TEXT_MAX] = "";
    if (sight->need != NULL) resources_text(sight->need, need, sizeof need);
    mr_arg worker = sight->process == 0 ? mr_nil() : report_id_arg(report, 'p', sight->process, 0);
    mr_arg actor = !sight->is_call ? mr_nil() : report_id_arg(report, 'a', sight->actor.word[0], sight->actor.word[1]);
    return REPORT_MAP(report, {"id", id_of(rows, sight->is_call ? 'c' : 't', sight->result->ref)},
                      {"kind", mr_str(sight->is_call ? "call" : "task")}, {"name", mr_str(sight->name)},
                      {"state", mr_str(states[sight->state])}, {"age_us", age_of(rows, sight->since_us)},
                      {"waits_for", waits_for(rows, sight->arguments)}, {"worker", worker},
                      {"needs", sight->need != NULL ? report_copy(report, span_of(need, strlen(need))) : mr_nil()},
                      {"retries", sight->is_call ? mr_nil() : mr_int(sight->retries)}, {"actor", actor},
                      {"actor_state", sight->is_call ? mr_str(sight->actor_state) : mr_nil()});
}

static bool add_task(void *context, const sight *sight) {
    rows *rows = context;
    uint64_t wanted = rows->question->serial;
    if (wanted != 0 && sight->result->ref.word[1] != wanted) return true;
    if (report_wants(&rows->list)) report_add(&rows->report, &rows->list, task_row(rows, sight));
    return wanted == 0;
}

static void task_rows(rows *rows) {
    if (tasks_each(&rows->client->tasks, add_task, rows)) actors_each(&rows->client->actors, add_task, rows);
}

/* ---- Objects. */

static uint64_t bytes_of(const object *object) {
    if (object->state != OBJECT_READY) return 0;
    return object->owner != NULL ? cargo_bytes(object->owner, object->index) : object->value.bytes.size;
}

static bool note_arguments(void *context, const sight *sight) {
    rows *rows = context;
    const arguments_futures *futures = sight->arguments->futures;
    if (futures != NULL && map_reserve(&rows->arguments, futures->count) != MR_OK) {
        error_clear(); /* then less is known */
        return false;
    }
    for (uint32_t i = 0; futures != NULL && i < futures->count; i++)
        map_put(&rows->arguments, (uint64_t)(uintptr_t)futures->items[i].object, rows);
    return true;
}

/* Who has it in this process: the program or the body that runs, an actor, a call on its way to be answered, values
 * that refer to it. */
static mr_arg held_by(rows *rows, const object *object) {
    const client *client = rows->client;
    const char *program = client->worker == NULL                         ? "driver, "
                          : client->worker_ops->is_actor(client->worker) ? "actor state, "
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

/* All that the program has a reference to, or a task or call of it has as an argument; the largest are shown. */
static void object_rows(rows *rows) {
    const objects *all = &rows->client->objects;
    size_t count = 0;
    sized *sorted;
    if (alloc_try(all->count * sizeof(sized) + 1, &sorted) != MR_OK) return;
    uint32_t at = 0;
    (void)(tasks_each(&rows->client->tasks, note_arguments, rows) &&
           actors_each(&rows->client->actors, note_arguments, rows));
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

/* What threads of this process wait for: objects that somebody waits for who is no task and no call. */
static mr_arg waiting(rows *rows) {
    report_list ids = {.limit = WAITING_SHOWN};
    uint32_t at = 0;
    for (const object *object; (object = objects_next(&rows->client->objects, &at)) != NULL;) {
        bool waited_for = false;
        list_for_each (place, &object->waiters)
            if (!arguments_wait_by(container_of(place, object_waiter, place))) waited_for = true;
        if (waited_for && report_wants(&ids)) report_add(&rows->report, &ids, id_of(rows, 'o', object->ref));
    }
    return report_list_arg(&ids);
}

static mr_arg whole(rows *rows, span does) {
    const client *client = rows->client;
    size_t queued = client->worker == NULL ? 0 : client->worker_ops->queued(client->worker);
    return REPORT_MAP(&rows->report, {"process", mr_int(REPORT_PROCESS(client->objects.process))},
                      {"pid", mr_int(client->pid)}, {"role", mr_str(client->role == WIRE_WORKER ? "worker" : "driver")},
                      {"waiting", waiting(rows)}, {"queued", mr_int((int64_t)queued)},
                      {"rows", report_list_arg(&rows->list)}, {"total", mr_int((int64_t)rows->list.total)},
                      {"bytes", mr_int((int64_t)rows->bytes)}, {"memory_waits", mr_int(client->memory_waits)},
                      {"does", does.size == 0 ? mr_nil() : report_copy(&rows->report, does)});
}

static void answer(rows *rows, call_token token, span does) {
    client *client = rows->client;
    mr_arg arg = whole(rows, does);
    bundle *values;
    mr_status status = bundle_create(&(bundle_item){.arg = &arg}, 1, &values);
    if (status == MR_OK)
        late_answer(&client->late, client->calls, token, values);
    else
        wire_refuse(client->calls, token, status, mr_last_error());
    report_fini(&rows->report);
}

void look_tell(client *client, call_token token, span does) {
    look_question question = {.what = LOOK_DOES};
    rows rows = {.client = client, .question = &question};
    report_init(&rows.report);
    answer(&rows, token, does);
}

void look_answer(client *client, const call_request *request) {
    look_question question;
    wire_body_drop(request->body.data);
    mr_status status = look_decode(request->payload, &question);
    if (status != MR_OK) {
        wire_refuse(client->calls, request->token, status, mr_last_error());
        return;
    }
    if (question.what == LOOK_DOES) {
        bool later = client->host->describe != NULL && client->host->describe(client->host->context, request->token);
        if (!later) look_tell(client, request->token, (span){0});
        return;
    }
    rows rows = {.client = client,
                 .question = &question,
                 .list = {.limit = question.limit},
                 .now_us = clock_now_us(client->env->clock)};
    report_init(&rows.report);
    if (question.what == LOOK_TASKS) task_rows(&rows);
    if (question.what == LOOK_OBJECTS) object_rows(&rows);
    answer(&rows, request->token, (span){0});
}
