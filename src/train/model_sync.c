/* model_sync.c — mr_model_sync and the other calls to a model server (miniray/model.h). A sync is a batch of calls that
 * this process submits without waiting, so no deadlock is possible. Calls of one process to a worker begin in order:
 * all earlier ones are in the sync, and all later ones see its result. A worker that runs several calls at a time
 * begins no later call of this process before its set_weights has ended. Tested by tests/model_sync_test.c. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/option_struct.h"
#include "miniray/model.h"
#include "runtime/process/context.h"
#include "runtime/process/submit_batch.h"
#include "train/model_path.h"
#include "train/model_server.h"
#include "train/sync_errors.h"

typedef struct model_sync { /* a sync whose calls are being submitted */
    mr_context *mr;
    mr_batch *group;
    mr_actor server;
    const mr_actor *workers;
    size_t count;
    int64_t flags;
    const char *get, *set; /* methods of the workers */
    const mr_ref *weights; /* of each worker; NULL: get_weights is called */
    mr_ref owed;
    bool is_owed;
    mr_ref *gets, *results, *sets; /* one for each worker; `results` has two more: facts and model */
    mr_ref noted;
    size_t made[4]; /* counts of gets, results, sets and noted to be released */
    mr_arg *args;
} model_sync;

/* ---- The server. */

/* Calls of the creator have the retries of the server's options; those of other processes are sent again as well. */
static int retries_of(const mr_context *mr, mr_actor server) {
    return server.word[0] == mr->worker.objects.process ? 0 : MR_NO_LIMIT;
}

/* ---- A sync. */

static mr_status model_sync_open(model_sync *sync) {
    size_t refs = 2 * sync->count + MODEL_SERVER_RETURNS(sync->count), args = sync->count + MODEL_SERVER_BEFORE_WEIGHTS;
    MR_TRY(alloc_try(args * sizeof *sync->args + refs * sizeof *sync->gets, &sync->args));
    sync->gets = (void *)(sync->args + args);
    sync->sets = sync->gets + sync->count;
    sync->results = sync->sets + sync->count;
    mr_status status = mr_batch_open(sync->mr, &sync->group);
    if (status != MR_OK) free(sync->args);
    return status;
}

static void release_all(mr_context *mr, const mr_ref *refs, size_t count) {
    sync_errors_hush(mr, refs, count); /* the future of the sync reports their failures */
    for (size_t i = 0; i < count; i++) mr_release(mr, refs[i]);
}

static void model_sync_close(model_sync *sync) { /* the submitted calls keep the intermediate results */
    release_all(sync->mr, sync->gets, sync->made[0]);
    release_all(sync->mr, sync->results, sync->made[1]);
    release_all(sync->mr, sync->sets, sync->made[2]);
    release_all(sync->mr, &sync->noted, sync->made[3]);
    if (sync->is_owed) mr_release(sync->mr, sync->owed);
    free(sync->args);
}

static mr_arg owed_of(const model_sync *sync) { return sync->is_owed ? mr_future(sync->owed) : mr_nil(); }

static mr_status add_gets(model_sync *sync) {
    if (sync->weights != NULL) memcpy(sync->gets, sync->weights, sync->count * sizeof *sync->gets);
    if (sync->weights != NULL) return MR_OK;
    for (size_t w = 0; w < sync->count; w++, sync->made[0]++)
        MR_TRY(mr_batch_actor(sync->group, sync->workers[w], sync->get, NULL, NULL, 0, &sync->gets[w]));
    return MR_OK;
}

/* The errors that aggregate and publish receive as values. */
static int taken_of(const model_sync *sync) {
    return (sync->flags & MODEL_SERVER_SKIP_DEAD) != 0 ? MR_ERRORS_PASS_DEATHS : MR_ERRORS_FAIL;
}

static mr_status add_aggregate(model_sync *sync) {
    mr_arg *args = sync->args;
    args[0] = mr_int(sync->flags);
    args[1] = owed_of(sync);
    args[2] = mr_int(clock_now_us(clock_real()));
    for (size_t w = 0; w < sync->count; w++) args[MODEL_SERVER_BEFORE_WEIGHTS + w] = mr_future(sync->gets[w]);
    mr_call_options options =
        MR_OPTIONS(mr_call_options, .num_returns = (int)MODEL_SERVER_RETURNS(sync->count),
                   .errors_as_values = taken_of(sync), .max_retries = retries_of(sync->mr, sync->server));
    MR_TRY(mr_batch_actor(sync->group, sync->server, "aggregate", &options, args,
                          MODEL_SERVER_BEFORE_WEIGHTS + sync->count, sync->results));
    submit_batch_name_arguments(sync->group, &(arguments_names){"worker", "get_weights", MODEL_SERVER_BEFORE_WEIGHTS});
    sync->made[1] = MODEL_SERVER_RETURNS(sync->count);
    return MR_OK;
}

static mr_status add_sets(model_sync *sync) {
    for (size_t w = 0; w < sync->count; w++, sync->made[2]++) {
        mr_arg result = mr_future(sync->results[w]);
        MR_TRY(mr_batch_actor(sync->group, sync->workers[w], sync->set, NULL, &result, 1, &sync->sets[w]));
        submit_batch_hold_later_calls(sync->group);
    }
    return MR_OK;
}

static mr_status add_call(model_sync *sync, const char *method, int errors_as_values, mr_ref *out) {
    for (size_t w = 0; w < sync->count; w++) sync->args[MODEL_SERVER_BEFORE_SET + w] = mr_future(sync->sets[w]);
    const mr_call_options options = MR_OPTIONS(mr_call_options, .errors_as_values = errors_as_values,
                                               .max_retries = retries_of(sync->mr, sync->server));
    MR_TRY(mr_batch_actor(sync->group, sync->server, method, &options, sync->args,
                          MODEL_SERVER_BEFORE_SET + sync->count, out));
    submit_batch_name_arguments(sync->group, &(arguments_names){"worker", "set_weights", MODEL_SERVER_BEFORE_SET});
    return MR_OK;
}

static mr_status add_end(model_sync *sync, mr_ref *out) {
    mr_arg *args = sync->args;
    args[0] = owed_of(sync);
    args[1] = mr_future(sync->results[MODEL_SERVER_FACTS(sync->count)]);
    args[2] = mr_future(sync->results[MODEL_SERVER_MODEL(sync->count)]);
    MR_TRY(add_call(sync, "publish", taken_of(sync), out));
    args[0] = mr_int(sync->flags);
    args[2] = mr_nil();
    mr_status status = add_call(sync, "note", 1, &sync->noted);
    if (status != MR_OK) mr_release(sync->mr, *out);
    sync->made[3] = status == MR_OK;
    return status;
}

static mr_status model_sync_submit(model_sync *sync, mr_ref *out) {
    mr_status status = add_gets(sync);
    if (status == MR_OK) status = add_aggregate(sync);
    if (status == MR_OK) status = add_sets(sync);
    mr_ref ended;
    if (status == MR_OK) status = add_end(sync, &ended);
    if (status != MR_OK) {
        mr_batch_cancel(sync->group);
        return status;
    }
    status = mr_batch_submit(sync->group);
    if (status == MR_OK) sync_errors_enter(sync->mr, sync->server, ended, sync->is_owed ? &sync->owed : NULL);
    if (status == MR_OK && out != NULL)
        *out = ended;
    else
        mr_release(sync->mr, ended);
    return status;
}

mr_status mr_model_sync(mr_context *mr, mr_actor server, const mr_actor *workers, size_t count,
                        const mr_sync_options *options, mr_ref *out) {
    static const mr_sync_options usual = MR_INIT(mr_sync_options);
    mr_sync_options copy;
    OPTION_STRUCT_READ(mr_sync_options, skip_dead, options, copy);
    if (options == NULL) options = &usual;
    if (workers == NULL || count == 0 || count > MODEL_SERVER_WORKERS_MAX - 2)
        return error_set(MR_INVALID, "mr_model_sync takes 1 to %d workers, not %zu", MODEL_SERVER_WORKERS_MAX - 2,
                         workers == NULL ? 0 : count);
    model_sync sync = {.mr = mr,
                       .server = server,
                       .workers = workers,
                       .count = count,
                       .flags = options->skip_dead != 0 ? MODEL_SERVER_SKIP_DEAD : 0,
                       .get = options->get_method == NULL ? "get_weights" : options->get_method,
                       .weights = options->weights,
                       .set = options->set_method == NULL ? "set_weights" : options->set_method};
    MR_TRY(model_sync_open(&sync));
    sync.is_owed = sync_errors_owes(mr, server, &sync.owed);
    mr_status status = model_sync_submit(&sync, out);
    model_sync_close(&sync);
    return status;
}

/* ---- Other calls. */

static mr_status call_server(mr_context *mr, mr_actor server, const char *method, const mr_arg *args, size_t count,
                             mr_ref *out) {
    if (mr == NULL)
        return error_set(MR_INVALID, "%s of a model server: the context is NULL; call mr_init first", method);
    const mr_call_options options = MR_OPTIONS(mr_call_options, .max_retries = retries_of(mr, server));
    return mr_actor_submit(mr, server, method, &options, args, count, out);
}

/* A pull that fails with the owed failure, as it is. */
static mr_status pull_after(mr_context *mr, mr_actor server, mr_ref owed, mr_ref *out) {
    mr_batch *group;
    mr_arg before = mr_future(owed);
    MR_TRY(mr_batch_open(mr, &group));
    const mr_call_options options = MR_OPTIONS(mr_call_options, .max_retries = retries_of(mr, server));
    mr_status status = mr_batch_actor(group, server, "pull_weights", &options, &before, 1, out);
    if (status != MR_OK) {
        mr_batch_cancel(group);
        return status;
    }
    submit_batch_name_arguments(group, &(arguments_names){"worker", "set_weights", 1});
    status = mr_batch_submit(group);
    if (status != MR_OK) mr_release(mr, *out);
    return status;
}

mr_status mr_model_pull(mr_context *mr, mr_actor server, mr_ref *out) {
    if (mr == NULL) return error_set(MR_INVALID, "mr_model_pull: the context is NULL; call mr_init first");
    mr_ref owed;
    mr_arg none = mr_nil();
    if (!sync_errors_owes(mr, server, &owed)) return call_server(mr, server, "pull_weights", &none, 1, out);
    mr_status status = pull_after(mr, server, owed, out);
    mr_release(mr, owed);
    return status;
}

mr_status mr_model_push(mr_context *mr, mr_actor server, mr_arg weights, mr_ref *out) {
    return call_server(mr, server, "push_weights", &weights, 1, out);
}

mr_status mr_model_set_weight(mr_context *mr, mr_actor server, int64_t worker, double weight, mr_ref *out) {
    return call_server(mr, server, "set_worker_weight", MR_ARGS(mr_int(worker), mr_float(weight)), out);
}

mr_status mr_model_save(mr_context *mr, mr_actor server, const char *path, mr_ref *out) {
    char absolute[PATH_MAX];
    MR_TRY(model_path_resolve(path, absolute));
    const mr_arg folder = mr_str(absolute);
    return call_server(mr, server, "save", &folder, 1, out);
}

mr_status mr_model_stats(mr_context *mr, mr_actor server, mr_ref *out) {
    return call_server(mr, server, "get_stats", NULL, 0, out);
}
