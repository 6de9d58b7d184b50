/* submit.c — see submit.h. Tested by tests/runtime_task_test.c. */
#include "runtime/process/submit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "miniray/placement.h"
#include "runtime/common/task_registry.h"
#include "runtime/process/large_args.h"

enum { TASK_RETRIES = 3, LOOK_EVERY = 32, RETURNS_FEW = 4, RETURNS_MAX = UINT16_MAX };

/* ---- Checking. */

mr_status submit_check_name(const char *what, const char *name) {
    if (name == NULL || name[0] == '\0') return error_set(MR_INVALID, "the name of a %s is empty", what);
    if (strlen(name) > WIRE_NAME_MAX)
        return error_set(MR_INVALID, "the name of a %s is %zu bytes long; the limit is %d", what, strlen(name),
                         WIRE_NAME_MAX);
    return MR_OK;
}

mr_status submit_check_args(const mr_arg *args, size_t count) {
    if (args == NULL && count > 0) return error_set(MR_INVALID, "`args` is NULL, but `count` is %zu", count);
    if (count > VALUE_PACK_VALUES_MAX)
        return error_set(MR_TOO_LARGE, "%zu arguments; a call takes at most %d", count, VALUE_PACK_VALUES_MAX);
    return MR_OK;
}

mr_status submit_read_need(double num_cpus, double num_gpus, const char *names, mr_placement_group group, int bundle,
                           resources *out) {
    memset(out, 0, sizeof *out);
    mr_status status = resources_set(out, "cpu", num_cpus);
    if (status != MR_OK) return error_wrap(status, "num_cpus is %g", num_cpus);
    status = resources_set(out, "gpu", num_gpus);
    if (status != MR_OK) return error_wrap(status, "num_gpus is %g", num_gpus);
    if (bundle < 0 || bundle > MR_BUNDLES_MAX)
        return error_set(MR_INVALID, "bundle is %d; must be 1 to %d, or 0 for any bundle", bundle, MR_BUNDLES_MAX);
    out->group = wire_group_key(group);
    out->bundle = out->group == 0 ? 0 : (uint32_t)bundle;
    if (names == NULL) return MR_OK;
    status = resources_parse(out, names);
    return status == MR_OK ? MR_OK : error_wrap(status, "resources is \"%.80s\"", names);
}

typedef struct results_wanted { /* options of both tasks and calls */
    int count, ahead, errors;
} results_wanted;

static mr_status check_results(const results_wanted *wanted, invocation_plan *plan, const mr_ref *out) {
    static const arguments_errors errors[] = {[MR_ERRORS_FAIL] = ARGUMENTS_FAIL,
                                              [MR_ERRORS_PASS] = ARGUMENTS_TAKE,
                                              [MR_ERRORS_PASS_DEATHS] = ARGUMENTS_TAKE_DEATHS};
    plan->streams = wanted->count == MR_STREAM;
    if (!plan->streams && (wanted->count < 0 || wanted->count > RETURNS_MAX))
        return error_set(MR_INVALID, "num_returns is %d: 1 to %d, 0 for 1, or MR_STREAM", wanted->count, RETURNS_MAX);
    if (wanted->ahead < 0 || wanted->ahead > STREAM_AHEAD_MAX)
        return error_set(MR_INVALID, "stream_ahead is %d: 1 to %d, or 0 for %d", wanted->ahead, STREAM_AHEAD_MAX,
                         STREAM_AHEAD);
    if (wanted->errors < MR_ERRORS_FAIL || wanted->errors > MR_ERRORS_PASS_DEATHS)
        return error_set(MR_INVALID, "errors_as_values is %d: MR_ERRORS_FAIL, MR_ERRORS_PASS or MR_ERRORS_PASS_DEATHS",
                         wanted->errors);
    if (plan->streams && (out == NULL || plan->group != NULL))
        return error_set(MR_INVALID, "num_returns is MR_STREAM, but %s",
                         out == NULL ? "`out` is NULL" : "a batch cannot contain streams");
    plan->errors = errors[wanted->errors];
    return MR_OK;
}

/* ---- Submitting. */

typedef struct outputs { /* result objects of a call */
    object *few[RETURNS_FEW], **all;
    uint32_t count;
} outputs;

static void outputs_fini(outputs *outputs) {
    if (outputs->all != outputs->few) free(outputs->all);
}

/* Drops result objects that the program does not get. */
static void outputs_drop(mr_context *mr, outputs *outputs) {
    for (uint32_t i = 0; i < outputs->count; i++) {
        outputs->all[i]->seen = true;
        outputs->all[i]->maker = NULL;
        object_unname(&mr->worker.objects, outputs->all[i]);
        object_drop(&mr->worker.objects, outputs->all[i]);
    }
}

static mr_status outputs_several(mr_context *mr, outputs *outputs, uint32_t wanted, bool named) {
    outputs->all = outputs->few;
    if (wanted > RETURNS_FEW) MR_TRY(alloc_try(wanted * sizeof(object *), &outputs->all));
    for (outputs->count = 0; outputs->count < wanted; outputs->count++) {
        object *made = object_create(&mr->worker.objects, named);
        if (made == NULL) {
            outputs_drop(mr, outputs);
            outputs_fini(outputs);
            return MR_NOMEM;
        }
        outputs->all[outputs->count] = made;
    }
    return MR_OK;
}

static inline mr_status outputs_init(mr_context *mr, outputs *outputs, const results_wanted *wanted, bool named) {
    if (wanted->count > 1) return outputs_several(mr, outputs, (uint32_t)wanted->count, named);
    outputs->all = outputs->few; /* one result, the usual case */
    outputs->few[0] = object_create(&mr->worker.objects, named);
    outputs->count = 1;
    if (outputs->few[0] == NULL) return MR_NOMEM;
    if (wanted->count != MR_STREAM) return MR_OK;
    uint32_t ahead = wanted->ahead == 0 ? STREAM_AHEAD : (uint32_t)wanted->ahead;
    mr_status status = stream_reader_open(&mr->worker.readers, outputs->few[0], ahead);
    if (status != MR_OK) outputs_drop(mr, outputs);
    return status;
}

/* Polls for answers: a program that only submits receives its answers, too. */
static inline void look_sometimes(mr_context *mr) {
    if (++mr->submitted % LOOK_EVERY == 0) context_look(mr);
}

/* Gives the references to the program, or drops them if the submission failed. */
static inline mr_status hand_out(mr_context *mr, outputs *outputs, mr_status status, mr_ref *out) {
    if (status != MR_OK) outputs_drop(mr, outputs);
    for (uint32_t i = 0; status == MR_OK && out != NULL && i < outputs->count; i++)
        out[i] = (mr_ref){{mr->worker.objects.process, outputs->all[i]->ref.word[1]}}; /* its ref, as two words */
    outputs_fini(outputs);
    look_sometimes(mr);
    return status;
}

/* Returns the interned name, with a reference. A known name was checked before. */
static inline mr_status name_of(mr_context *mr, const char *what, const char *text, span code, interned_name **out) {
    interned_name *found = text == NULL ? NULL : name_table_recall(&mr->worker.names, text, code);
    if (found == NULL) {
        MR_TRY(submit_check_name(what, text));
        found = name_table_get_text(&mr->worker.names, text, code);
        if (found == NULL) return MR_NOMEM;
    }
    *out = found;
    return MR_OK;
}

static mr_status task_name_of(mr_context *mr, const char *text, mr_span code, interned_name **out) {
    if (code.size > MR_CODE_MAX || (code.data == NULL && code.size > 0))
        return error_set(MR_INVALID, "the code of task '%s' is %zu bytes; the limit is %d", text == NULL ? "" : text,
                         code.size, MR_CODE_MAX);
    interned_name *found;
    MR_TRY(name_of(mr, "task", text, span_of(code.data, code.size), &found));
    if (!found->task_known) found->task = task_registry_task(found->text, found->size);
    found->task_known = true;
    *out = found;
    if (found->task != NULL) return MR_OK;
    interned_name_unref(found);
    char known[400];
    task_registry_tasks_text(known, sizeof known);
    return error_set(MR_NOT_FOUND, "unknown task '%s'; registered tasks: %s", text, known[0] != '\0' ? known : "none");
}

static bool needs_one_cpu(const mr_task_options *options) {
    return options->num_cpus == 0 && options->num_gpus == 0 && options->resources == NULL && options->bundle == 0 &&
           wire_group_key(options->placement_group) == 0;
}

static int retries_of(const mr_task_options *options) {
    return options->max_retries == 0 ? TASK_RETRIES : options->max_retries < 0 ? 0 : options->max_retries;
}

/* Whether tasks_submit_straight supports all options. */
static bool are_usual(const mr_task_options *options) {
    return (options->num_returns == 0 || options->num_returns == 1) && options->max_calls == 0 &&
           options->errors_as_values == 0 && (unsigned)options->stream_ahead <= STREAM_AHEAD_MAX &&
           needs_one_cpu(options) && (options->code.size == 0 || options->code.data != NULL);
}

/* Ends the fast path, and releases the name. False: the fast path does not apply (`result` is NULL). */
static inline bool end_straight(mr_context *mr, interned_name *name, const object *result, mr_ref *out) {
    interned_name_unref(name);
    if (__builtin_expect(result == NULL, 0)) return false;
    *out = (mr_ref){{mr->worker.objects.process, result->ref.word[1]}};
    look_sometimes(mr);
    return true;
}

bool submit_task_straight(mr_context *mr, const char *text, const mr_task_options *options, const mr_arg *args,
                          size_t count, mr_ref *out) {
    if (out == NULL || text == NULL || (options != NULL && !are_usual(options))) return false;
    span code = options == NULL ? (span){0} : span_of(options->code.data, options->code.size);
    interned_name *name = name_table_recall(&mr->worker.names, text, code);
    if (name == NULL) return false;
    int retries = options == NULL ? TASK_RETRIES : retries_of(options);
    tasks *tasks = &mr->worker.tasks;
    struct lease *lease = name->task_known && name->task != NULL ? tasks_foresee(tasks, name, retries) : NULL;
    const object *result = lease == NULL ? NULL : tasks_submit_straight(tasks, lease, name, args, count, retries);
    return end_straight(mr, name, result, out);
}

/* Submits a task or call whose options were read into the plan. */
static mr_status submit_planned(mr_context *mr, const submission *submission, const results_wanted *wanted,
                                task_plan *plan) {
    outputs outputs;
    mr_status status = outputs_init(mr, &outputs, wanted, submission->out != NULL);
    if (status == MR_OK) {
        plan->request.results = outputs.all;
        plan->request.returns = (uint16_t)outputs.count;
        status = submission->actor == NULL
                     ? tasks_submit(&mr->worker.tasks, plan)
                     : actors_submit(&mr->worker.actors, *submission->actor, &plan->request, plan->retries);
        status = hand_out(mr, &outputs, status, submission->out);
    }
    interned_name_unref(plan->request.name);
    return status;
}

static mr_status submit_task(mr_context *mr, const submission *submission, task_plan *plan) {
    static const mr_task_options usual = MR_INIT(mr_task_options);
    const mr_task_options *options = submission->task_options == NULL ? &usual : submission->task_options;
    const results_wanted wanted = {options->num_returns, options->stream_ahead, options->errors_as_values};
    resources need;
    plan->retries = retries_of(options);
    plan->calls_max = (uint32_t)options->max_calls;
    if (options->max_calls < 0)
        return error_set(MR_INVALID, "max_calls is %d: 1 or more, or 0 for no limit", options->max_calls);
    if (!needs_one_cpu(options)) {
        double cpus = options->num_cpus == 0 ? 1 : options->num_cpus < 0 ? 0 : options->num_cpus;
        MR_TRY(submit_read_need(cpus, options->num_gpus, options->resources, options->placement_group, options->bundle,
                                &need));
        plan->need = &need;
    }
    MR_TRY(submit_check_args(plan->request.args, plan->request.count));
    MR_TRY(check_results(&wanted, &plan->request, submission->out));
    MR_TRY(task_name_of(mr, submission->name, options->code, &plan->request.name));
    return submit_planned(mr, submission, &wanted, plan);
}

static mr_status submit_call(mr_context *mr, const submission *submission, task_plan *plan) {
    static const mr_call_options usual = MR_INIT(mr_call_options);
    const mr_call_options *options = submission->call_options == NULL ? &usual : submission->call_options;
    const results_wanted wanted = {options->num_returns, options->stream_ahead, options->errors_as_values};
    plan->retries = options->max_retries == 0 ? -1 : options->max_retries < 0 ? 0 : options->max_retries;
    MR_TRY(check_results(&wanted, &plan->request, submission->out));
    MR_TRY(submit_check_args(plan->request.args, plan->request.count));
    MR_TRY(name_of(mr, "method", submission->name, (span){0}, &plan->request.name));
    return submit_planned(mr, submission, &wanted, plan);
}

static mr_status submit_locked(mr_context *mr, const submission *submission, const mr_arg *args) {
    task_plan plan = {.request = {.args = args, .count = submission->count, .group = submission->group}};
    return submission->actor == NULL ? submit_task(mr, submission, &plan) : submit_call(mr, submission, &plan);
}

mr_status submit_unlocked(mr_context *mr, const submission *submission) {
    large_args large;
    MR_TRY(large_args_put(mr, submission->args, submission->count, &large));
    context_lock(mr);
    mr_status status = submit_locked(mr, submission, large.args);
    context_unlock(mr);
    large_args_release(mr, &large);
    return status;
}

mr_status submit_and_unlock(mr_context *mr, const submission *submission) {
    if (!large_args_any(submission->args, submission->count))
        return context_done(mr, submit_locked(mr, submission, submission->args));
    context_unlock(mr);
    return submit_unlocked(mr, submission);
}

bool submit_call_straight(mr_context *mr, mr_actor actor, const char *method, const mr_arg *args, size_t count,
                          mr_ref *out) {
    actors_foresee(&mr->worker.actors, actor);
    interned_name *name =
        out == NULL || method == NULL ? NULL : name_table_recall(&mr->worker.names, method, (span){0});
    if (name == NULL) return false;
    return end_straight(mr, name, actors_submit_straight(&mr->worker.actors, actor, name, args, count), out);
}
