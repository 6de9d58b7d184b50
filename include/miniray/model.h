/* miniray/model.h — models that were trained apart, made into one.
 *
 * A model is a list of tensors, in any shapes and dtypes, the same for every worker. Floats are aggregated, in one pass
 * over memory and on all cores; integers and bools (counters, masks) are the first worker's. fp16 and bf16 are summed
 * in fp32 and rounded once. Workers count in their order, so the same models give the same bits, whatever the machine,
 * the compiler and the number of cores. A NaN of any worker is a NaN in the result.
 *
 *     const mr_tensor *models[] = {mine, yours};
 *     mr_aggregate(&(mr_sync_strategy){.name = "median"}, models, 2, count, NULL, results);
 */
#pragma once
#include "miniray/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_sync_strategy { /* zeroed: the average */
    const char *name;             /* NULL: "average"; "weighted", "momentum", "median", "trimmed_mean", "max" */
    const double *weights;        /* weighted: one for each worker, that add up to more than 0; NULL: all the same */
    double momentum;              /* momentum: how much of the old model stays, below 1; 0 means 0.9, < 0 nothing */
    double trim; /* trimmed_mean: the share of the workers left out at each end, below 0.5; 0 means 0.1, < 0 none */
} mr_sync_strategy;

MR_API const char *mr_sync_strategy_names(void); /* static: "average, weighted, …" */

/* models: one list of `count` tensors for each of the workers. previous: the model before, of momentum; NULL: there is
 * none, and the first one is the average. out: where the tensors of the result go, each as large as the workers'; it
 * may be one of theirs, or the previous one's.
 *
 * MR_INVALID: an unknown strategy or a wrong option, no workers, or tensors that do not match (the text says which of
 * whom). MR_NOMEM. Nothing was written then. */
MR_API MR_MUST mr_status mr_aggregate(const mr_sync_strategy *strategy, const mr_tensor *const *models, size_t workers,
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
MR_API MR_MUST mr_status mr_model_server_create(mr_context *mr, const mr_sync_strategy *strategy,
                                                const mr_task_options *options, mr_actor *out);

typedef struct mr_sync_options {         /* zeroed: the usual */
    int skip_dead;                       /* workers that have died are left out; else the sync fails */
    const char *get_method, *set_method; /* of the workers; NULL: "get_weights", "set_weights" */
    const mr_ref
        *weights; /* what get_method of each has given, or will: it is not called then; borrowed. NULL: it is */
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

/* ---- A model that lies in shared memory: a sync aggregates it where it is, and nobody copies it to anybody.
 *
 *     mr_shared_model_open(mr, bytes, &share);                    one block for all tensors of the model
 *     float *weights = mr_shared_model_data(share); … and the worker trains there; the place never changes
 *     MR_METHOD(Worker, lend_weights) { return mr_shared_model_return(call, share, tensors, count); }
 *     MR_METHOD(Worker, take_weights) { … mr_shared_model_apply(share, &weights, &taken); … }
 *     mr_model_sync(mr, server, workers, count, &(mr_sync_options){.get_method = "lend_weights", .set_method =
 *                   "take_weights"}, …);
 *
 * There are two of each byte: the worker has one of them, a sync writes the other, and when that is whole the worker
 * changes over, at once and at the same address. So whoever dies meanwhile, the worker's model is all of the old
 * version or all of the new one. What the worker, or a thread of it, writes between lending and taking is lost, as with
 * copies, but a part of it may be in the sync. Anything else that is returned, pulled or passed on is a copy, as ever.
 *
 * A worker lends to one sync at a time: who asks while another one is being written gets a copy, and what was lent
 * twice can be taken only by the later one; the earlier sync fails (MR_BUSY). One thread at a time, for each share. */

typedef struct mr_shared_model mr_shared_model; /* opaque */

/* What is in it at first, nobody knows. MR_INVALID: of 0 bytes. MR_NOMEM, MR_TOO_LARGE: it takes twice the bytes of the
 * store. MR_CLOSED: this process has none. */
MR_API MR_MUST mr_status mr_shared_model_open(mr_context *mr, size_t bytes, mr_shared_model **out);
MR_API void
mr_shared_model_close(mr_shared_model *share); /* what lay in it is gone; also after mr_shutdown. NULL is fine */
MR_API void *mr_shared_model_data(const mr_shared_model *share); /* on a page */

/* In the body of a method: a list of these tensors, lent if each of them lies in the share, else copied. Bytes of the
 * share that are in none of them stay as they are. */
MR_API MR_MUST mr_status mr_shared_model_return(mr_call *call, mr_shared_model *share, const mr_tensor *tensors,
                                                size_t count);
/* What a sync brought: true for *taken, and the model is the new one; false: it is not this share's, but weights to be
 * copied. MR_BUSY: it was lent to another sync meanwhile. */
MR_API MR_MUST mr_status mr_shared_model_apply(mr_shared_model *share, const mr_value *weights, bool *taken);

/* The same for who puts the value together himself: if each tensor of `weights`, a tree of lists, tuples and maps, lies
 * in the share, *out is what is to be returned in its place; borrowed from the share, until the next loan, and from
 * what `weights` points to. MR_BUSY: another sync writes the model just now; MR_INVALID: some of it lies elsewhere,
 * there is no tensor in it, or one has more than MR_TENSOR_DIMS_MAX - 2 dimensions. A copy has to do then. */
#define MR_SHARED_MODEL_MARK "miniray.loan"
MR_API MR_MUST mr_status mr_shared_model_export(mr_shared_model *share, mr_arg weights, mr_arg *out);
/* As mr_shared_model_apply: set_weights then gets the tuple (MR_SHARED_MODEL_MARK, ticket, place). */
MR_API MR_MUST mr_status mr_shared_model_import(mr_shared_model *share, int64_t ticket, int64_t place, bool *taken);

/* ---- A worker that keeps its model elsewhere may lend a copy of it. That is what it would send, but it lies in a
 * place that the worker has for good: nothing but word of it goes to the server, and nobody has to be told when it
 * was read. A sync of a small model is mostly messages; a large one is sent.
 *
 *     MR_METHOD(Worker, lend_weights) {
 *         … return mr_return(call, mr_model_copy_export(tray, call, weights, &lent) == MR_OK ? lent : weights);
 *     }
 *
 * The result comes as it does to who has sent his: set_weights gets it. Who lends makes way (mr_yield_cpu) for the
 * other workers of the sync; a set_weights may do so, too. */

typedef struct mr_model_copy mr_model_copy; /* opaque; one thread at a time */

MR_API MR_MUST mr_status mr_model_copy_open(mr_context *mr, mr_model_copy **out);
MR_API void mr_model_copy_close(mr_model_copy *tray); /* also after mr_shutdown. NULL is fine */
/* The tensors of `weights`, a tree of lists, tuples and maps, are copied, and *out is what this call, of a method that
 * mr_model_sync calls, is to return in its place; nothing else may take it. It is borrowed from the tray, until the
 * next loan, and from what `weights` points to. What was lent for a sync that failed is taken back when its caller asks
 * again, or is gone. MR_INVALID: it is too small or too large for that, or no such tree; MR_BUSY: others have yet to
 * read what was lent to them; MR_NOMEM, MR_CLOSED. It has to be sent then. */
MR_API MR_MUST mr_status mr_model_copy_export(mr_model_copy *tray, mr_call *call, mr_arg weights, mr_arg *out);

#ifdef __cplusplus
}
#endif
