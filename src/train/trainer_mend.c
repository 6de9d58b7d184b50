/* trainer_mend.c — workers that die, and the sync, which must survive that (see trainer.h).
 *
 * A sync in which a worker dies has failed: the model is what it was. Some of the others may have the weights of that
 * sync all the same, so everybody goes back to the last model, does again what it has done since, and the sync is
 * repeated. Before the first sync there is no model to go back to: then all workers are made again. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "train/trainer.h"

/* A worker that is as it was after the last sync; a fresh one is made for that. */
static mr_status prepare(mr_trainer *trainer, size_t worker, bool fresh) {
    const mr_trainer_ops *ops = trainer->ops;
    mr_status status = MR_OK;
    mr_ref ref;
    if (fresh) {
        MR_TRY(ops->create(trainer->ops_user, worker));
        status = ops->load(trainer->ops_user, worker, &ref);
        if (status == MR_OK) status = trainer_finish(trainer, worker, ref, NULL);
        if (status != MR_OK && status != MR_END && !trainer_wants_no_shard(status)) return status;
    }
    status = ops->restore == NULL ? MR_END : ops->restore(trainer->ops_user, worker, &ref);
    if (status == MR_OK) return trainer_finish(trainer, worker, ref, NULL);
    if (status != MR_END) return status;
    return fresh ? MR_OK : prepare(trainer, worker, true);
}

/* Of the last error: it never lived, since its constructor, or what it is created with, has failed. It would again. */
static bool was_never_there(void) { return strstr(mr_last_error(), ": could not be created, because ") != NULL; }

mr_status trainer_mend_worker(mr_trainer *trainer, size_t worker, mr_status cause) {
    while (trainer_is_death(cause)) {
        if (was_never_there()) return cause;
        if (trainer->report.failures >= (size_t)trainer->options.max_failures)
            return error_wrap(cause, "a worker died, and max_failures is %d", trainer->options.max_failures);
        trainer->report.failures++;
        cause = prepare(trainer, worker, true);
    }
    return cause;
}

mr_status trainer_redo(mr_trainer *trainer, size_t index, int64_t epoch, mr_status cause) {
    trainer_worker *worker = &trainer->workers[index];
    while (trainer_is_death(cause)) {
        MR_TRY(trainer_mend_worker(trainer, index, cause));
        cause = MR_OK;
        for (int64_t at = trainer->base; cause == MR_OK && at <= epoch; at++) {
            mr_ref ref;
            cause = trainer->ops->train(trainer->ops_user, index, at, &ref);
            if (cause == MR_OK) cause = trainer_finish(trainer, index, ref, at == epoch ? &worker->result : NULL);
            worker->has_result = cause == MR_OK && at == epoch;
        }
    }
    return cause;
}

static mr_status probe(mr_trainer *trainer, size_t worker) {
    mr_ref ref;
    MR_TRY(trainer->ops->alive(trainer->ops_user, worker, &ref));
    return trainer_finish(trainer, worker, ref, NULL);
}

mr_status mr_trainer_mend(mr_trainer *trainer, size_t *mended) {
    *mended = 0;
    for (size_t i = 0; i < trainer->options.num_workers; i++) {
        mr_status status = probe(trainer, i);
        if (trainer_is_death(status)) {
            status = trainer_mend_worker(trainer, i, status);
            ++*mended;
        }
        MR_TRY(status);
    }
    return MR_OK;
}

/* ---- The sync. */

static mr_status sync_once(mr_trainer *trainer) {
    mr_ref ref;
    MR_TRY(trainer->ops->sync(trainer->ops_user, &ref));
    return trainer_finish(trainer, SIZE_MAX, ref, NULL);
}

static mr_status go_back(mr_trainer *trainer, int64_t epoch) {
    for (size_t i = 0; i < trainer->options.num_workers; i++) {
        mr_status status = prepare(trainer, i, false);
        MR_TRY(trainer_is_death(status) ? trainer_mend_worker(trainer, i, status) : status);
    }
    for (int64_t at = trainer->base; at <= epoch; at++) MR_TRY(trainer_train(trainer, at));
    return MR_OK;
}

mr_status trainer_sync(mr_trainer *trainer, int64_t epoch) {
    for (;;) {
        char text[ERROR_TEXT_MAX];
        size_t mended;
        mr_status status = sync_once(trainer);
        if (status == MR_OK) break;
        if (status == MR_CANCELLED) return status;
        snprintf(text, sizeof text, "%s", mr_last_error());
        MR_TRY(mr_trainer_mend(trainer, &mended));
        if (mended == 0) return error_set(status, "%s", text);
        MR_TRY(go_back(trainer, epoch));
    }
    trainer->base = epoch + 1;
    return MR_OK;
}
