/* api.c — the functions of miniray/runtime.h that start something: what a program asks for is checked here, then handed
 * on. Those about futures are in future.c. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "net/value.h"
#include "runtime/context.h"
#include "runtime/registry.h"

enum { TASK_RETRIES = 3, LOOK_EVERY = 16, RETURNS_FEW = 4, RETURNS_MAX = UINT16_MAX };

/* ---- Checking. */

static mr_status check_name(const char *what, const char *name) {
    if (name == NULL || name[0] == '\0') return error_set(MR_INVALID, "a %s has a name", what);
    if (strlen(name) > WIRE_NAME_MAX)
        return error_set(MR_INVALID, "the name of a %s is at most %d bytes long", what, WIRE_NAME_MAX);
    return MR_OK;
}

static mr_status read_need(const mr_task_options *options, double cpus_default, resources *out) {
    memset(out, 0, sizeof *out);
    double cpus = options == NULL || options->num_cpus == 0 ? cpus_default
                  : options->num_cpus < 0                   ? 0
                                                            : options->num_cpus;
    MR_TRY(resources_set(out, "cpu", cpus));
    if (options == NULL) return MR_OK;
    MR_TRY(resources_set(out, "gpu", options->num_gpus));
    return options->resources == NULL ? MR_OK : resources_parse(out, options->resources);
}

/* ---- Submitting. */

typedef struct outputs { /* the objects that a call will make */
    object *few[RETURNS_FEW], **all;
    uint32_t count;
} outputs;

static void outputs_fini(outputs *outputs) {
    if (outputs->all != outputs->few) free(outputs->all);
}

/* The program did not get them after all. */
static void outputs_drop(mr_context *mr, outputs *outputs) {
    for (uint32_t i = 0; i < outputs->count; i++) {
        outputs->all[i]->seen = true;
        object_unname(&mr->client.objects, outputs->all[i]);
        object_drop(&mr->client.objects, outputs->all[i]);
    }
}

static mr_status outputs_init(mr_context *mr, outputs *outputs, int count, bool named) {
    if (count < 0 || count > RETURNS_MAX)
        return error_set(MR_INVALID, "num_returns is %d: 1 to %d, or 0 for 1", count, RETURNS_MAX);
    uint32_t wanted = count == 0 ? 1 : (uint32_t)count;
    void *memory = outputs->few;
    if (wanted > RETURNS_FEW) MR_TRY(alloc_try(wanted * sizeof(object *), &memory));
    outputs->all = memory;
    for (outputs->count = 0; outputs->count < wanted; outputs->count++) {
        object *made = object_create(&mr->client.objects, named);
        if (made == NULL) {
            outputs_drop(mr, outputs);
            outputs_fini(outputs);
            return MR_NOMEM;
        }
        outputs->all[outputs->count] = made;
    }
    return MR_OK;
}

/* Gives the references to the program, or forgets them if nobody wants them. Now and then, looks at what came back
 * meanwhile: a program that only submits has its answers taken in as well. */
static mr_status hand_out(mr_context *mr, outputs *outputs, mr_status status, mr_ref *out) {
    if (status != MR_OK) outputs_drop(mr, outputs);
    for (uint32_t i = 0; status == MR_OK && out != NULL && i < outputs->count; i++) out[i] = outputs->all[i]->ref;
    outputs_fini(outputs);
    if (++mr->submitted % LOOK_EVERY == 0) context_look(mr);
    return status;
}

/* Takes a reference. */
static mr_status name_of(mr_context *mr, const char *what, const char *text, name **out) {
    if (text == NULL) return check_name(what, text);
    name *found = names_get_text(&mr->client.names, text);
    if (found == NULL) return MR_NOMEM;
    *out = found;
    return MR_OK;
}

static mr_status task_name_of(mr_context *mr, const char *text, name **out) {
    if (text == NULL || strnlen(text, WIRE_NAME_MAX + 1) > WIRE_NAME_MAX) return check_name("task", text);
    name *found;
    MR_TRY(name_of(mr, "task", text, &found));
    if (!found->task_known) found->task = registry_task(found->text, found->size);
    found->task_known = true;
    *out = found;
    if (found->task != NULL) return MR_OK;
    name_unref(found);
    MR_TRY(check_name("task", text));
    char known[400];
    registry_tasks_text(known, sizeof known);
    return error_set(MR_NOT_FOUND, "no task is called '%s' in this program; there is: %s", text,
                     known[0] != '\0' ? known : "none");
}

static mr_status submit_task(mr_context *mr, const char *name, const mr_task_options *options, task_plan *plan,
                             mr_ref *out) {
    outputs outputs;
    MR_TRY(task_name_of(mr, name, &plan->request.name));
    mr_status status = outputs_init(mr, &outputs, options == NULL ? 0 : options->num_returns, out != NULL);
    if (status == MR_OK) {
        plan->request.results = outputs.all;
        plan->request.returns = (uint16_t)outputs.count;
        status = hand_out(mr, &outputs, tasks_submit(&mr->client.tasks, plan), out);
    }
    name_unref(plan->request.name);
    return status;
}

mr_status mr_task_submit(mr_context *mr, const char *name, const mr_task_options *options, const mr_arg *args,
                         size_t count, mr_ref *out) {
    resources need;
    task_plan plan = {.request = {.args = args, .count = count}, .retries = TASK_RETRIES};
    if (options != NULL) {
        if (options->max_retries != 0) plan.retries = options->max_retries < 0 ? 0 : options->max_retries;
        MR_TRY(read_need(options, 1, &need));
        plan.need = &need;
    }
    context_lock(mr);
    mr_status status = submit_task(mr, name, options, &plan, out);
    context_unlock(mr);
    return status;
}

typedef struct birth { /* waits for the node's word about an actor */
    actor_birth birth;
    mr_context *mr;
    baton_waiter waiter;
    mr_status status;
    char text[512];
} birth;

static void birth_told(actor_birth *told, const failure *refused) {
    birth *birth = container_of(told, struct birth, birth);
    if (refused != NULL) {
        birth->status = refused->code;
        failure_text(refused, birth->text, sizeof birth->text);
    }
    baton_finish(&birth->mr->baton, &birth->waiter);
}

static mr_status create_locked(mr_context *mr, const actor_plan *plan, const mr_arg *args, size_t count,
                               mr_actor *out) {
    birth birth = {.birth.told = birth_told, .mr = mr};
    mr_actor actor;
    baton_waiter_init(&birth.waiter);
    MR_TRY(actors_create(&mr->client.actors, plan, args, count, &birth.birth, &actor));
    if (birth.birth.due) MR_TRY(context_wait(mr, &birth.waiter, -1));
    if (birth.status != MR_OK) return error_set(birth.status, "%s", birth.text);
    *out = actor;
    return MR_OK;
}

mr_status mr_actor_create(mr_context *mr, const char *class_name, const mr_task_options *options, const mr_arg *args,
                          size_t count, mr_actor *out) {
    MR_TRY(check_name("class", class_name));
    if (!registry_class(class_name, strlen(class_name))) {
        char known[400];
        registry_classes_text(known, sizeof known);
        return error_set(MR_NOT_FOUND, "no class is called '%s' in this program; there is: %s", class_name,
                         known[0] != '\0' ? known : "none");
    }
    actor_plan plan = {.class_name = class_name, .name = "", .name_space = ""};
    if (options != NULL && options->name != NULL) {
        MR_TRY(check_name("named actor", options->name));
        plan.name = options->name;
    }
    if (options != NULL && options->name_space != NULL) {
        MR_TRY(check_name("name space", options->name_space));
        plan.name_space = options->name_space;
    }
    plan.detached = options != NULL && options->detached != 0;
    if (options != NULL && options->max_restarts > 0) plan.restarts = (uint32_t)options->max_restarts;
    MR_TRY(read_need(options, 0, &plan.need));
    context_lock(mr);
    mr_status status = create_locked(mr, &plan, args, count, out);
    context_unlock(mr);
    return status;
}

static mr_status submit_call(mr_context *mr, mr_actor actor, const char *method, const mr_task_options *options,
                             request_plan *plan, mr_ref *out) {
    outputs outputs;
    MR_TRY(name_of(mr, "method", method, &plan->name));
    mr_status status = outputs_init(mr, &outputs, options == NULL ? 0 : options->num_returns, out != NULL);
    if (status == MR_OK) {
        plan->results = outputs.all;
        plan->returns = (uint16_t)outputs.count;
        status = hand_out(mr, &outputs, actors_submit(&mr->client.actors, actor, plan), out);
    }
    name_unref(plan->name);
    return status;
}

mr_status mr_actor_submit(mr_context *mr, mr_actor actor, const char *method, const mr_task_options *options,
                          const mr_arg *args, size_t count, mr_ref *out) {
    MR_TRY(check_name("method", method));
    request_plan plan = {.args = args, .count = count};
    context_lock(mr);
    mr_status status = submit_call(mr, actor, method, options, &plan, out);
    context_unlock(mr);
    return status;
}

mr_status mr_actor_find(mr_context *mr, const char *name, mr_actor *out) {
    MR_TRY(check_name("named actor", name));
    uint8_t fields[4 + WIRE_NAME_MAX + 4], answer[16];
    writer writer = writer_of(fields, sizeof fields);
    writer_span32(&writer, span_of(name, strlen(name)));
    writer_span32(&writer, (span){0});
    wire_message message = {.fields = span_of(fields, writer_size(&writer))};
    size_t size;
    context_lock(mr);
    mr_status status = context_call_node(mr, NODE_ACTOR_FIND, &message, answer, sizeof answer, &size);
    context_unlock(mr);
    if (status != MR_OK) return status;
    reader reader = reader_of(answer, size);
    mr_actor actor = wire_get_actor(&reader);
    if (reader.failed) return error_set(MR_CORRUPT, "the node's answer cannot be read");
    *out = actor;
    return MR_OK;
}

mr_status mr_actor_kill(mr_context *mr, mr_actor actor) {
    uint8_t fields[16];
    writer writer = writer_of(fields, sizeof fields);
    wire_put_actor(&writer, actor);
    wire_message message = {.fields = span_of(fields, sizeof fields)};
    context_lock(mr);
    mr_status status = context_call_node(mr, NODE_ACTOR_KILL, &message, NULL, 0, NULL);
    context_unlock(mr);
    return status;
}
