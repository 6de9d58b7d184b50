/* trainer_recover.c — replacement of dead workers, and repetition of the sync (see trainer.h).
 *
 * A sync in which a worker dies fails: the server's model is unchanged, but some other workers may have the result. The
 * sync is repeated with the same weights, which gives the same result, until all workers have it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "train/trainer.h"

/* Creates the worker with its shard and the weights of the last sync. */
static mr_status make_again(mr_trainer *trainer, size_t worker) {
    const mr_trainer_ops *ops = trainer->ops;
    mr_ref ref;
    MR_TRY(ops->create(trainer->ops_user, worker));
    mr_status status = ops->load(trainer->ops_user, worker, &ref);
    if (status == MR_OK) status = trainer_finish(trainer, worker, ref, NULL);
    if (status != MR_OK && status != MR_END && !trainer_wants_no_shard(status)) return status;
    status = ops->restore == NULL ? MR_END : ops->restore(trainer->ops_user, worker, &ref);
    if (status == MR_OK) return trainer_finish(trainer, worker, ref, NULL);
    return status == MR_END ? MR_OK : status;
}

/* Whether the last error is that of a worker whose creation failed: another attempt would fail, too. */
static bool was_never_there(void) { return strstr(mr_last_error(), ": could not be created, because ") != NULL; }

mr_status trainer_recover_worker(mr_trainer *trainer, size_t worker, mr_status cause) {
    while (trainer_is_death(cause)) {
        if (was_never_there()) return cause;
        if (trainer->report.failures >= (size_t)trainer->options.max_failures)
            return error_wrap(cause, "worker %zu died, and max_failures (%d) is reached", worker,
                              trainer->options.max_failures);
        trainer->report.failures++;
        cause = make_again(trainer, worker);
    }
    return cause;
}

mr_status trainer_redo(mr_trainer *trainer, size_t index, int64_t epoch, mr_status cause) {
    trainer_worker *worker = &trainer->workers[index];
    while (trainer_is_death(cause)) {
        MR_TRY(trainer_recover_worker(trainer, index, cause));
        cause = MR_OK;
        for (int64_t at = trainer->base; cause == MR_OK && at <= epoch; at++) {
            mr_ref ref;
            cause = trainer->ops->train(trainer->ops_user, index, at, &ref);
            if (cause == MR_OK) cause = trainer_finish(trainer, index, ref, at == epoch ? &worker->result : NULL);
            worker->has_result = cause == MR_OK && at == epoch;
        }
        if (cause == MR_OK) cause = trainer_gather(trainer, index);
        if (cause == MR_OK) cause = trainer_gathered(trainer, index);
    }
    return cause;
}

static mr_status probe(mr_trainer *trainer, size_t worker) {
    mr_ref ref;
    MR_TRY(trainer->ops->alive(trainer->ops_user, worker, &ref));
    return trainer_finish(trainer, worker, ref, NULL);
}

mr_status mr_trainer_recover(mr_trainer *trainer, size_t *mended) {
    *mended = 0;
    for (size_t i = 0; i < trainer->options.num_workers; i++) {
        mr_status status = probe(trainer, i);
        if (trainer_is_death(status)) {
            status = trainer_recover_worker(trainer, i, status);
            ++*mended;
        }
        MR_TRY(status);
    }
    return MR_OK;
}

/* ---- The sync. */

static mr_status sync_once(mr_trainer *trainer, const mr_ref *weights) {
    mr_ref ref;
    MR_TRY(trainer->ops->sync(trainer->ops_user, weights, &ref));
    return trainer_finish(trainer, SIZE_MAX, ref, NULL);
}

static mr_status sync_till_all_have_it(mr_trainer *trainer, const mr_ref *weights) {
    for (;;) {
        char text[ERROR_TEXT_MAX];
        size_t mended;
        mr_status status = sync_once(trainer, weights);
        if (status == MR_OK || status == MR_CANCELLED) return status;
        snprintf(text, sizeof text, "%s", mr_last_error());
        MR_TRY(mr_trainer_recover(trainer, &mended));
        if (mended == 0) return error_set(status, "%s", text);
    }
}

mr_status trainer_sync(mr_trainer *trainer, int64_t epoch) {
    mr_ref *weights = NULL;
    if (trainer->gathers) MR_TRY(alloc_try(trainer->options.num_workers * sizeof *weights, &weights));
    for (size_t i = 0; trainer->gathers && i < trainer->options.num_workers; i++)
        weights[i] = trainer->workers[i].weights;
    mr_status status = sync_till_all_have_it(trainer, weights);
    free(weights);
    if (status == MR_OK) trainer->base = epoch + 1;
    return status;
}
