/* trainer_workers.c — see trainer_workers.h. */
#include "train/trainer_workers.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

mr_status trainer_workers_create(mr_context *mr, const mr_trainer_options *options, trainer_workers **out) {
    trainer_workers *workers;
    if (options->num_workers > SIZE_MAX / 64)
        return error_set(MR_TOO_LARGE, "num_workers is %zu; the limit is %zu", options->num_workers, SIZE_MAX / 64);
    MR_TRY(alloc_try(sizeof *workers + options->num_workers * sizeof workers->actors[0], &workers));
    workers->mr = mr;
    workers->options = options;
    *out = workers;
    return MR_OK;
}

void trainer_workers_destroy(trainer_workers *workers) {
    if (workers == NULL) return;
    for (size_t i = 0; i < workers->made; i++) mr_actor_release(workers->mr, workers->actors[i]);
    if (workers->has_server) mr_actor_release(workers->mr, workers->server);
    free(workers);
}

/* ---- The operations. */

static mr_status need_server(trainer_workers *workers) {
    if (workers->has_server) return MR_OK;
    MR_TRY(mr_model_server_create(workers->mr, workers->options->strategy, NULL, &workers->server));
    workers->has_server = true;
    return MR_OK;
}

static mr_status create(void *user, size_t worker) {
    trainer_workers *workers = user;
    const mr_trainer_options *options = workers->options;
    mr_actor made;
    mr_arg *args;
    MR_TRY(need_server(workers));
    MR_TRY(alloc_try((options->arg_count + 1) * sizeof *args, &args));
    args[0] = mr_int((int64_t)worker);
    for (size_t i = 0; i < options->arg_count; i++) args[i + 1] = options->args[i];
    mr_status status = mr_actor_create(workers->mr, options->worker_class, options->worker_options, args,
                                       options->arg_count + 1, &made);
    free(args);
    if (status != MR_OK) return error_wrap(status, "worker %zu", worker);
    if (worker < workers->made)
        mr_actor_release(workers->mr, workers->actors[worker]);
    else
        workers->made = worker + 1;
    workers->actors[worker] = made;
    return MR_OK;
}

static mr_status load(void *user, size_t worker, mr_ref *out) {
    trainer_workers *workers = user;
    return mr_call_actor(workers->mr, workers->actors[worker], "load_data_shard", out, mr_int((int64_t)worker),
                         mr_int((int64_t)workers->options->num_workers));
}

static mr_status train(void *user, size_t worker, int64_t epoch, mr_ref *out) {
    trainer_workers *workers = user;
    return mr_call_actor(workers->mr, workers->actors[worker], "train_epoch", out, mr_int(epoch));
}

static mr_status gather(void *user, size_t worker, mr_ref *out) {
    trainer_workers *workers = user;
    return mr_call_actor(workers->mr, workers->actors[worker], "get_weights", out);
}

static mr_status sync(void *user, const mr_ref *weights, mr_ref *out) {
    trainer_workers *workers = user;
    mr_sync_options options = MR_OPTIONS(mr_sync_options, .weights = weights);
    return mr_model_sync(workers->mr, workers->server, workers->actors, workers->made, &options, out);
}

static mr_status restore(void *user, size_t worker, mr_ref *out) {
    trainer_workers *workers = user;
    mr_ref weights;
    mr_value value;
    MR_TRY(mr_model_pull(workers->mr, workers->server, &weights));
    mr_status status = mr_get(workers->mr, weights, MR_FOREVER, &value);
    if (status == MR_OK) {
        status = mr_value_kind(&value) == MR_KIND_NIL ? MR_END : MR_OK;
        mr_value_release(&value);
    }
    if (status == MR_OK)
        status = mr_call_actor(workers->mr, workers->actors[worker], "set_weights", out, mr_future(weights));
    mr_release(workers->mr, weights);
    return status;
}

const mr_trainer_ops trainer_workers_ops = {.size = sizeof(mr_trainer_ops),
                                            .create = create,
                                            .load = load,
                                            .train = train,
                                            .alive = gather, /* any call that the worker answers */
                                            .gather = gather,
                                            .sync = sync,
                                            .restore = restore};
