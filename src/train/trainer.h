/* trainer.h — internals of a trainer, shared by trainer*.c.
 *
 *   created ──start──▸ started ──epoch──▸ started        one worker:  alive ──a call fails by its death──▸ dead
 *                                                                       ▴                                    │
 *                                                                       └── mend: create, load, restore ─────┘
 *
 * An epoch submits train_epoch to every worker and then waits for all of them. A worker that is found dead is replaced
 * at once, if max_failures allows, and repeats its work since the last sync: its epochs from `base` on.
 *
 * Before a sync, if workers may die, the weights of each are asked for with its epoch, and kept. From then on the sync
 * needs no worker: it is repeated with the same weights until all workers have its result, those that died meanwhile
 * made again. So every epoch of a worker that came to its end counts, however often others are killed.
 *
 * Invariants  `base` is the first epoch whose work is not in the weights that a mended worker gets; every worker that
 *             is alive has done base … the present epoch. A call's future is released exactly once: when its result is
 *             taken, or when the trainer gives up.
 * Ownership   options are borrowed; the futures, the results and, with a class, the actors are the trainer's own.
 * Threads     one at a time. It waits in slices, and asks `poll` between them. */
#pragma once
#include "miniray/train.h"

typedef struct trainer_worker {
    mr_ref call; /* owned while is_called */
    bool is_called, has_result;
    mr_value result; /* owned while has_result */
    bool is_gathered;
    mr_ref weights; /* owned while is_gathered: for the sync; they may not be there yet */
    int64_t began_ns, ended_ns;
} trainer_worker;

struct mr_trainer {
    mr_context *mr; /* borrowed */
    mr_trainer_options options;
    const mr_trainer_ops *ops; /* borrowed, or given_ops */
    mr_trainer_ops given_ops;  /* the program's, if its release has fewer of them */
    void *ops_user;
    struct trainer_workers *own; /* owned: actors of a class; NULL: the user's operations */
    trainer_worker *workers;     /* owned */
    bool is_started;
    size_t done;  /* workers that have done this epoch */
    bool gathers; /* this epoch ends with a sync, whose weights are kept */
    int64_t base;
    mr_ref *results; /* owned, as each of them: averages of past epochs, kept as finished futures */
    size_t result_count, result_capacity;
    mr_trainer_report report;
    bool has_failed;
    mr_ref failed;        /* owned if has_failed */
    size_t failed_worker; /* SIZE_MAX: none in particular */
};

bool trainer_is_death(mr_status status);
bool trainer_wants_no_shard(mr_status status); /* of load_data_shard: there is no such method */

/* Waits for a call of a worker, or of none in particular (SIZE_MAX); the future is moved. Keeps a failure for
 * mr_trainer_failed. MR_CANCELLED: poll said so. out: NULL: the value is not wanted. */
MR_MUST mr_status trainer_finish(mr_trainer *trainer, size_t worker, mr_ref ref, mr_value *out);

/* Makes a worker again that has died of `cause`, with its shard and the weights of the last sync. */
MR_MUST mr_status trainer_recover_worker(mr_trainer *trainer, size_t worker, mr_status cause);

/* The same, and what it has done since, up to and including `epoch`; its result of that is taken, and its weights if a
 * sync follows. */
MR_MUST mr_status trainer_redo(mr_trainer *trainer, size_t worker, int64_t epoch, mr_status cause);

/* Asks a worker for its weights, if they are to be kept for the sync; and waits until they are there. */
MR_MUST mr_status trainer_gather(mr_trainer *trainer, size_t worker);
MR_MUST mr_status trainer_gathered(mr_trainer *trainer, size_t worker);

/* The weights of all workers into one, and back. */
MR_MUST mr_status trainer_sync(mr_trainer *trainer, int64_t epoch);
