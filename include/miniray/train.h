/* miniray/train.h — training with workers that each have a shard of the data.
 *
 * A worker is an actor, of any language, with these methods:
 *
 *     train_epoch(epoch)              → a map of results ("loss", "samples", …)
 *     get_weights()                   → a list of tensors
 *     set_weights(list)
 *     load_data_shard(shard, shards)  optional: tells the worker which shard of the data is its own
 *
 * An epoch calls train_epoch of all workers at once and averages their results; every sync_interval epochs it syncs the
 * weights through a model server (miniray/model.h). There are no hooks: the loop is in the program.
 *
 *     mr_trainer_options options = MR_OPTIONS(mr_trainer_options, .num_workers = 4, .worker_class = "Digits");
 *     MR_TRY(mr_trainer_create(mr, &options, &trainer));
 *     for (int64_t epoch = 0; epoch < 20; epoch++) {
 *         MR_TRY(mr_trainer_epoch(trainer, epoch, true, &result));
 *         …
 *     }
 *     mr_trainer_destroy(trainer);
 *
 * The death of a worker is an error that names the worker. With max_failures the worker is created again instead; it
 * receives the weights of the last sync and its shard, and repeats its epochs since then. Therefore workers whose work
 * depends only on weights, shard and epoch give the same bits however often they are killed. The weights that a worker
 * has trained for a sync are kept from the end of its epoch: a later death does not repeat that epoch. */
#pragma once
#include "miniray/model.h"
#include "miniray/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Shards: the assignment of `count` samples to workers. The same seed gives the same shards everywhere. Each
 * sample is in exactly one shard; the sizes of shards differ by at most one. */

MR_API size_t mr_shard_size(size_t count, size_t shards, size_t shard);
/* The indices of a shard, mr_shard_size of them, in an order drawn from the seed. MR_INVALID: no such shard.
 * MR_NOMEM. */
MR_API MR_MUST mr_status mr_shard_indices(size_t count, size_t shards, size_t shard, uint64_t seed, int64_t *out);

/* ---- Trainers. */

typedef struct mr_trainer mr_trainer; /* opaque; used by one thread at a time */

/* How a trainer reaches workers that are not actors of a class of this program. A call gives a future, which the
 * trainer then owns. A status other than MR_OK ends the trainer's current function, except the death of the worker
 * (MR_ACTOR_DIED, MR_WORKER_DIED, MR_PEER_DIED). create, load, train and alive are required; gather and restore,
 * too, if there is a sync. */
typedef struct mr_trainer_ops {
    size_t size;
    mr_status (*create)(void *user, size_t worker);            /* creates the worker, also after its death */
    mr_status (*load)(void *user, size_t worker, mr_ref *out); /* its shard. MR_END: takes none */
    mr_status (*train)(void *user, size_t worker, int64_t epoch, mr_ref *out); /* train_epoch */
    mr_status (*alive)(void *user, size_t worker, mr_ref *out);                /* any call that the worker answers */
    mr_status (*gather)(void *user, size_t worker, mr_ref *out);               /* its weights, for the sync */
    /* Syncs all workers. `weights` are the results of gather; NULL: they must be fetched. [no sync] */
    mr_status (*sync)(void *user, const mr_ref *weights, mr_ref *out);
    mr_status (*restore)(void *user, size_t worker, mr_ref *out); /* set_weights. MR_END: no weights yet */
    /* Converts a result to a map; the nil of a worker that returned nothing may stay. [results are maps] */
    mr_status (*read)(void *user, mr_value *result);
} mr_trainer_ops;

typedef struct mr_trainer_options { /* all pointers are borrowed until mr_trainer_destroy */
    size_t size;
    size_t num_workers;    /* required: at least 1 */
    int64_t sync_interval; /* epochs between two syncs [1]; negative: never */
    /* Called from time to time while the trainer waits, with the number of workers that have finished the epoch. False:
     * the current function returns MR_CANCELLED. [none] */
    bool (*poll)(void *user, size_t done);
    void *user;
    int max_failures; /* deaths of workers that are repaired; the next one is an error [0] */
    /* Workers that are actors of a class; each is created with its number, then `args`. Required without ops. */
    const char *worker_class;
    const mr_actor_options *worker_options;
    const mr_arg *args;
    size_t arg_count;
    const mr_sync_strategy *strategy; /* of the sync ["average"] */
    const mr_trainer_ops *ops;        /* workers of any other kind, instead of worker_class */
} mr_trainer_options;

/* Does not create the workers yet. MR_INVALID: no workers, neither a class nor operations, or both. */
MR_API MR_MUST mr_status mr_trainer_create(mr_context *mr, const mr_trainer_options *options, mr_trainer **out);
MR_API void mr_trainer_destroy(mr_trainer *trainer); /* ends workers of a class and their server */
MR_API void mr_trainer_detach(mr_trainer *trainer);  /* after mr_shutdown; only mr_trainer_destroy follows */

/* Creates the workers and gives them their shards. Optional: the first epoch does it otherwise. A second call has no
 * effect. */
MR_API MR_MUST mr_status mr_trainer_start(mr_trainer *trainer);

/* Runs one epoch. *out, owned by the caller, is the average of the workers' results: numbers are averaged over the
 * workers that have them, maps field by field; any other value is the first worker's. The field "synced" is true if the
 * weights were synced. `sync` false: they are not synced, whatever the interval, and there is no such field. */
MR_API MR_MUST mr_status mr_trainer_epoch(mr_trainer *trainer, int64_t epoch, bool sync, mr_value *out);

/* For programs that call the workers themselves: creates dead workers again, with weights and shards, as far as
 * max_failures allows. *recovered is their number; 0: no worker is dead, so a failure had another cause. */
MR_API MR_MUST mr_status mr_trainer_recover(mr_trainer *trainer, size_t *recovered);

/* The result of an epoch, counted from 0. MR_NOT_FOUND: there were fewer epochs. */
MR_API MR_MUST mr_status mr_trainer_history(mr_trainer *trainer, size_t index, mr_value *out);

/* Workers of a class, and their server; borrowed. MR_INVALID: not started, or the trainer has operations instead. */
MR_API MR_MUST mr_status mr_trainer_worker(const mr_trainer *trainer, size_t worker, mr_actor *out);
MR_API MR_MUST mr_status mr_trainer_server(const mr_trainer *trainer, mr_actor *out);

typedef struct mr_trainer_report { /* times in seconds */
    size_t epochs, syncs, failures;
    double train_s, sync_s; /* sums over all epochs */
    double epoch_s;         /* the last epoch */
    size_t slowest;         /* worker of the last epoch */
    double slowest_s, fastest_s;
} mr_trainer_report;

MR_API void mr_trainer_report_get(const mr_trainer *trainer, mr_trainer_report *out);

/* After a failure: the future that failed, borrowed until the trainer is used again, and the worker whose call it was;
 * SIZE_MAX: the sync. MR_NOT_FOUND: the failure had another source. */
MR_API MR_MUST mr_status mr_trainer_failed(const mr_trainer *trainer, size_t *worker, mr_ref *ref);

/* ---- Metric loggers: results of epochs in files for other programs. Fields inside maps are named "outer/inner".
 *
 *   "csv"          a table: "epoch" first, then a column for each field that is a number, a bool or a text
 *   "jsonl"        one JSON object in each line: "epoch" first, then the result as it is
 *   "tensorboard"  the path is a folder, in which an event file is made; numbers only */

typedef struct mr_metric_logger mr_metric_logger; /* opaque; used by one thread at a time */

/* Truncates the file. MR_INVALID: no such kind. MR_IO, MR_DENIED: the file cannot be written. */
MR_API MR_MUST mr_status mr_metric_logger_open(const char *kind, const char *path, mr_metric_logger **out);
MR_API MR_MUST mr_status mr_metric_logger_write(mr_metric_logger *logger, int64_t epoch,
                                                const mr_value *result); /* not buffered */
MR_API void mr_metric_logger_close(mr_metric_logger *logger);

/* ---- Progress: a line of text for a terminal. */

typedef struct mr_progress {
    int64_t epoch, epochs; /* the current one, counted from 0, and how many there will be */
    size_t done, workers;  /* workers that have finished the current epoch, and all */
    const char *name;      /* of the number that is shown, such as "loss"; NULL: none yet */
    double value;          /* of that number in the last epoch */
    double samples_s;      /* samples in a second, of all workers; 0: unknown */
    double elapsed_s;      /* since the training began */
    mr_trainer_report report;
} mr_progress;

enum { MR_PROGRESS_MAX = 512 };

/* Writes the line, at most `width` columns, leaving out the least important parts first. Returns its bytes. */
MR_API size_t mr_progress_line(const mr_progress *progress, size_t width, bool colour, char out[MR_PROGRESS_MAX]);

#ifdef __cplusplus
}
#endif
