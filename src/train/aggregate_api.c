/* aggregate_api.c — mr_aggregate and strategies (miniray/model.h). All arguments are checked before the aggregation. */
#include "train/aggregate_api.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "base/option_struct.h"
#include "train/aggregate.h"
#include "train/tensor_shape.h"

enum {
    WORKERS_MAX = 1 << 20,
    TENSORS_MAX = 1 << 24,
    ALONE_BYTES = 8 << 20 /* of all models together; smaller ones are done before other threads are awake */
};

/* ---- Strategies. */

const char *mr_sync_strategy_names(void) { return "average, weighted, momentum, median, trimmed_mean, max"; }

/* Reads an option: zero is the default, a negative number is none (miniray/status.h). */
static mr_status option(const char *what, double value, double usual, double limit, double *out) {
    if (!(value < limit)) return error_set(MR_INVALID, "%s is %g; it must be below %g", what, value, limit);
    *out = value == 0 ? usual : value < 0 ? 0 : value;
    return MR_OK;
}

/* The sum of the weights. */
static mr_status total_weight(const double *weights, size_t workers, double *out) {
    double total = 0;
    for (size_t w = 0; w < workers; w++) {
        if (!isfinite(weights[w])) return error_set(MR_INVALID, "the weight of worker %zu is %g", w, weights[w]);
        total += weights[w];
    }
    if (!(total > 0) || isinf(total))
        return error_set(MR_INVALID, "the weights of all workers add up to %g; the sum must be positive and finite",
                         total);
    *out = total;
    return MR_OK;
}

/* `shares` has room for one number for each worker. */
static mr_status weighted(const mr_sync_strategy *strategy, reduction *reduction, double *shares) {
    double total = (double)reduction->workers;
    if (strategy->weights != NULL) MR_TRY(total_weight(strategy->weights, reduction->workers, &total));
    for (size_t w = 0; w < reduction->workers; w++)
        shares[w] = (strategy->weights == NULL ? 1 : strategy->weights[w]) / total;
    reduction->kind = REDUCTION_WEIGHTED;
    reduction->shares = shares;
    return MR_OK;
}

static mr_status momentum(const mr_sync_strategy *strategy, reduction *reduction, bool has_previous) {
    reduction->moves = has_previous;
    return option("momentum", strategy->momentum, 0.9, 1, &reduction->keep);
}

static mr_status trimmed(const mr_sync_strategy *strategy, reduction *reduction) {
    double trim = 0;
    MR_TRY(option("trim", strategy->trim, 0.1, 0.5, &trim));
    reduction->kind = REDUCTION_TRIMMED;
    reduction->trim = (size_t)(trim * (double)reduction->workers);
    return MR_OK;
}

static mr_status choose(const mr_sync_strategy *strategy, bool has_previous, reduction *reduction, double *shares) {
    const char *name = strategy == NULL || strategy->name == NULL ? "average" : strategy->name;
    if (strcmp(name, "average") == 0) return MR_OK; /* a zeroed reduction is the average */
    if (strcmp(name, "weighted") == 0) return weighted(strategy, reduction, shares);
    if (strcmp(name, "momentum") == 0) return momentum(strategy, reduction, has_previous);
    if (strcmp(name, "trimmed_mean") == 0) return trimmed(strategy, reduction);
    if (strcmp(name, "median") == 0) {
        reduction->kind = REDUCTION_MEDIAN;
    } else if (strcmp(name, "max") == 0) {
        reduction->kind = REDUCTION_MAX;
    } else {
        char hint[NEAREST_NAME_HINT_MAX];
        return error_set(MR_INVALID, "unknown strategy '%.64s'; expected one of %s%s", name, mr_sync_strategy_names(),
                         nearest_name_among(name, mr_sync_strategy_names(), hint));
    }
    return MR_OK;
}

/* ---- Tensors. */

static mr_status tensor_check(const mr_tensor *tensor, const char *whose, size_t worker, size_t index) {
    size_t size = mr_dtype_size(tensor->dtype), items = 1;
    char text[TENSOR_SHAPE_TEXT_MAX];
    bool sound = size > 0 && tensor->dims >= 0 && tensor->dims <= MR_TENSOR_DIMS_MAX;
    for (int i = 0; sound && i < tensor->dims; i++)
        sound = tensor->shape[i] >= 0 && !__builtin_mul_overflow(items, (size_t)tensor->shape[i], &items);
    sound = sound && !__builtin_mul_overflow(items, size, &items) && items == tensor->bytes;
    if (sound && tensor->data == NULL && items > 0) sound = false;
    if (sound && (uintptr_t)tensor->data % size != 0) sound = false;
    if (sound) return MR_OK;
    return error_set(MR_INVALID, "tensor %zu of %s %zu is %s, but has %zu bytes at %p: wrong size or address", index,
                     whose, worker, tensor_shape_text(tensor, text), tensor->bytes, tensor->data);
}

static mr_status tensors_match(const mr_tensor *first, const mr_tensor *other, const char *whose, size_t worker,
                               size_t index) {
    char one[TENSOR_SHAPE_TEXT_MAX], two[TENSOR_SHAPE_TEXT_MAX];
    MR_TRY(tensor_check(other, whose, worker, index));
    if (tensor_shape_same(first, other)) return MR_OK;
    return error_set(MR_INVALID, "tensor %zu of %s %zu is %s, that of worker 0 is %s", index, whose, worker,
                     tensor_shape_text(other, two), tensor_shape_text(first, one));
}

static mr_status models_match(const mr_tensor *const *models, size_t workers, size_t count, const mr_tensor *previous) {
    for (size_t i = 0; i < count; i++) {
        for (size_t w = 0; w < workers; w++) MR_TRY(tensors_match(&models[0][i], &models[w][i], "worker", w, i));
        if (previous != NULL) MR_TRY(tensors_match(&models[0][i], &previous[i], "the model before", 0, i));
    }
    return MR_OK;
}

/* ---- Aggregation. */

typedef struct plan { /* owned, one block */
    aggregate_tensor *tensors;
    const void **rows; /* for each tensor in turn, a row for each worker */
    double *shares;
} plan;

static mr_status plan_open(plan *plan, size_t workers, size_t count) {
    size_t tensors = count * sizeof *plan->tensors, shares = workers * sizeof *plan->shares, rows;
    if (__builtin_mul_overflow(workers * sizeof *plan->rows, count, &rows) || rows > SIZE_MAX / 4)
        return error_set(MR_NOMEM, "out of memory for %zu tensors of %zu workers", count, workers);
    MR_TRY(alloc_try(tensors + shares + rows, &plan->tensors));
    plan->shares = (void *)(plan->tensors + count);
    plan->rows = (void *)(plan->shares + workers);
    return MR_OK;
}

static size_t plan_fill(plan *plan, const mr_tensor *const *models, size_t workers, size_t count,
                        const mr_tensor *previous, void *const *out, size_t each) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const void **rows = plan->rows + i * workers;
        for (size_t w = 0; w < workers; w++) rows[w] = models[w][i].data;
        plan->tensors[i] = (aggregate_tensor){.dtype = models[0][i].dtype,
                                              .count = models[0][i].bytes / mr_dtype_size(models[0][i].dtype),
                                              .rows = rows,
                                              .previous = previous == NULL ? NULL : previous[i].data,
                                              .outputs = &out[i * each],
                                              .output_count = each};
        bytes += models[0][i].bytes;
    }
    return bytes;
}

mr_status mr_aggregate(const mr_sync_strategy *strategy, const mr_tensor *const *models, size_t workers, size_t count,
                       const mr_tensor *previous, void *const *out) {
    mr_sync_strategy copy;
    OPTION_STRUCT_READ(mr_sync_strategy, trim, strategy, copy);
    return model_aggregate(strategy, models, workers, count, previous, out, 1);
}

mr_status model_aggregate(const mr_sync_strategy *strategy, const mr_tensor *const *models, size_t workers,
                          size_t count, const mr_tensor *previous, void *const *out, size_t each) {
    if (workers == 0 || workers > WORKERS_MAX || count > TENSORS_MAX)
        return error_set(MR_INVALID, "%zu models of %zu tensors each: expected 1 to %d of at most %d", workers, count,
                         WORKERS_MAX, TENSORS_MAX);
    if (models == NULL || (out == NULL && count > 0))
        return error_set(MR_INVALID, "mr_aggregate: NULL for models or out");
    MR_TRY(models_match(models, workers, count, previous));
    reduction reduction = {.workers = workers};
    plan plan = {0};
    MR_TRY(plan_open(&plan, workers, count));
    mr_status status = choose(strategy, previous != NULL, &reduction, plan.shares);
    if (status == MR_OK) {
        size_t bytes = plan_fill(&plan, models, workers, count, previous, out, each);
        thread_pool *pool = NULL;
        if (bytes * workers > ALONE_BYTES) status = thread_pool_create(0, &pool);
        if (status == MR_OK) status = aggregate(&reduction, plan.tensors, count, pool);
        thread_pool_destroy(pool);
    }
    free(plan.tensors);
    return status;
}
