/* aggregate.h — aggregation of the models of all workers in one pass over memory, on several threads.
 *
 * Each tensor is divided into pieces of a few hundred kilobytes, which the members of a thread pool take one by one. A
 * piece is folded stretch by stretch (reduction.h): each input is read once, and the result is written once to each
 * output. An output may be one of the inputs, or `previous`: a stretch is read completely before its result is written,
 * so a model in shared memory is synced in place.
 *
 * fp32 and fp64 are folded in their type; fp16 and bf16 are widened to fp32, folded and rounded once. Integers and
 * bools (counters, masks) are those of the first worker.
 *
 * The same inputs give the same bits with every thread pool, compiler and machine. */
#pragma once
#include <stddef.h>

#include "miniray/value.h"
#include "train/reduction.h"
#include "train/thread_pool.h"

typedef struct aggregate_tensor { /* one tensor, of all workers */
    mr_dtype dtype;
    size_t count;            /* items */
    const void *const *rows; /* one for each worker, aligned to the item */
    const void *previous;    /* for momentum: the tensor of the previous model */
    void *const *outputs;    /* ≥ 1 */
    size_t output_count;
} aggregate_tensor;

/* Fails only with MR_NOMEM, before any output is written. The thread pool may be NULL. */
MR_MUST mr_status aggregate(const reduction *reduction, const aggregate_tensor *tensors, size_t count,
                            thread_pool *pool);
