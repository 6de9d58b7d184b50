/* train_bench.c — overhead of a trainer beyond the work of its workers. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/suites.h"
#include "miniray/train.h"

enum { WORKERS = 4, WORK_US = 5000, WEIGHTS = 90 * 1000, WARM = 5, EPOCHS_MAX = 4096 };

typedef struct trainee {
    int64_t id;
    float weights[WEIGHTS];
} trainee;

MR_CREATE(BenchTrainee) {
    trainee *self = calloc(1, sizeof *self);
    MR_TRY(mr_set_self(call, self, free));
    return mr_arg_int(call, 0, &self->id);
}

MR_METHOD(BenchTrainee, train_epoch) { /* each worker reports its duration under its own name */
    const trainee *self = mr_self(call);
    char name[32];
    int64_t began = clock_ns();
    usleep(WORK_US);
    snprintf(name, sizeof name, "work%d", (int)self->id);
    mr_arg result[] = {mr_str(name), mr_float((double)(clock_ns() - began) / 1e6)};
    return mr_return(call, mr_map(result, 1));
}

MR_METHOD(BenchTrainee, get_weights) {
    const trainee *self = mr_self(call);
    mr_arg weights = mr_vector(self->weights, WEIGHTS);
    return mr_return(call, mr_list(&weights, 1));
}

MR_METHOD(BenchTrainee, set_weights) { return MR_OK; }

static void must(mr_status status) {
    if (status != MR_OK) bench_fail("%s: %s", mr_status_name(status), mr_last_error());
}

static double longest_work(const mr_value *result) {
    double longest = 0, number;
    for (int i = 0; i < WORKERS; i++) {
        char name[32];
        mr_value value;
        snprintf(name, sizeof name, "work%d", i);
        must(mr_value_field(result, name, &value));
        must(mr_value_float(&value, &number));
        if (number > longest) longest = number;
    }
    return longest;
}

/* Milliseconds of an epoch without worker time and without sync; and milliseconds of the sync. */
static void overhead(const bench_run *run, const void *argument, double *values) {
    mr_context *mr;
    mr_trainer *trainer;
    mr_trainer_report before, after;
    bench_samples beyond, syncs;
    bench_samples_init(&beyond, EPOCHS_MAX);
    bench_samples_init(&syncs, EPOCHS_MAX);
    must(mr_init(&MR_OPTIONS(mr_options, .num_workers = WORKERS, .store_bytes = 128 << 20), &mr));
    mr_trainer_options options = MR_OPTIONS(mr_trainer_options, .num_workers = WORKERS, .worker_class = "BenchTrainee");
    must(mr_trainer_create(mr, &options, &trainer));
    int64_t end = clock_ns() + (int64_t)(run->seconds * 1e9);
    for (int64_t epoch = 0; epoch < EPOCHS_MAX && (epoch < 4 * WARM || clock_ns() < end); epoch++) {
        mr_value result;
        mr_trainer_report_get(trainer, &before);
        int64_t began = clock_ns();
        must(mr_trainer_epoch(trainer, epoch, true, &result));
        double took = (double)(clock_ns() - began) / 1e6;
        mr_trainer_report_get(trainer, &after);
        double sync = (after.sync_s - before.sync_s) * 1e3;
        if (epoch >= WARM) {
            bench_samples_add(&beyond, took - sync - longest_work(&result));
            bench_samples_add(&syncs, sync);
        }
        mr_value_release(&result);
    }
    values[0] = bench_samples_percentile(&beyond, 50);
    values[1] = bench_samples_percentile(&syncs, 50);
    mr_trainer_destroy(trainer);
    mr_shutdown(mr);
}

void train_bench(bench *b) {
    static const bench_row rows[] = {
        {.name = "an epoch of 4 workers, beyond the slowest", .unit = "ms", .bar = {BENCH_VALUE_AT_MOST, 2}},
        {.name = "its sync, 90 k floats", .unit = "ms", .value = 1},
    };
    bench_measure(b, &(bench_pair){.ours = overhead}, rows, sizeof rows / sizeof *rows);
}
