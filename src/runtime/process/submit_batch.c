/* submit_batch.c — see submit_batch.h, and miniray/runtime.h. */
#include "runtime/process/submit_batch.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/option_struct.h"
#include "runtime/process/submit.h"

mr_status mr_batch_open(mr_context *mr, mr_batch **out) {
    MR_TRY(context_check(mr, out));
    mr_batch *group;
    MR_TRY(alloc_try(sizeof(mr_batch), &group));
    group->mr = mr;
    list_init(&group->requests);
    context_lock(mr);
    list_push_back(&mr->groups, &group->place);
    context_unlock(mr);
    *out = group;
    return MR_OK;
}

static mr_status check(const mr_batch *group) {
    return group != NULL ? context_check(group->mr, group)
                         : error_set(MR_INVALID, "batch is NULL: mr_batch_open creates one");
}

mr_status mr_batch_task(mr_batch *group, const char *name, const mr_task_options *options, const mr_arg *args,
                        size_t count, mr_ref *out) {
    mr_task_options copy;
    MR_TRY(check(group));
    OPTION_STRUCT_READ(mr_task_options, code, options, copy);
    const submission task = {name, .task_options = options, .args = args, .count = count, &group->requests, out};
    return submit_unlocked(group->mr, &task);
}

mr_status mr_batch_actor(mr_batch *group, mr_actor actor, const char *method, const mr_call_options *options,
                         const mr_arg *args, size_t count, mr_ref *out) {
    mr_call_options copy;
    MR_TRY(check(group));
    OPTION_STRUCT_READ(mr_call_options, max_retries, options, copy);
    const submission call = {method, &actor, NULL, options, args, count, &group->requests, out};
    return submit_unlocked(group->mr, &call);
}

static invocation *last_of(const mr_batch *group) {
    MR_ASSERT(!list_empty(&group->requests));
    return container_of(group->requests.prev, invocation, group);
}

void submit_batch_name_arguments(mr_batch *group, const arguments_names *names) {
    context_lock(group->mr);
    arguments_name(&last_of(group)->arguments, names);
    context_unlock(group->mr);
}

void submit_batch_hold_later_calls(mr_batch *group) {
    context_lock(group->mr);
    last_of(group)->holds = true;
    context_unlock(group->mr);
}

static void drop(mr_batch *group) {
    invocations_drop(&group->requests);
    list_remove(&group->place);
    free(group);
}

mr_status mr_batch_submit(mr_batch *group) {
    MR_TRY(check(group));
    mr_context *mr = group->mr;
    context_lock(mr);
    mr_status status = mr->worker.over == NULL ? MR_OK : failure_raise(mr->worker.over);
    if (status == MR_OK) invocations_start(&group->requests);
    drop(group);
    return context_done(mr, status);
}

void mr_batch_cancel(mr_batch *group) {
    if (group == NULL || !context_is_ours(group->mr)) return;
    mr_context *mr = group->mr;
    context_lock(mr);
    drop(group);
    context_unlock(mr);
}

void submit_batches_drop(list *groups) {
    while (!list_empty(groups)) drop(container_of(groups->next, mr_batch, place));
}
