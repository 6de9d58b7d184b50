/* trainer.c — see trainer.h. This file: creation, end and epochs. Tested by tests/train_test.c. */
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/option_struct.h"
#include "base/plural.h"
#include "train/epoch_result.h"
#include "train/sync_errors.h"
#include "train/trainer_workers.h"

enum { SLICE_US = 50 * 1000, AT_ONCE = 64 };

bool trainer_is_death(mr_status status) {
    return status == MR_ACTOR_DIED || status == MR_WORKER_DIED || status == MR_PEER_DIED;
}

bool trainer_wants_no_shard(mr_status status) {
    return status == MR_NOT_FOUND && strstr(mr_last_error(), "unknown method 'load_data_shard'") != NULL;
}

static bool goes_on(mr_trainer *trainer) {
    return trainer->options.poll == NULL || trainer->options.poll(trainer->options.user, trainer->done);
}

static mr_status interrupted(size_t done) {
    return error_set(MR_CANCELLED, "interrupted after %zu epoch%s", done, plural(done));
}

/* ---- Failures. */

static void forget_failure(mr_trainer *trainer) {
    if (trainer->has_failed) mr_release(trainer->mr, trainer->failed);
    trainer->has_failed = false;
}

static mr_status keep_failure(mr_trainer *trainer, size_t worker, mr_ref ref, mr_status status) {
    forget_failure(trainer);
    trainer->has_failed = true;
    trainer->failed = ref;
    trainer->failed_worker = worker;
    return worker == SIZE_MAX ? status : error_wrap(status, "worker %zu", worker);
}

mr_status trainer_finish(mr_trainer *trainer, size_t worker, mr_ref ref, mr_value *out) {
    mr_value value;
    mr_status status = mr_get(trainer->mr, ref, 0, &value);
    while (status == MR_TIMEOUT && goes_on(trainer)) status = mr_get(trainer->mr, ref, SLICE_US, &value);
    if (status == MR_TIMEOUT) {
        (void)!mr_cancel(trainer->mr, ref); /* fails if the call has ended meanwhile */
        mr_release(trainer->mr, ref);
        return interrupted(trainer->result_count);
    }
    if (status != MR_OK) return keep_failure(trainer, worker, ref, status);
    mr_release(trainer->mr, ref);
    if (out != NULL)
        *out = value;
    else
        mr_value_release(&value);
    return MR_OK;
}

mr_status mr_trainer_failed(const mr_trainer *trainer, size_t *worker, mr_ref *ref) {
    if (!trainer->has_failed) return error_set(MR_NOT_FOUND, "mr_trainer_failed: no call of a worker has failed");
    *worker = trainer->failed_worker;
    *ref = trainer->failed;
    return MR_OK;
}

/* ---- Creation and end. */

static mr_status check_options(const mr_trainer_options *options) {
    if (options->num_workers < 1)
        return error_set(MR_INVALID, "num_workers is %zu: a trainer needs at least one worker", options->num_workers);
    if (options->max_failures < 0)
        return error_set(MR_INVALID, "max_failures is %d: a number of deaths, 0 or more", options->max_failures);
    if (options->args == NULL && options->arg_count > 0)
        return error_set(MR_INVALID, "arg_count is %zu, but args is NULL", options->arg_count);
    if ((options->ops == NULL) == (options->worker_class == NULL))
        return error_set(MR_INVALID, "a trainer needs a worker_class or ops: %s",
                         options->ops == NULL ? "both are NULL" : "both are set");
    return MR_OK;
}

static mr_status check_ops(const mr_trainer_ops *ops) {
    const char *missing = ops->create == NULL                         ? "create"
                          : ops->load == NULL                         ? "load"
                          : ops->train == NULL                        ? "train"
                          : ops->alive == NULL                        ? "alive"
                          : ops->sync != NULL && ops->gather == NULL  ? "gather"
                          : ops->sync != NULL && ops->restore == NULL ? "restore"
                                                                      : NULL;
    return missing == NULL ? MR_OK : error_set(MR_INVALID, "ops.%s is NULL", missing);
}

mr_status mr_trainer_create(mr_context *mr, const mr_trainer_options *options, mr_trainer **out) {
    mr_trainer_options copy;
    mr_trainer_ops ops_copy;
    if (options == NULL)
        return error_set(MR_INVALID,
                         "mr_trainer_create: options is NULL; a trainer needs num_workers and a worker_class");
    OPTION_STRUCT_READ(mr_trainer_options, ops, options, copy);
    MR_TRY(check_options(options));
    const mr_trainer_ops *ops = options->ops;
    OPTION_STRUCT_READ(mr_trainer_ops, read, ops, ops_copy);
    if (ops != NULL) MR_TRY(check_ops(ops));
    mr_trainer *trainer;
    MR_TRY(alloc_try(sizeof *trainer, &trainer));
    *trainer = (mr_trainer){.mr = mr, .options = *options, .ops = ops, .ops_user = options->user};
    if (trainer->options.sync_interval == 0) trainer->options.sync_interval = 1;
    if (ops == &ops_copy) {
        trainer->given_ops = ops_copy;
        trainer->ops = &trainer->given_ops;
    }
    mr_status status = alloc_try(options->num_workers * sizeof *trainer->workers, &trainer->workers);
    if (status == MR_OK && options->ops == NULL) {
        status = trainer_workers_create(mr, &trainer->options, &trainer->own);
        trainer->ops = &trainer_workers_ops;
        trainer->ops_user = trainer->own;
    }
    if (status != MR_OK)
        mr_trainer_destroy(trainer);
    else
        *out = trainer;
    return status;
}

static void forget_result(trainer_worker *worker) {
    if (worker->has_result) mr_value_release(&worker->result);
    worker->has_result = false;
}

static void forget_weights(mr_trainer *trainer, trainer_worker *worker) {
    if (!worker->is_gathered) return;
    sync_errors_hush(trainer->mr, &worker->weights,
                     1); /* a failure is reported by train_epoch, which was called before */
    mr_release(trainer->mr, worker->weights);
    worker->is_gathered = false;
}

/* Cancels pending calls without waiting for them; releases results and weights. */
static void abandon(mr_trainer *trainer) {
    for (size_t i = 0; i < trainer->options.num_workers; i++) {
        trainer_worker *worker = &trainer->workers[i];
        if (worker->is_called) {
            (void)!mr_cancel(trainer->mr, worker->call); /* fails if the call has ended meanwhile */
            mr_release(trainer->mr, worker->call);
        }
        forget_result(worker);
        forget_weights(trainer, worker);
        worker->is_called = false;
    }
}

/* Does the same after a failure and keeps its error, which cancelling ended calls would replace. Failures of the other
 * calls are not printed. */
static mr_status give_up(mr_trainer *trainer, mr_status status) {
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s", mr_last_error());
    for (size_t i = 0; status != MR_CANCELLED && i < trainer->options.num_workers; i++)
        if (trainer->workers[i].is_called) sync_errors_hush(trainer->mr, &trainer->workers[i].call, 1);
    abandon(trainer);
    return error_set(status, "%s", text);
}

void mr_trainer_detach(mr_trainer *trainer) {
    for (size_t i = 0; i < trainer->options.num_workers; i++)
        trainer->workers[i].is_called = trainer->workers[i].is_gathered = false;
    trainer->has_failed = false;
    trainer->result_count = 0;
    if (trainer->own == NULL) return;
    trainer->own->made = 0; /* mr_shutdown has ended the actors */
    trainer->own->has_server = false;
}

void mr_trainer_destroy(mr_trainer *trainer) {
    if (trainer == NULL) return;
    if (trainer->workers != NULL) abandon(trainer);
    forget_failure(trainer);
    for (size_t i = 0; i < trainer->result_count; i++) mr_release(trainer->mr, trainer->results[i]);
    free(trainer->results);
    trainer_workers_destroy(trainer->own);
    free(trainer->workers);
    free(trainer);
}

mr_status mr_trainer_start(mr_trainer *trainer) {
    size_t count = trainer->options.num_workers;
    if (trainer->is_started) return MR_OK;
    forget_failure(trainer);
    for (size_t i = 0; i < count; i++) MR_TRY(trainer->ops->create(trainer->ops_user, i));
    for (size_t i = 0; i < count; i++) {
        trainer_worker *worker = &trainer->workers[i];
        mr_status status = trainer->ops->load(trainer->ops_user, i, &worker->call);
        worker->is_called = status == MR_OK;
        if (status != MR_OK && status != MR_END) return give_up(trainer, status);
    }
    for (size_t i = 0; i < count; i++) {
        trainer_worker *worker = &trainer->workers[i];
        if (!worker->is_called) continue;
        worker->is_called = false;
        mr_status status = trainer_finish(trainer, i, worker->call, NULL);
        if (trainer_is_death(status)) status = trainer_recover_worker(trainer, i, status);
        if (status != MR_OK && !trainer_wants_no_shard(status)) return give_up(trainer, status);
    }
    forget_failure(trainer);
    trainer->is_started = true;
    return MR_OK;
}

/* ---- An epoch. */

mr_status trainer_gather(mr_trainer *trainer, size_t index) {
    trainer_worker *worker = &trainer->workers[index];
    if (!trainer->gathers) return MR_OK;
    forget_weights(trainer, worker);
    mr_status status = trainer->ops->gather(trainer->ops_user, index, &worker->weights);
    worker->is_gathered = status == MR_OK;
    return status;
}

mr_status trainer_gathered(mr_trainer *trainer, size_t index) {
    const trainer_worker *worker = &trainer->workers[index];
    if (!worker->is_gathered) return MR_OK;
    MR_TRY(mr_retain(trainer->mr, worker->weights));
    return trainer_finish(trainer, index, worker->weights, NULL);
}

static mr_status take(mr_trainer *trainer, size_t index, int64_t epoch) {
    trainer_worker *worker = &trainer->workers[index];
    worker->ended_ns = clock_ns();
    worker->is_called = false;
    mr_status status = trainer_finish(trainer, index, worker->call, &worker->result);
    worker->has_result = status == MR_OK;
    if (status == MR_OK) status = trainer_gathered(trainer, index);
    if (!trainer_is_death(status)) return status;
    MR_TRY(trainer_redo(trainer, index, epoch, status));
    worker->ended_ns = clock_ns();
    return MR_OK;
}

/* Waits for at most SLICE_US until a call has ended; takes the results of all ended ones. */
static mr_status take_some(mr_trainer *trainer, int64_t epoch) {
    size_t count = trainer->options.num_workers, waiting = 0, ready_count;
    mr_ref refs[AT_ONCE] = {0};
    size_t who[AT_ONCE] = {0};
    unsigned char ready[AT_ONCE] = {0};
    for (size_t i = 0; i < count && waiting < AT_ONCE; i++)
        if (trainer->workers[i].is_called) {
            who[waiting] = i;
            refs[waiting++] = trainer->workers[i].call;
        }
    mr_status status = mr_wait(trainer->mr, refs, waiting, 1, SLICE_US, ready, &ready_count);
    if (status != MR_OK && status != MR_TIMEOUT) return status;
    for (size_t i = 0; i < waiting; i++) {
        if (ready[i] == 0) continue;
        MR_TRY(take(trainer, who[i], epoch));
        trainer->done++;
    }
    return goes_on(trainer) ? MR_OK : interrupted(trainer->result_count);
}

static mr_status train(mr_trainer *trainer, int64_t epoch) {
    size_t count = trainer->options.num_workers;
    trainer->done = 0;
    for (size_t i = 0; i < count; i++) {
        trainer_worker *worker = &trainer->workers[i];
        forget_result(worker);
        worker->began_ns = clock_ns();
        mr_status status = trainer->ops->train(trainer->ops_user, i, epoch, &worker->call);
        worker->is_called = status == MR_OK;
        if (status == MR_OK) status = trainer_gather(trainer, i);
        if (status == MR_OK) continue;
        if (!trainer_is_death(status)) return status;
        if (worker->is_called) {
            sync_errors_hush(trainer->mr, &worker->call, 1); /* not printed: the dead worker is replaced */
            mr_release(trainer->mr, worker->call);
        }
        worker->is_called = false;
        MR_TRY(trainer_redo(trainer, i, epoch, status));
        worker->ended_ns = clock_ns();
        trainer->done++;
    }
    while (trainer->done < count) MR_TRY(take_some(trainer, epoch));
    return MR_OK;
}

static mr_status read_results(mr_trainer *trainer) {
    for (size_t i = 0; i < trainer->options.num_workers; i++) {
        mr_value *result = &trainer->workers[i].result;
        mr_kind kind = mr_value_kind(result);
        if (kind != MR_KIND_MAP && trainer->ops->read != NULL) {
            MR_TRY(trainer->ops->read(trainer->ops_user, result));
        } else if (kind == MR_KIND_NIL && !trainer->warned) {
            trainer->warned = true;
            log_warn(
                "train_epoch of worker %zu returned nothing, so the result of the epoch has nothing of it; return a "
                "map of names to numbers",
                i);
        }
    }
    return MR_OK;
}

/* Adds the average to the history and returns it as a value. synced NULL: the result has no field "synced". */
static mr_status summarize(mr_trainer *trainer, const bool *synced, mr_value *out) {
    size_t count = trainer->options.num_workers, fields;
    report report;
    mr_arg average;
    mr_ref ref;
    report_init(&report);
    mr_value *results = report_alloc(&report, count * sizeof *results);
    for (size_t i = 0; i < count; i++) results[i] = trainer->workers[i].result;
    mr_status status = epoch_result_average(&report, results, count, &average);
    if (status == MR_OK) {
        fields = average.items.count;
        mr_arg *items = report_alloc(&report, 2 * (fields + 1) * sizeof *items);
        for (size_t i = 0; i < 2 * fields; i++) items[i] = average.items.first[i];
        items[2 * fields] = mr_str("synced");
        items[2 * fields + 1] = mr_bool(synced != NULL && *synced);
        status = mr_put(trainer->mr, mr_map(items, fields + (synced != NULL)), &ref);
    }
    report_fini(&report);
    if (status != MR_OK) return status;
    status = alloc_try_grow(&trainer->results, &trainer->result_capacity, trainer->result_count + 1, sizeof ref);
    if (status != MR_OK) {
        mr_release(trainer->mr, ref);
        return status;
    }
    trainer->results[trainer->result_count++] = ref;
    return mr_get(trainer->mr, ref, MR_FOREVER, out);
}

static void note_times(mr_trainer *trainer, int64_t began_ns, int64_t trained_ns, bool is_synced) {
    mr_trainer_report *report = &trainer->report;
    int64_t now_ns = clock_ns();
    report->epochs++;
    report->syncs += is_synced;
    report->train_s += (double)(trained_ns - began_ns) / 1e9;
    if (is_synced) report->sync_s += (double)(now_ns - trained_ns) / 1e9;
    report->epoch_s = (double)(now_ns - began_ns) / 1e9;
    report->slowest_s = report->fastest_s = -1;
    for (size_t i = 0; i < trainer->options.num_workers; i++) {
        double took = (double)(trainer->workers[i].ended_ns - trainer->workers[i].began_ns) / 1e9;
        if (took > report->slowest_s) {
            report->slowest_s = took;
            report->slowest = i;
        }
        if (report->fastest_s < 0 || took < report->fastest_s) report->fastest_s = took;
    }
}

static mr_status run_epoch(mr_trainer *trainer, int64_t epoch, bool sync, mr_value *out) {
    int64_t interval = trainer->options.sync_interval, began_ns = clock_ns();
    bool due = sync && trainer->ops->sync != NULL && interval > 0 && (epoch + 1) % interval == 0;
    trainer->gathers = due && trainer->options.max_failures > 0;
    MR_TRY(train(trainer, epoch));
    int64_t trained_ns = clock_ns();
    if (due) MR_TRY(trainer_sync(trainer, epoch));
    MR_TRY(read_results(trainer));
    note_times(trainer, began_ns, trained_ns, due);
    return summarize(trainer, sync ? &due : NULL, out);
}

mr_status mr_trainer_epoch(mr_trainer *trainer, int64_t epoch, bool sync, mr_value *out) {
    MR_TRY(mr_trainer_start(trainer));
    forget_failure(trainer);
    if (trainer->report.epochs == 0) trainer->base = epoch;
    if (!sync || trainer->options.sync_interval < 0)
        trainer->base = epoch; /* without syncs, a replaced worker repeats only this epoch */
    mr_status status = run_epoch(trainer, epoch, sync, out);
    trainer->done = 0;
    if (status != MR_OK) return give_up(trainer, status);
    abandon(trainer);
    return MR_OK;
}

mr_status mr_trainer_history(mr_trainer *trainer, size_t index, mr_value *out) {
    if (index >= trainer->result_count)
        return error_set(MR_NOT_FOUND, "no result of epoch %zu: the trained epochs are %zu", index,
                         trainer->result_count);
    return mr_get(trainer->mr, trainer->results[index], MR_FOREVER, out);
}

mr_status mr_trainer_worker(const mr_trainer *trainer, size_t worker, mr_actor *out) {
    if (trainer->own == NULL || !trainer->is_started)
        return error_set(MR_INVALID, "no actor of worker %zu: not started, or with ops", worker);
    if (worker >= trainer->options.num_workers)
        return error_set(MR_INVALID, "no worker %zu: workers are 0 to %zu", worker, trainer->options.num_workers - 1);
    *out = trainer->own->actors[worker];
    return MR_OK;
}

mr_status mr_trainer_server(const mr_trainer *trainer, mr_actor *out) {
    if (trainer->own == NULL || !trainer->is_started)
        return error_set(MR_INVALID, "mr_trainer_server: the trainer has not started, or has ops");
    *out = trainer->own->server;
    return MR_OK;
}

void mr_trainer_report_get(const mr_trainer *trainer, mr_trainer_report *out) { *out = trainer->report; }
