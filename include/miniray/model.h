/* miniray/model.h — models: aggregating what workers trained separately, and training on a parameter server.
 *
 * A model is a list of tensors, of any shapes and dtypes, the same for every worker. Floats are aggregated in one pass
 * over memory, on all cores; integers and bools (counters, masks) are those of the first worker. fp16 and bf16 are
 * summed in fp32 and rounded once. Workers are summed in their order: the same models give the same bits on every
 * machine, with every compiler and every number of cores. A NaN of any worker is a NaN in the result.
 *
 *     const mr_tensor *models[] = {mine, yours};
 *     mr_aggregate(&MR_OPTIONS(mr_sync_strategy, .name = "median"), models, 2, count, NULL, results);
 */
#pragma once
#include "miniray/ps.h"
#include "miniray/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_sync_strategy {
    size_t size;
    const char *name;      /* "average", "weighted", "momentum", "median", "trimmed_mean", "max" ["average"] */
    const double *weights; /* weighted: one for each worker; their sum is above 0 [all equal] */
    double momentum;       /* momentum: share of the old model that stays, below 1 [0.9]; negative: none */
    double trim;           /* trimmed_mean: share of workers left out at each end, below 0.5 [0.1]; negative: none */
} mr_sync_strategy;

MR_API const char *mr_sync_strategy_names(void); /* static: "average, weighted, …" */

/* models: for each worker a list of `count` tensors. previous: the model before, for momentum; NULL: none, and the
 * first result is the average. out: where the tensors of the result are written, each as large as the workers'; they
 * may be the tensors of one worker or of `previous`.
 *
 * MR_INVALID: an unknown strategy, a wrong option, no workers, or tensors that do not match (the error names tensor
 * and worker). MR_NOMEM. After an error nothing was written. */
MR_API MR_MUST mr_status mr_aggregate(const mr_sync_strategy *strategy, const mr_tensor *const *models, size_t workers,
                                      size_t count, const mr_tensor *previous, void *const *out);

/* ---- The model server: an actor of the class "miniray.ModelServer" that holds the model of a training and
 * distributes it to the workers. Every process with this library has the class, in every language.
 *
 *     mr_model_server_create(mr, NULL, NULL, &server);
 *     for (…) {
 *         … mr_call_actor(mr, workers[i], "train", …)
 *         mr_model_sync(mr, server, workers, count, NULL, NULL);
 *     }
 *
 * A worker is any actor with the methods get_weights() and set_weights(weights). Weights are a list of tensors, a
 * map of tensors (a state_dict), or lists and maps nested in each other; any other value in them is the first
 * worker's.
 *
 * A sync calls get_weights of each worker, aggregates, and calls set_weights of each worker. All of these are calls
 * of the caller, submitted as one batch; the sync does not block. Therefore every call that the caller made before
 * is in the sync, and every later call sees its result, without waiting in between. The version of the model begins
 * at 0 and grows by 1 with each push and each sync that all workers have applied. A sync changes the model as a
 * whole or not at all, also if the caller dies.
 *
 * The server survives the death of its process: the node has the model, its version, the counts, the weights of workers
 * and the last error, the next process continues from them, and calls that were lost are sent again. A sync in progress
 * ends with the same bits, and counts once.
 *
 * An error of a sync is reported even if its future was released: it is printed once, and the caller's next sync or
 * pull fails with it. The server keeps its text (last_error). */

/* `weights` of the strategy are ignored: mr_model_set_weight sets them. Of `options`, max_restarts and max_call_retries
 * are as many as needed [MR_NO_LIMIT]; negative: none. MR_INVALID: no such strategy. */
MR_API MR_MUST mr_status mr_model_server_create(mr_context *mr, const mr_sync_strategy *strategy,
                                                const mr_actor_options *options, mr_actor *out);

/* ---- Checkpoints: a folder with the model in a safetensors file and a manifest with its checksum. A new checkpoint
 * replaces the one before when it is complete on the disk, so a process or a machine that ends at any instant leaves a
 * whole one. */

typedef struct mr_checkpoint_options { /* relative paths are those of this process */
    size_t size;
    const char *restore;        /* the server begins with everything from this checkpoint [none] */
    const char *checkpoint_dir; /* the server saves here, and begins with the checkpoint that is here [none] */
    double checkpoint_every;    /* seconds between two checkpoints, if the model has changed [30] */
    int resume;                 /* negative: moves the checkpoint in checkpoint_dir into its folder old-1, old-2, … */
} mr_checkpoint_options;

/* As mr_model_server_create. A strategy without a name, and its fields that are 0, are those of the checkpoint.
 * MR_INVALID: the strategy or a field contradicts the checkpoint, or both `restore` and a checkpoint in checkpoint_dir
 * exist. MR_NOT_FOUND: `restore` has no checkpoint. MR_CORRUPT: a checkpoint is damaged or of another release. */
MR_API MR_MUST mr_status mr_model_server_open(mr_context *mr, const mr_sync_strategy *strategy,
                                              const mr_checkpoint_options *checkpoints, const mr_actor_options *options,
                                              mr_actor *out);
/* Saves the model now as a checkpoint in the folder `path`, relative to this process. The future's value is the
 * absolute path, when the checkpoint is on the disk. */
MR_API MR_MUST mr_status mr_model_save(mr_context *mr, mr_actor server, const char *path, mr_ref *out);

/* For servers of strategies in other languages. */
typedef struct mr_model_checkpoint {
    char strategy[128]; /* "momentum"; of a custom strategy the name of its class */
    double momentum, trim;
    uint64_t version, num_syncs;
    const double *weights; /* borrowed; of workers 0…weight_count - 1; NAN: not set */
    size_t weight_count;
    mr_span state; /* borrowed; of a custom strategy */
} mr_model_checkpoint;

/* Writes a checkpoint of a model: nil or a tree of tensors. MR_INVALID: the tree cannot be saved. */
MR_API MR_MUST mr_status mr_model_checkpoint_write(const char *folder, const mr_model_checkpoint *checkpoint,
                                                   const mr_value *model);
/* Reads strategy, momentum, trim, version and num_syncs; the rest is 0. Errors as mr_model_server_open. */
MR_API MR_MUST mr_status mr_model_checkpoint_peek(const char *folder, mr_model_checkpoint *out);
/* Puts the model, and the list of weights and state, both bytes, into objects. */
MR_API MR_MUST mr_status mr_model_checkpoint_read(mr_context *mr, const char *folder, mr_ref *model, mr_ref *lists);
/* Moves the checkpoint in a folder, if there is one, into the folder's folder old-1, or the next free number. */
MR_API MR_MUST mr_status mr_model_checkpoint_set_aside(const char *folder);

/* A thread that writes the first version that it is offered at once, then the newest one every `every_s` seconds. A
 * write that fails is a warning. */
typedef struct mr_model_saver mr_model_saver; /* opaque */
MR_API MR_MUST mr_status mr_model_saver_open(const char *folder, double every_s, mr_model_saver **out);
/* The checkpoint is copied; the model is moved, also after an error. */
MR_API MR_MUST mr_status mr_model_saver_offer(mr_model_saver *saver, const mr_model_checkpoint *checkpoint,
                                              mr_value model);
MR_API void mr_model_saver_close(mr_model_saver *saver); /* writes what waits; NULL is a no-op */

/* ---- Syncs. */

typedef struct mr_sync_options {
    size_t size;
    const char *get_method, *set_method; /* of the workers ["get_weights", "set_weights"] */
    const mr_ref *weights; /* results of get_method, one for each worker, which is then not called [it is called] */
    int skip_dead;         /* 1: leaves dead workers out [0: the sync fails] */
} mr_sync_options;

/* A worker's number is its position in the list. The future's value is the new version, when every set_weights has
 * returned. `out` may be NULL. MR_INVALID: no workers. */
MR_API MR_MUST mr_status mr_model_sync(mr_context *mr, mr_actor server, const mr_actor *workers, size_t count,
                                       const mr_sync_options *options, mr_ref *out);
/* The model in the form in which the first worker sent it; nil before the first sync or push. */
MR_API MR_MUST mr_status mr_model_pull(mr_context *mr, mr_actor server, mr_ref *out);
/* Replaces the model. Workers receive it only through the result of the next sync. The future's value is the
 * version. */
MR_API MR_MUST mr_status mr_model_push(mr_context *mr, mr_actor server, mr_arg weights, mr_ref *out);
/* Sets the weight of a worker for the strategy "weighted" [1]. Syncs fail with MR_INVALID while the sum of all weights
 * is 0 or less. */
MR_API MR_MUST mr_status mr_model_set_weight(mr_context *mr, mr_actor server, int64_t worker, double weight,
                                             mr_ref *out);
/* A map: version, num_syncs, strategy ("AverageStrategy"), initialized, bytes (of one model), gather_s, aggregate_s and
 * scatter_s (of the last sync), last_error (a text, or nil). */
MR_API MR_MUST mr_status mr_model_stats(mr_context *mr, mr_actor server, mr_ref *out);

/* ---- Shared models: a model in shared memory, which a sync aggregates in place, without a copy.
 *
 *     mr_shared_model_open(mr, bytes, &model);             one block for all tensors of the model
 *     float *weights = mr_shared_model_data(model);        … the worker trains there; the address never changes
 *     MR_METHOD(Worker, export_weights) { return mr_shared_model_return(call, model, tensors, count); }
 *     MR_METHOD(Worker, apply_weights) { … mr_shared_model_apply(model, &weights, &applied); … }
 *     mr_model_sync(mr, server, workers, count, &MR_OPTIONS(mr_sync_options, .get_method = "export_weights",
 *                   .set_method = "apply_weights"), …);
 *
 * The memory holds every byte twice: the worker has one half, a sync writes the other, and when the sync is complete
 * the worker switches to it, at the same address. If any process dies meanwhile, the worker's model is completely the
 * old version or completely the new one. Bytes that the worker writes between export and apply are lost, as with
 * copies, but a part of them may be in the sync. Any other value that is returned, pulled or passed on is a copy.
 *
 * A worker exports to one sync at a time: while a sync writes the model, another export gives a copy; of two exports
 * only the later one can be applied, and the earlier sync fails (MR_BUSY). One thread at a time uses a shared model. */

typedef struct mr_shared_model mr_shared_model; /* opaque */

/* The content is undefined at first. The model uses twice `bytes` of the store. MR_INVALID: 0 bytes. MR_NOMEM,
 * MR_TOO_LARGE. MR_CLOSED: this process has no store. */
MR_API MR_MUST mr_status mr_shared_model_open(mr_context *mr, size_t bytes, mr_shared_model **out);
MR_API void mr_shared_model_close(mr_shared_model *model);       /* frees the memory; also after mr_shutdown */
MR_API void *mr_shared_model_data(const mr_shared_model *model); /* page-aligned */

/* In the body of a method: returns a list of these tensors, exported if each of them lies in the shared model, else
 * copied. Bytes of the model that are in none of the tensors stay as they are. */
MR_API MR_MUST mr_status mr_shared_model_return(mr_call *call, mr_shared_model *model, const mr_tensor *tensors,
                                                size_t count);
/* Applies the result of a sync. *applied true: the model is the new one. False: `weights` are not of this model and
 * must be copied. MR_BUSY: the model was exported to another sync meanwhile. */
MR_API MR_MUST mr_status mr_shared_model_apply(mr_shared_model *model, const mr_value *weights, bool *applied);

/* The same for callers that build the value themselves. If each tensor of `weights` (a tree of lists, tuples and maps)
 * lies in the model, *out is the value to return in its place; it is borrowed from the model until the next export, and
 * from the memory of `weights`. Otherwise return a copy. MR_BUSY: another sync writes the model. MR_INVALID: a tensor
 * lies elsewhere or has more than MR_TENSOR_DIMS_MAX - 2 dimensions, or there is none. */
#define MR_SHARED_MODEL_MARK "miniray.loan"
MR_API MR_MUST mr_status mr_shared_model_export(mr_shared_model *model, mr_arg weights, mr_arg *out);
/* As mr_shared_model_apply, for a set_weights that received the tuple (MR_SHARED_MODEL_MARK, ticket, place). */
MR_API MR_MUST mr_status mr_shared_model_import(mr_shared_model *model, int64_t ticket, int64_t place, bool *applied);

/* ---- Model copies: a worker that keeps its model in other memory exports a copy from a fixed place in shared memory,
 * so that a sync of a small model sends only a reference to it. Large models are sent.
 *
 *     MR_METHOD(Worker, export_weights) { … return mr_return(call, mr_model_copy_export(copy, call, weights, &exported)
 *                                         == MR_OK ? exported : weights); }
 *
 * set_weights receives the result as after a get_weights that returned its weights. A worker that exports should call
 * mr_yield_cpu so that the other workers of the sync run; so may set_weights. */

typedef struct mr_model_copy mr_model_copy; /* opaque; one thread at a time */

MR_API MR_MUST mr_status mr_model_copy_open(mr_context *mr, mr_model_copy **out);
MR_API void mr_model_copy_close(mr_model_copy *copy); /* also after mr_shutdown */
/* Copies the tensors of `weights`, a tree of lists, tuples and maps. *out is the value that this call, of a method
 * that mr_model_sync calls, must return in its place; no other value may contain it. It is borrowed from the copy
 * until the next export, and from the memory of `weights`. An export for a sync that failed ends when the caller of
 * that sync requests weights again or dies. After an error return `weights`. MR_INVALID: the model is too small or too
 * large, or `weights` is not such a tree. MR_BUSY: earlier exports are not read yet. MR_NOMEM, MR_CLOSED. */
MR_API MR_MUST mr_status mr_model_copy_export(mr_model_copy *copy, mr_call *call, mr_arg weights, mr_arg *out);

/* ---- Sessions: ranks train one model on a parameter server (miniray/ps.h). The servers hold the weights in a table of
 * arrays and run the optimizer; a rank pulls weights and pushes gradients.
 *
 *     mr_ps_connect(address, rank, timeout_us, &ps);
 *     mr_model_session_open(ps, tensors, count, &MR_OPTIONS(mr_model_session_options, .table = &table), timeout_us,
 *                           &session);
 *     while ((status = mr_model_session_begin(session, timeout_us, &step)) == MR_STALE ||
 *            (status == MR_OK && step < STEPS)) {
 *         if (status == MR_STALE) continue;                                         // the servers went back to a
 *                                                                                   // checkpoint
 *         if (mr_model_session_pull(session, NULL, timeout_us) != MR_OK) continue;  // into the tensors
 *         ...                                                                       // compute gradients
 *         (void)mr_model_session_push(session, gradients, NULL, timeout_us);        // ends the step; begin returns
 *                                                                                   // its error again
 *     }
 *     mr_model_session_leave(session, timeout_us);                                  // the other ranks continue
 *     mr_model_session_close(session, timeout_us);
 *     mr_ps_close(ps);
 *
 * All ranks begin with the weights of rank 0, which the servers keep from then on: a rank that opens the model later
 * receives them, and a process that takes over a rank continues at its step. In BSP the servers apply the mean of the
 * gradients of a step. One thread at a time uses a session. After MR_TIMEOUT the same call, made again, continues where
 * it was. Memory of a pull or a push stays borrowed until a later call of the session has returned MR_OK or
 * MR_STALE. */

typedef struct mr_model_tensor {
    const char *name; /* distinct; the same on all ranks */
    mr_dtype dtype;   /* MR_F32, MR_F16 or MR_BF16; the servers hold float32 */
    int dims;         /* 0: one item */
    int64_t shape[MR_TENSOR_DIMS_MAX];
    void *data; /* weights of this process, row-major; borrowed until the session is closed, or a pull has other memory.
                 * NULL: none yet, except for the rank 0 of a new model */
    int frozen; /* 1: has no gradients; pulled only when the session joins, or into other memory [0] */
} mr_model_tensor;

enum { MR_MODEL_ABOUT_MAX = 8 * 1024 * 1024 };

typedef struct mr_model_session_options {
    size_t size;
    const char *name; /* of the table, at most 57 bytes ["model"]; NAME.state is another table:
                       * vectors of int64, at key 1 the number of steps (mr_model_session_version) */
    /* Optimizer, rate, compression, clip_norm, … of the table [sgd]. Must not be set: kind, dtype, arrays, average,
     * initializer. */
    const mr_ps_table_options *table;
    /* Describes the model for readers. The servers hold that of rank 0 with the weights, in NAME.state, a table of
     * vectors of int64, at key 2: the size in bytes, then the bytes. At most MR_MODEL_ABOUT_MAX bytes [none] */
    mr_span about;
} mr_model_session_options;

typedef struct mr_model_session mr_model_session; /* opaque */

/* Creates the tables of the model, or opens them. A connection has one session: several models are tensors of one
 * session. MR_INVALID: the error names the tensor or the option. MR_EXISTS: the model exists with other tensors or
 * options. MR_TIMEOUT. */
MR_API MR_MUST mr_status mr_model_session_open(mr_ps *ps, const mr_model_tensor *tensors, size_t count,
                                               const mr_model_session_options *options, int64_t timeout_us,
                                               mr_model_session **out);

/* Waits until the last push is acknowledged, and begins a step; *step is its number, counted from 0. If a step is open,
 * it is that one. The first call waits for the weights of rank 0 and pulls them. MR_STALE: the servers went back to a
 * checkpoint, or the step ended without this rank; the error says which. The next call waits for the weights, pulls
 * them, and returns the step to continue with. MR_TIMEOUT: the error says what is missing. MR_DENIED: this is rank 0 of
 * a new model, and a tensor has no memory. */
MR_API MR_MUST mr_status mr_model_session_begin(mr_model_session *session, int64_t timeout_us, uint64_t *step);
/* Pulls the weights that are not frozen into the memory of the tensors, which `out`, one pointer for each tensor,
 * changes to other memory (NULL for a tensor: none; `out` NULL: no change). MR_STALE: no step is open, or as
 * mr_model_session_begin. */
MR_API MR_MUST mr_status mr_model_session_pull(mr_model_session *session, void *const *out, int64_t timeout_us);
typedef struct mr_model_push_options {
    size_t size;
    float rate; /* learning rate of this push (mr_ps_request_options.rate) [that of the table's schedule] */
} mr_model_push_options;

/* Pushes a gradient for each tensor, of its dtype and shape, and ends the step; NULL: the tensor has none. A frozen
 * tensor must have none (MR_INVALID). If a gradient has a value that is not finite, nothing of the step is applied: in
 * BSP the other ranks make it without this one (mr_ps_skip). MR_STALE: no step is open, or as
 * mr_model_session_begin. */
MR_API MR_MUST mr_status mr_model_session_push(mr_model_session *session, const void *const *gradients,
                                               const mr_model_push_options *options, int64_t timeout_us);
/* Ends the step without a gradient of this rank, as such a push does. */
MR_API MR_MUST mr_status mr_model_session_skip(mr_model_session *session, int64_t timeout_us);
/* The number of steps of this session that were left out so. */
MR_API uint64_t mr_model_session_skipped(const mr_model_session *session);
/* The number of steps that the weights contain which a pull in the open step gives: in BSP of all ranks together,
 * otherwise the sum over the ranks. MR_STALE: no step is open, or as mr_model_session_begin. */
MR_API MR_MUST mr_status mr_model_session_version(mr_model_session *session, int64_t timeout_us, uint64_t *version);
/* Waits until the pushes are acknowledged, leaves this rank out of an open step, and leaves (mr_ps_leave), so that no
 * other rank waits for this one. The next mr_model_session_begin returns. */
MR_API MR_MUST mr_status mr_model_session_leave(mr_model_session *session, int64_t timeout_us);
/* Waits until no memory is borrowed any more, and frees the session; memory that is still borrowed after timeout_us
 * stays so until mr_ps_close. It does not leave: another process of the rank may continue. Before mr_ps_close. */
MR_API void mr_model_session_close(mr_model_session *session, int64_t timeout_us);

#ifdef __cplusplus
}
#endif
