/* miniray/model.h — models that were trained apart, made into one.
 *
 * A model is a list of tensors, in any shapes and dtypes, the same for every worker. Floats are aggregated, in one pass
 * over memory and on all cores; integers and bools (counters, masks) are the first worker's. fp16 and bf16 are summed
 * in fp32 and rounded once. Workers count in their order, so the same models give the same bits, whatever the machine,
 * the compiler and the number of cores. A NaN of any worker is a NaN in the result.
 *
 *     const mr_tensor *models[] = {mine, yours};
 *     mr_aggregate(&(mr_strategy){.name = "median"}, models, 2, count, NULL, results);
 */
#pragma once
#include "miniray/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_strategy { /* zeroed: the average */
    const char *name;        /* NULL: "average"; "weighted", "momentum", "median", "trimmed_mean", "max" */
    const double *weights;   /* weighted: one for each worker, that add up to more than 0; NULL: all the same */
    double momentum;         /* momentum: how much of the old model stays, below 1; 0 means 0.9, < 0 nothing */
    double trim; /* trimmed_mean: the share of the workers left out at each end, below 0.5; 0 means 0.1, < 0 none */
} mr_strategy;

MR_API const char *mr_strategy_names(void); /* static: "average, weighted, …" */

/* models: one list of `count` tensors for each of the workers. previous: the model before, of momentum; NULL: there is
 * none, and the first one is the average. out: where the tensors of the result go, each as large as the workers'; it
 * may be one of theirs, or the previous one's.
 *
 * MR_INVALID: an unknown strategy or a wrong option, no workers, or tensors that do not match (the text says which of
 * whom). MR_NOMEM. Nothing was written then. */
MR_API MR_MUST mr_status mr_aggregate(const mr_strategy *strategy, const mr_tensor *const *models, size_t workers,
                                      size_t count, const mr_tensor *previous, void *const *out);

/* ---- A server that keeps the model of a training, and hands it to all its workers: an actor of the class
 * "miniray.ModelServer", which every process with this library has, whatever its language.
 *
 *     mr_model_server_create(mr, NULL, NULL, &server);
 *     for (…) {
 *         … mr_call_actor(mr, workers[i], "train", …)
 *         mr_model_sync(mr, server, workers, count, NULL, NULL);
 *     }
 *
 * A worker is any actor with the methods get_weights() and set_weights(weights). Weights are a list of tensors, or a
 * map of them (a state_dict), or lists and maps inside of each other; what else is inside is the first worker's.
 *
 * A sync is get_weights of each worker, the aggregation, and set_weights of each. All of these are calls that the
 * caller makes, as one group; none of them blocks. So everything that the caller asked of a worker before is in the
 * sync, and everything after it sees the result, whether or not he waits in between. The version of the model is 0, and
 * one more with each sync that all workers have taken, and each push. A sync is in the model as a whole or not at all,
 * also if the caller dies.
 *
 * An error of a sync is never lost: if its future was released and nobody looked, it is printed once, and the caller's
 * next sync or pull fails with it. The server keeps its text (last_error). */

/* Weights of a strategy are not looked at: mr_model_set_weight sets them. MR_INVALID: there is no such strategy. */
MR_API MR_MUST mr_status mr_model_server_create(mr_context *mr, const mr_strategy *strategy,
                                                const mr_task_options *options, mr_actor *out);

typedef struct mr_sync_options {         /* zeroed: the usual */
    int skip_dead;                       /* workers that have died are left out; else the sync fails */
    const char *get_method, *set_method; /* of the workers; NULL: "get_weights", "set_weights" */
} mr_sync_options;

/* The worker's number is its place in the list. The future gives the new version, when every set_weights has returned.
 * NULL for `out`: nobody waits. MR_INVALID: no workers. */
MR_API MR_MUST mr_status mr_model_sync(mr_context *mr, mr_actor server, const mr_actor *workers, size_t count,
                                       const mr_sync_options *options, mr_ref *out);
/* The model, as the first worker sent it; nil before the first sync or push. */
MR_API MR_MUST mr_status mr_model_pull(mr_context *mr, mr_actor server, mr_ref *out);
/* These weights are the model, from now on; workers get it with the next sync's result only through the strategy. The
 * future gives the version. */
MR_API MR_MUST mr_status mr_model_push(mr_context *mr, mr_actor server, mr_arg weights, mr_ref *out);
/* Of the strategy "weighted". What was not set is 1. If they add up to 0 or less, syncs fail: MR_INVALID. */
MR_API MR_MUST mr_status mr_model_set_weight(mr_context *mr, mr_actor server, int64_t worker, double weight,
                                             mr_ref *out);
/* A map: version, num_syncs, strategy ("AverageStrategy"), initialized, bytes (of one model), gather_s, aggregate_s and
 * scatter_s (of the last sync), last_error (a text, or nil). */
MR_API MR_MUST mr_status mr_model_stats(mr_context *mr, mr_actor server, mr_ref *out);

#ifdef __cplusplus
}
#endif
