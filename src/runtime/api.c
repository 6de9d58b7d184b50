/* api.c — the functions of miniray/runtime.h that a program calls: arguments are checked here, then handed on. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "net/value.h"
#include "runtime/context.h"
#include "runtime/registry.h"

enum { TASK_RETRIES = 3, LENDS_AFTER_US = 300, LOOK_EVERY = 16 };

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

/* Gives the new object's reference to the program, or forgets it if nobody wants it. Now and then, looks at what came
 * back meanwhile: a program that only submits has its answers taken in as well. */
static mr_status hand_out(mr_context *mr, object *object, mr_status status, mr_ref *out) {
    if (object->ref.word[1] % LOOK_EVERY == 0) context_look(mr);
    if (status != MR_OK) object->seen = true;
    if (status == MR_OK && out != NULL) *out = object->ref;
    if (status != MR_OK) object_unname(&mr->client.objects, object);
    object_drop(&mr->client.objects, object);
    return status;
}

mr_status mr_task_submit(mr_context *mr, const char *name, const mr_task_options *options, const mr_arg *args,
                         size_t count, mr_ref *out) {
    MR_TRY(check_name("task", name));
    if (registry_task(name, strlen(name)) == NULL) {
        char known[400];
        registry_tasks_text(known, sizeof known);
        return error_set(MR_NOT_FOUND, "no task is called '%s' in this program; there is: %s", name,
                         known[0] != '\0' ? known : "none");
    }
    task_plan plan = {.name = name, .retries = TASK_RETRIES};
    if (options != NULL && options->max_retries != 0)
        plan.retries = options->max_retries < 0 ? 0 : options->max_retries;
    MR_TRY(read_need(options, 1, &plan.need));
    context_lock(mr);
    object *result = object_create(&mr->client.objects, out != NULL);
    mr_status status = hand_out(mr, result, tasks_submit(&mr->client.tasks, &plan, args, count, result), out);
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

mr_status mr_actor_submit(mr_context *mr, mr_actor actor, const char *method, const mr_arg *args, size_t count,
                          mr_ref *out) {
    MR_TRY(check_name("method", method));
    context_lock(mr);
    object *result = object_create(&mr->client.objects, out != NULL);
    mr_status status = hand_out(mr, result, actors_submit(&mr->client.actors, actor, method, args, count, result), out);
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

/* ---- Objects. */

mr_status mr_put(mr_context *mr, mr_arg value, mr_ref *out) {
    bundle *values;
    if (value.kind == MR_KIND_REF) return error_set(MR_INVALID, "a future is there already: it needs no put");
    cargo_packer packer = context_packer(mr);
    MR_TRY(cargo_pack(&packer, &(bundle_item){.arg = &value}, 1, &values));
    context_lock(mr);
    object *object = object_create(&mr->client.objects, true);
    object_fulfil(&mr->client.objects, object, values, 0);
    bundle_unref(values);
    *out = object->ref;
    object_drop(&mr->client.objects, object);
    context_unlock(mr);
    return MR_OK;
}

typedef struct view { /* what a mr_value of mr_get holds */
    value_doc doc;
    mr_context *mr;
    bundle *values;
    uint32_t index;
} view;

static void view_release(value_doc *doc) {
    view *view = container_of(doc, struct view, doc);
    mr_context *mr = view->mr;
    value_close(doc);
    context_lock(mr);
    cargo_hide(view->values, view->index);
    bundle_unref(view->values);
    context_unlock(mr);
    free(view);
}

static mr_status open_view(mr_context *mr, object *object, mr_value *out) {
    void *memory;
    MR_TRY(alloc_try(sizeof(view), &memory));
    view *view = memory;
    bundle_entry entry;
    mr_status status = cargo_show(object->values, object->index, true, &entry);
    if (status != MR_OK) {
        free(view);
        return status;
    }
    status = bundle_entry_open(&entry, &view->doc, out);
    if (status != MR_OK) {
        value_close(&view->doc);
        cargo_hide(object->values, object->index);
        free(view);
        return status;
    }
    view->index = object->index;
    view->mr = mr;
    view->values = bundle_ref(object->values);
    view->doc.release = view_release;
    return MR_OK;
}

typedef struct many { /* waits for some of several objects */
    mr_context *mr;
    baton_waiter waiter;
    size_t left;
} many;

typedef struct one {
    object_waiter waiter;
    many *many;
} one;

static void one_came(object_waiter *waiter, object *object) {
    many *many = container_of(waiter, one, waiter)->many;
    if (many->left > 0 && --many->left == 0) baton_finish(&many->mr->baton, &many->waiter);
}

/* A worker that waits long lends its slot, so that what it waits for can run. */
static mr_status wait_lending(mr_context *mr, baton_waiter *waiter, int64_t timeout_us) {
    if (mr->client.worker == NULL || (timeout_us >= 0 && timeout_us <= LENDS_AFTER_US))
        return context_wait(mr, waiter, timeout_us);
    mr_status status = context_wait(mr, waiter, LENDS_AFTER_US);
    if (status != MR_TIMEOUT) return status;
    uint8_t blocked = 1, going_on = 0;
    client_tell_node(&mr->client, NODE_BLOCKED, span_of(&blocked, 1));
    status = context_wait(mr, waiter, timeout_us < 0 ? -1 : timeout_us - LENDS_AFTER_US);
    client_tell_node(&mr->client, NODE_BLOCKED, span_of(&going_on, 1));
    return status;
}

static object *find_object(mr_context *mr, mr_ref ref) {
    object *object = object_find(&mr->client.objects, ref);
    if (object == NULL) error_set(MR_NOT_FOUND, "this process does not have that future (any more)");
    return object;
}

static mr_status get_locked(mr_context *mr, mr_ref ref, int64_t timeout_us, mr_value *out) {
    object *object = find_object(mr, ref);
    if (object == NULL) return MR_NOT_FOUND;
    object_hold(object);
    mr_status status = MR_OK;
    if (object->state == OBJECT_PENDING) {
        many many = {.mr = mr, .left = 1};
        one one = {.waiter.fn = one_came, .many = &many};
        baton_waiter_init(&many.waiter);
        object_wait(object, &one.waiter);
        status = wait_lending(mr, &many.waiter, timeout_us);
        object_unwait(&one.waiter);
    }
    if (status == MR_OK) {
        object->seen = true;
        status = object->state == OBJECT_FAILED ? failure_raise(object->failure) : open_view(mr, object, out);
    }
    object_drop(&mr->client.objects, object);
    return status;
}

mr_status mr_get(mr_context *mr, mr_ref ref, int64_t timeout_us, mr_value *out) {
    context_lock(mr);
    mr_status status = get_locked(mr, ref, timeout_us, out);
    context_unlock(mr);
    return status;
}

static size_t note_ready(mr_context *mr, const mr_ref *refs, size_t count, unsigned char *ready) {
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        object *object = object_find(&mr->client.objects, refs[i]);
        ready[i] = object != NULL && object->state != OBJECT_PENDING;
        total += ready[i];
    }
    return total;
}

static mr_status wait_locked(mr_context *mr, const mr_ref *refs, size_t count, size_t want, int64_t timeout_us) {
    size_t pending = 0;
    for (size_t i = 0; i < count; i++) {
        object *object = find_object(mr, refs[i]);
        if (object == NULL) return MR_NOT_FOUND;
        pending += object->state == OBJECT_PENDING;
    }
    if (count - pending >= want) return MR_OK;
    void *memory;
    MR_TRY(alloc_try(count * sizeof(one), &memory));
    one *ones = memory;
    many many = {.mr = mr, .left = want - (count - pending)};
    baton_waiter_init(&many.waiter);
    for (size_t i = 0; i < count; i++) {
        object *object = object_find(&mr->client.objects, refs[i]);
        ones[i] = (one){.waiter.fn = one_came, .many = &many};
        list_init(&ones[i].waiter.place);
        if (object->state == OBJECT_PENDING) object_wait(object, &ones[i].waiter);
    }
    mr_status status = wait_lending(mr, &many.waiter, timeout_us);
    for (size_t i = 0; i < count; i++) object_unwait(&ones[i].waiter);
    free(ones);
    return status;
}

mr_status mr_wait(mr_context *mr, const mr_ref *refs, size_t count, size_t want, int64_t timeout_us,
                  unsigned char *ready, size_t *ready_count) {
    if (want > count) return error_set(MR_INVALID, "%zu results cannot come of %zu futures", want, count);
    context_lock(mr);
    mr_status status = wait_locked(mr, refs, count, want, timeout_us);
    if (status == MR_OK || status == MR_TIMEOUT) *ready_count = note_ready(mr, refs, count, ready);
    context_unlock(mr);
    return status;
}

mr_status mr_failure_detail(mr_context *mr, mr_ref ref, void *out, size_t room, size_t *size) {
    context_lock(mr);
    object *object = find_object(mr, ref);
    mr_status status = object == NULL ? MR_NOT_FOUND : MR_OK;
    span detail = object != NULL && object->state == OBJECT_FAILED ? failure_detail(object->failure) : (span){0};
    size_t copied = detail.size < room ? detail.size : room;
    if (copied > 0) memcpy(out, detail.data, copied);
    if (status == MR_OK) *size = detail.size;
    context_unlock(mr);
    return status;
}

mr_status mr_cancel(mr_context *mr, mr_ref ref) {
    context_lock(mr);
    object *object = find_object(mr, ref);
    mr_status status = object == NULL ? MR_NOT_FOUND : tasks_cancel(&mr->client.tasks, object);
    context_unlock(mr);
    return status;
}

void mr_release(mr_context *mr, mr_ref ref) {
    context_lock(mr);
    object *object = object_find(&mr->client.objects, ref);
    if (object != NULL) object_unname(&mr->client.objects, object);
    context_unlock(mr);
}
