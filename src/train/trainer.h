/* trainer.h — internals of a trainer, shared by trainer*.c.
 *
 *   created ──start──▸ started ──epoch──▸ started        one worker:  alive ──a call fails by its death──▸ dead
 *                                                                       ▴                                    │
 *                                                                       └── recover: create, load, restore ──┘
 *
 * An epoch submits train_epoch to every worker and then waits for all of them. A worker that is found dead is replaced
 * at once, if max_failures allows, and repeats its work since the last sync: its epochs from `base` on.
 *
 * If max_failures is above 0 and the epoch ends with a sync, the weights of each worker are requested together with its
 * epoch, and kept. The sync then does not call get_weights: it is repeated with the same weights until all workers have
 * its result, and workers that died meanwhile are replaced. Each completed epoch of a worker therefore counts, however
 * often others die.
 *
 * Invariants  `base` is the first epoch whose work is not in the weights that a replaced worker gets; every live worker
 *             has done the epochs from base to the current one. The future of a call is released exactly once: when its
 *             result is taken, or when the epoch fails.
 * Ownership   options are borrowed; the trainer owns futures, results and, with a class, the actors.
 * Threads     one at a time. A wait is divided into slices, with a call of `poll` after each. */
#pragma once
#include "miniray/train.h"

typedef struct trainer_worker {
    mr_ref call; /* owned while is_called */
    bool is_called, has_result;
    mr_value result; /* owned while has_result */
    bool is_gathered;
    mr_ref weights; /* owned while is_gathered: future of the weights for the sync */
    int64_t began_ns, ended_ns;
} trainer_worker;

struct mr_trainer {
    mr_context *mr; /* borrowed */
    mr_trainer_options options;
    const mr_trainer_ops *ops; /* borrowed, or given_ops */
    mr_trainer_ops given_ops;  /* copy for a program that was built with a shorter struct */
    void *ops_user;
    struct trainer_workers *own; /* owned: actors of a class; NULL: the user's operations */
    trainer_worker *workers;     /* owned */
    bool is_started;
    bool warned;  /* that a train_epoch returned nothing */
    size_t done;  /* workers that have finished this epoch */
    bool gathers; /* this epoch ends with a sync, and its weights are kept */
    int64_t base;
    mr_ref *results; /* owned, with its futures: the average of each past epoch */
    size_t result_count, result_capacity;
    mr_trainer_report report;
    bool has_failed;
    mr_ref failed;        /* owned if has_failed */
    size_t failed_worker; /* SIZE_MAX: the sync */
};

bool trainer_is_death(mr_status status);
bool trainer_wants_no_shard(mr_status status); /* the worker has no method load_data_shard */

/* Waits for a call of a worker, or for a sync (SIZE_MAX); the future is moved. Keeps a failure for mr_trainer_failed.
 * MR_CANCELLED: `poll` returned false. `out` may be NULL. */
MR_MUST mr_status trainer_finish(mr_trainer *trainer, size_t worker, mr_ref ref, mr_value *out);

/* Replaces a worker that has died (`cause`): creates it with its shard and the weights of the last sync. */
MR_MUST mr_status trainer_recover_worker(mr_trainer *trainer, size_t worker, mr_status cause);

/* The same, and repeats its epochs since that sync up to and including `epoch`; takes the result of `epoch`, and the
 * weights if a sync follows. */
MR_MUST mr_status trainer_redo(mr_trainer *trainer, size_t worker, int64_t epoch, mr_status cause);

/* Requests the weights of a worker, if the trainer keeps them for a sync; waits for them (trainer_gathered). */
MR_MUST mr_status trainer_gather(mr_trainer *trainer, size_t worker);
MR_MUST mr_status trainer_gathered(mr_trainer *trainer, size_t worker);

/* Runs the sync of an epoch, until all workers have its result. */
MR_MUST mr_status trainer_sync(mr_trainer *trainer, int64_t epoch);
