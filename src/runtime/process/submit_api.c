/* submit_api.c — public functions of miniray/runtime.h that start tasks and actors: checks of their arguments.
 * Functions about futures are in future_api.c. Tested by tests/misuse_test.c. */
#include <string.h>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/option_struct.h"
#include "net/value.h"
#include "runtime/common/task_registry.h"
#include "runtime/process/context.h"
#include "runtime/process/large_args.h"
#include "runtime/process/submit.h"
#include "runtime/worker/worker.h"

mr_status mr_task_submit(mr_context *mr, const char *name, const mr_task_options *options, const mr_arg *args,
                         size_t count, mr_ref *out) {
    mr_task_options copy;
    MR_TRY(context_check(mr, mr));
    OPTION_STRUCT_READ(mr_task_options, code, options, copy);
    context_lock(mr);
    if (submit_task_straight(mr, name, options, args, count, out)) return context_done(mr, MR_OK);
    const submission task = {name, .task_options = options, .args = args, .count = count, .out = out};
    return submit_and_unlock(mr, &task);
}

typedef struct birth { /* waits for the node's response about an actor */
    actor_birth birth;
    mr_context *mr;
    poller_waiter waiter;
    failure *refused; /* a reference; NULL: accepted */
} birth;

static void birth_told(actor_birth *told, failure *refused) {
    birth *birth = container_of(told, struct birth, birth);
    if (refused != NULL) birth->refused = failure_ref(refused);
    poller_finish(&birth->mr->poller, &birth->waiter);
}

static mr_status create_locked(mr_context *mr, const actor_plan *plan, const mr_arg *args, size_t count,
                               mr_actor *out) {
    birth birth = {.birth.told = birth_told, .mr = mr};
    mr_actor actor;
    poller_waiter_init(&birth.waiter);
    MR_TRY(actors_create(&mr->worker.actors, plan, args, count, &birth.birth, &actor));
    mr_status status = birth.birth.due ? context_wait(mr, &birth.waiter, -1) : MR_OK;
    if (status == MR_OK && birth.refused != NULL) status = failure_raise(birth.refused);
    failure_unref(birth.refused);
    if (status != MR_OK) {
        actor_handle_unname(&mr->worker.handles, actor_handle_meet(&mr->worker.handles, actor));
        return status;
    }
    *out = actor;
    return MR_OK;
}

static mr_status check_class(const char *class_name) {
    MR_TRY(submit_check_name("class", class_name));
    if (task_registry_class(class_name, strlen(class_name))) return MR_OK;
    char known[400], hint[NEAREST_NAME_HINT_MAX];
    task_registry_classes_text(known, sizeof known);
    return error_set(MR_NOT_FOUND, "unknown class '%s'; registered classes: %s%s", class_name,
                     known[0] != '\0' ? known : "none", nearest_name_among(class_name, known, hint));
}

static mr_status check_actor_options(const mr_actor_options *options, resources *need) {
    if (options->name != NULL) MR_TRY(submit_check_name("named actor", options->name));
    if (options->name_space != NULL) MR_TRY(submit_check_name("name space", options->name_space));
    if (options->max_restarts < 0)
        return error_set(MR_INVALID, "max_restarts is %d: 0 or more, or MR_NO_LIMIT", options->max_restarts);
    if (options->max_concurrency < 0 || options->max_concurrency > WORKER_THREADS_MAX)
        return error_set(MR_INVALID, "max_concurrency is %d: 1 to %d, or 0 for 1", options->max_concurrency,
                         WORKER_THREADS_MAX);
    if (options->max_call_retries < 0)
        return error_set(MR_INVALID, "max_call_retries is %d: 0 or more, or MR_NO_LIMIT", options->max_call_retries);
    if (options->about.size > MR_ABOUT_MAX)
        return error_set(MR_TOO_LARGE, "the actor's description (about) is %zu bytes; the limit is %d",
                         options->about.size, MR_ABOUT_MAX);
    return submit_read_need(options->num_cpus < 0 ? 0 : options->num_cpus, options->num_gpus, options->resources,
                            options->placement_group, options->bundle, need);
}

mr_status mr_actor_create(mr_context *mr, const char *class_name, const mr_actor_options *options, const mr_arg *args,
                          size_t count, mr_actor *out) {
    static const mr_actor_options usual = MR_INIT(mr_actor_options);
    mr_actor_options copy;
    MR_TRY(context_check(mr, out));
    OPTION_STRUCT_READ(mr_actor_options, about, options, copy);
    MR_TRY(submit_check_args(args, count));
    MR_TRY(check_class(class_name));
    actor_plan plan = {.class_name = class_name, .options = options == NULL ? &usual : options};
    MR_TRY(check_actor_options(plan.options, &plan.need));
    large_args large;
    MR_TRY(large_args_put(mr, args, count, &large));
    context_lock(mr);
    mr_status status = create_locked(mr, &plan, large.args, count, out);
    context_unlock(mr);
    large_args_release(mr, &large);
    return status;
}

mr_status mr_actor_submit(mr_context *mr, mr_actor actor, const char *method, const mr_call_options *options,
                          const mr_arg *args, size_t count, mr_ref *out) {
    mr_call_options copy;
    MR_TRY(context_check(mr, mr));
    OPTION_STRUCT_READ(mr_call_options, max_retries, options, copy);
    context_lock(mr);
    if (options == NULL && submit_call_straight(mr, actor, method, args, count, out)) return context_done(mr, MR_OK);
    const submission call = {method, &actor, .call_options = options, .args = args, .count = count, .out = out};
    return submit_and_unlock(mr, &call);
}

mr_status mr_actor_find(mr_context *mr, const char *name, const char *name_space, mr_actor *out) {
    MR_TRY(context_check(mr, out));
    MR_TRY(submit_check_name("named actor", name));
    if (name_space == NULL)
        name_space = ""; /* the program's own */
    else
        MR_TRY(submit_check_name("name space", name_space));
    uint8_t fields[2 * (4 + WIRE_NAME_MAX)];
    writer writer = writer_of(fields, sizeof fields);
    writer_span32(&writer, span_of(name, strlen(name)));
    writer_span32(&writer, span_of(name_space, strlen(name_space)));
    span found = span_of(fields, writer_size(&writer));
    mr_actor actor;
    size_t size;
    context_lock(mr);
    mr_status status = context_call_node(mr, NODE_ACTOR_FIND, found, -1, &actor, sizeof actor, &size);
    if (status == MR_OK && size != sizeof actor)
        status = error_set(MR_CORRUPT, "malformed answer from the node about actor '%s': %zu bytes", name, size);
    if (status == MR_OK) {
        actor_handle *handle = actor_handle_meet(&mr->worker.handles, actor);
        actor_handle_name(handle);
        actor_handle_take(&mr->worker.handles, handle);
        *out = actor;
    }
    return context_done(mr, status);
}

mr_status mr_actor_retain(mr_context *mr, mr_actor actor) {
    MR_TRY(context_check(mr, mr));
    context_lock(mr);
    actor_handle *handle = actor_handle_find(&mr->worker.handles, actor);
    bool had = handle != NULL && handle->names + handle->inside > 0;
    if (had) actor_handle_name(handle);
    context_unlock(mr);
    return had ? MR_OK
               : error_set(MR_NOT_FOUND, "this process does not have a handle of actor a%u:%llu: it was released",
                           (unsigned)actor.word[0], (unsigned long long)actor.word[1]);
}

void mr_actor_release(mr_context *mr, mr_actor actor) {
    if (!context_is_ours(mr)) return;
    context_lock(mr);
    actor_handle *handle = actor_handle_find(&mr->worker.handles, actor);
    if (handle != NULL) actor_handle_unname(&mr->worker.handles, handle);
    context_unlock(mr);
}

/* Sends the node a request about an actor, and waits for the answer. With the lock held. */
static mr_status ask_about(mr_context *mr, wire_method method, mr_actor actor, void *out, size_t room, size_t *size) {
    return context_call_node(mr, method, span_of(&actor, sizeof actor), -1, out, room, size);
}

mr_status mr_actor_kill(mr_context *mr, mr_actor actor) {
    MR_TRY(context_check(mr, mr));
    context_lock(mr);
    actors_expect_end(&mr->worker.actors, actor);
    bool unborn = actors_kill_unborn(&mr->worker.actors, actor);
    return context_done(mr, unborn ? MR_OK : ask_about(mr, NODE_ACTOR_KILL, actor, NULL, 0, NULL));
}

mr_status mr_actor_restart(mr_context *mr, mr_actor actor) {
    MR_TRY(context_check(mr, mr));
    context_lock(mr);
    return context_done(mr, ask_about(mr, NODE_ACTOR_RESTART, actor, NULL, 0, NULL));
}

static void copy_name(reader *reader, char out[WIRE_NAME_MAX + 1]) {
    span name = wire_get_name(reader);
    if (name.size > 0) memcpy(out, name.data, name.size);
    out[name.size] = '\0';
}

mr_status mr_actor_info_get(mr_context *mr, mr_actor actor, mr_actor_info *out) {
    MR_TRY(context_check(mr, out));
    uint8_t answer[3 * (4 + WIRE_NAME_MAX) + 8 + MR_ABOUT_MAX];
    size_t size;
    context_lock(mr);
    mr_status status = ask_about(mr, NODE_ACTOR_LOOK, actor, answer, sizeof answer, &size);
    context_unlock(mr);
    MR_TRY(status);
    reader reader = reader_of(answer, size);
    copy_name(&reader, out->class_name);
    copy_name(&reader, out->name);
    copy_name(&reader, out->name_space);
    out->starts = reader_u32(&reader);
    span about = reader_span32(&reader);
    if (reader.failed || about.size > sizeof out->about)
        return error_set(MR_CORRUPT, "malformed answer from the node about actor a%u:%llu: %zu bytes",
                         (unsigned)actor.word[0], (unsigned long long)actor.word[1], size);
    if (about.size > 0) memcpy(out->about, about.data, about.size);
    out->about_size = about.size;
    return MR_OK;
}
