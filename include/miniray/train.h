/* miniray/train.h — training with workers that each have a part of the data.
 *
 * A worker is an actor, of whatever language, with these methods:
 *
 *     train_epoch(epoch)              → a map: what came of it ("loss", "samples", …)
 *     get_weights()                   → a list of tensors
 *     set_weights(list)
 *     load_data_shard(shard, shards)  if it wants to be told which part of the data is its own
 *
 * An epoch is train_epoch on all of them at once, the average of their results, and every sync_interval epochs one sync
 * of their weights through a model server (miniray/model.h). What a program does between two epochs is its own affair:
 * there are no hooks, there is a loop.
 *
 *     mr_trainer_options options = {.num_workers = 4, .worker_class = "Digits"};
 *     MR_TRY(mr_trainer_create(mr, &options, &trainer));
 *     for (int64_t epoch = 0; epoch < 20; epoch++) {
 *         MR_TRY(mr_trainer_epoch(trainer, epoch, true, &result));
 *         …
 *     }
 *     mr_trainer_destroy(trainer);
 *
 * A worker that dies is an error that names it; with max_failures it is made again instead, gets the weights of the
 * last sync and its shard, and does again what it has done since. So workers whose work depends on weights, shard and
 * epoch alone give the same bits, however often they are killed. What a worker has trained for a sync is kept from the
 * moment that it has ended the epoch: it is not done again, whoever dies then, before the sync or in it. */
#pragma once
#include "miniray/model.h"
#include "miniray/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Shards: which of `count` samples belong to which worker. The same seed gives the same shards everywhere; none is
 * larger than another by more than one, and each sample is in exactly one. */

MR_API size_t mr_shard_size(size_t count, size_t shards, size_t shard);
/* Their indices, mr_shard_size of them: a share of the samples in an order that is drawn from the seed. MR_INVALID: no
 * such shard. MR_NOMEM. */
MR_API MR_MUST mr_status mr_shard_indices(size_t count, size_t shards, size_t shard, uint64_t seed, int64_t *out);

/* ---- Trainers. */

typedef struct mr_trainer mr_trainer; /* opaque; used by one thread at a time */

/* How a trainer reaches its workers, when they are not simply actors of a class of this program. A call gives a future,
 * which becomes the trainer's. A status other than MR_OK ends what the trainer was asked for, except where it says that
 * the worker died (MR_ACTOR_DIED, MR_WORKER_DIED, MR_PEER_DIED). */
typedef struct mr_trainer_ops {
    mr_status (*create)(void *user, size_t worker);                            /* makes it, or makes it again */
    mr_status (*load)(void *user, size_t worker, mr_ref *out);                 /* its shard. MR_END: takes none */
    mr_status (*train)(void *user, size_t worker, int64_t epoch, mr_ref *out); /* train_epoch */
    mr_status (*alive)(void *user, size_t worker, mr_ref *out);                /* any call that it answers */
    mr_status (*gather)(void *user, size_t worker, mr_ref *out);               /* its weights, for the sync */
    /* Of all workers; NULL: there is none. `weights` are what gather gave of each; NULL: they are to be asked for. */
    mr_status (*sync)(void *user, const mr_ref *weights, mr_ref *out);
    mr_status (*restore)(void *user, size_t worker, mr_ref *out); /* set_weights. MR_END: none yet */
    mr_status (*read)(void *user, mr_value *result); /* makes a map of a result that is none; NULL: that is an error */
} mr_trainer_ops;

typedef struct mr_trainer_options { /* zero means the default everywhere */
    size_t num_workers;             /* at least 1 */
    int64_t sync_interval;          /* epochs between two syncs: 0 means 1, < 0 never */
    int max_failures;               /* deaths of workers that are made good; then the next one is an error */
    /* Called now and then while it waits, with the workers that have done this epoch. False: enough; what was asked for
     * ends with MR_CANCELLED. */
    bool (*poll)(void *user, size_t done);
    void *user;
    /* Workers that are actors of a class: created with their number and then these arguments. */
    const char *worker_class;              /* borrowed, as all of this, till mr_trainer_destroy */
    const mr_task_options *worker_options; /* of their creation */
    const mr_arg *args;
    size_t arg_count;
    mr_sync_strategy strategy; /* of the sync */
    /* Workers of any other kind: */
    const mr_trainer_ops *ops;
} mr_trainer_options;

/* Starts nothing yet. MR_INVALID: no workers, or neither a class nor operations. */
MR_API MR_MUST mr_status mr_trainer_create(mr_context *mr, const mr_trainer_options *options, mr_trainer **out);
MR_API void mr_trainer_destroy(mr_trainer *trainer); /* ends workers of a class, and their server; NULL: a no-op */
MR_API void mr_trainer_detach(mr_trainer *trainer);  /* its context was shut down: only its end may follow */

/* Creates the workers and gives them their shards; the first epoch does that, too. A second time it does nothing. */
MR_API MR_MUST mr_status mr_trainer_start(mr_trainer *trainer);

/* One epoch. *out is the average of what the workers gave: numbers are averaged (over those workers that have them),
 * maps field by field, anything else is the first worker's; "synced" says whether the weights were. With sync false
 * they are not, whatever the interval, and it is not said. *out is the caller's. */
MR_API MR_MUST mr_status mr_trainer_epoch(mr_trainer *trainer, int64_t epoch, bool sync, mr_value *out);

/* For a program that calls the workers itself: those that died are made again, with weights and shards, as far as
 * max_failures allows. *mended: how many; none, and the cause of a failure is another one. */
MR_API MR_MUST mr_status mr_trainer_recover(mr_trainer *trainer, size_t *mended);

/* The result of an epoch that was trained, counted from 0. MR_NOT_FOUND: there were fewer. */
MR_API MR_MUST mr_status mr_trainer_history(mr_trainer *trainer, size_t index, mr_value *out);

/* Workers of a class, and their server; borrowed. MR_INVALID: not started, or there are operations instead. */
MR_API MR_MUST mr_status mr_trainer_worker(const mr_trainer *trainer, size_t worker, mr_actor *out);
MR_API MR_MUST mr_status mr_trainer_server(const mr_trainer *trainer, mr_actor *out);

typedef struct mr_trainer_report { /* in seconds */
    size_t epochs, syncs, failures;
    double train_s, sync_s; /* of all epochs: workers at work, and weights on their way */
    double epoch_s;         /* of the last epoch, in all */
    size_t slowest;         /* worker of the last epoch, and how long it took */
    double slowest_s, fastest_s;
} mr_trainer_report;

MR_API void mr_trainer_report_get(const mr_trainer *trainer, mr_trainer_report *out);

/* After a failure: the future that failed, borrowed till the trainer is used again, and the worker whose call it was;
 * SIZE_MAX: it was the sync. MR_NOT_FOUND: the failure came from elsewhere. */
MR_API MR_MUST mr_status mr_trainer_failed(const mr_trainer *trainer, size_t *worker, mr_ref *ref);

/* ---- Logbooks: results of epochs in files that other programs read. Fields inside of maps are named "outer/inner".
 *
 *   "csv"          a table: "epoch" first, then a column for each field that is a number, a bool or a text
 *   "jsonl"        one JSON object a line: "epoch" first, then the result as it is
 *   "tensorboard"  the path is a folder, in which an event file is made; numbers only */

typedef struct mr_metric_logger mr_metric_logger; /* opaque; used by one thread at a time */

/* Begins the file anew. MR_INVALID: no such kind. MR_IO, MR_DENIED: the file cannot be written. */
MR_API MR_MUST mr_status mr_metric_logger_open(const char *kind, const char *path, mr_metric_logger **out);
MR_API MR_MUST mr_status mr_metric_logger_write(mr_metric_logger *logbook, int64_t epoch,
                                                const mr_value *result); /* at once */
MR_API void mr_metric_logger_close(mr_metric_logger *logbook);           /* NULL: a no-op */

/* ---- Progress: one line for people. */

typedef struct mr_progress {
    int64_t epoch, epochs; /* the one at hand, counted from 0, and how many there will be */
    size_t done, workers;  /* that have finished the epoch at hand */
    const char *name;      /* of the number that is shown, "loss"; NULL: none yet */
    double value;          /* of it in the last epoch */
    double samples_s;      /* samples in a second, of all workers; 0: not known */
    double elapsed_s;      /* since the training began */
    mr_trainer_report report;
} mr_progress;

enum { MR_PROGRESS_MAX = 512 };

/* The line, at most `width` columns, with what matters least left out first; with colour if asked. Gives its bytes. */
MR_API size_t mr_progress_line(const mr_progress *progress, size_t width, bool colour, char out[MR_PROGRESS_MAX]);

#ifdef __cplusplus
}
#endif
