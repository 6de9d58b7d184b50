/* model_saver.c — mr_model_saver: a thread that writes checkpoints of a model server at intervals, while the server
 * goes on. Tested by tests/model_save_test.c.
 *
 *  offer(version n) ──► waits ── interval over ──► written (model_checkpoint.h) ──► the next that was offered
 *                         ▲ └── version n + 1 is offered: replaced
 *                         └── a write that failed: a warning, and the interval begins again
 *
 * An offered model is held until it was written or replaced. */
#include "miniray/model.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"

enum { EVERY_MAX_S = 1000 * 1000 * 1000 };

typedef struct offer {
    mr_model_checkpoint facts; /* `weights` and `state` point into `memory` */
    mr_value model;            /* held */
    void *memory;              /* owned */
} offer;

struct mr_model_saver {
    char *folder;
    int64_t every_us;
    pthread_t thread;
    pthread_mutex_t mutex; /* of the following */
    pthread_cond_t changed;
    offer waiting;
    bool has_waiting, ends;
};

static void offer_fini(offer *offer) {
    mr_value_release(&offer->model);
    free(offer->memory);
    *offer = (struct offer){0};
}

/* Waits until a version waits and the time has come. False: the saver ends, and nothing waits. */
static bool take(mr_model_saver *saver, int64_t due_us, offer *out) {
    pthread_mutex_lock(&saver->mutex);
    while (!saver->ends && (!saver->has_waiting || clock_now_us(clock_real()) < due_us)) {
        const struct timespec until = {.tv_sec = due_us / 1000000, .tv_nsec = due_us % 1000000 * 1000};
        if (saver->has_waiting)
            pthread_cond_timedwait(&saver->changed, &saver->mutex, &until);
        else
            pthread_cond_wait(&saver->changed, &saver->mutex);
    }
    bool taken = saver->has_waiting;
    if (taken) *out = saver->waiting;
    saver->has_waiting = false;
    pthread_mutex_unlock(&saver->mutex);
    return taken;
}

static void *serve(void *argument) {
    mr_model_saver *saver = argument;
    int64_t due_us = 0; /* the first version is written at once */
    for (offer offer; take(saver, due_us, &offer); offer_fini(&offer)) {
        if (mr_model_checkpoint_write(saver->folder, &offer.facts, &offer.model) != MR_OK)
            log_warn("a checkpoint of the model server failed, and is tried again in %.0f s: %s",
                     (double)saver->every_us * 1e-6, mr_last_error());
        due_us = clock_now_us(clock_real()) + saver->every_us;
    }
    return NULL;
}

mr_status mr_model_saver_open(const char *folder, double every_s, mr_model_saver **out) {
    pthread_condattr_t clock;
    if (!(every_s > 0) || every_s > EVERY_MAX_S)
        return error_set(MR_INVALID, "checkpoint_every is %g; expected seconds, above 0 and at most %d", every_s,
                         EVERY_MAX_S);
    mr_model_saver *saver = XNEW(mr_model_saver, .folder = xstrdup(folder), .every_us = (int64_t)(every_s * 1e6));
    pthread_mutex_init(&saver->mutex, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&saver->changed, &clock);
    pthread_condattr_destroy(&clock);
    int error = thread_start(&saver->thread, serve, saver);
    if (error == 0) {
        *out = saver;
        return MR_OK;
    }
    free(saver->folder);
    free(saver);
    return error_set(MR_NOMEM, "cannot start the thread that writes checkpoints to %s: %s", folder, strerror(error));
}

mr_status mr_model_saver_offer(mr_model_saver *saver, const mr_model_checkpoint *facts, mr_value model) {
    offer offer = {.facts = *facts, .model = model};
    size_t weights = facts->weight_count * sizeof *facts->weights;
    mr_status status = alloc_try(weights + facts->state.size + 1, &offer.memory);
    if (status != MR_OK) {
        mr_value_release(&model);
        return status;
    }
    if (weights > 0) memcpy(offer.memory, facts->weights, weights);
    if (facts->state.size > 0) memcpy((uint8_t *)offer.memory + weights, facts->state.data, facts->state.size);
    offer.facts.weights = offer.memory;
    offer.facts.state = (mr_span){(uint8_t *)offer.memory + weights, facts->state.size};
    pthread_mutex_lock(&saver->mutex);
    struct offer before = saver->waiting;
    bool had = saver->has_waiting;
    saver->waiting = offer;
    saver->has_waiting = true;
    pthread_cond_signal(&saver->changed);
    pthread_mutex_unlock(&saver->mutex);
    if (had) offer_fini(&before);
    return MR_OK;
}

void mr_model_saver_close(mr_model_saver *saver) {
    if (saver == NULL) return;
    pthread_mutex_lock(&saver->mutex);
    saver->ends = true;
    pthread_cond_signal(&saver->changed);
    pthread_mutex_unlock(&saver->mutex);
    pthread_join(saver->thread, NULL);
    pthread_cond_destroy(&saver->changed);
    pthread_mutex_destroy(&saver->mutex);
    free(saver->folder);
    free(saver);
}
