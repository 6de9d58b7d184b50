/* aggregate.h — aggregation of the models of all workers in one pass over memory, on several threads.
 *
 * Each tensor is cut into pieces of a few hundred kilobytes; the members of a thread pool take piece after piece. A
 * piece is folded stretch by stretch (reduction.h): every input is read once, the result is written once to each of its
 * outputs. An output may be one of the inputs, or `previous`: a stretch is read whole before anything of it is written,
 * so a model that lies in shared memory is synced in place.
 *
 * fp32 and fp64 are folded as they are; fp16 and bf16 are widened to fp32, folded and rounded once. Integers and bools
 * (counters, masks) are the first worker's.
 *
 * Same inputs, same bits: whatever the thread pool, the compiler and the machine. */
#pragma once
#include <stddef.h>

#include "miniray/value.h"
#include "train/reduction.h"
#include "train/thread_pool.h"

typedef struct aggregate_tensor { /* one tensor, of all workers */
    mr_dtype dtype;
    size_t count;            /* items */
    const void *const *rows; /* one for each worker, aligned to the item */
    const void *previous;    /* of momentum */
    void *const *outputs;    /* ≥ 1 */
    size_t output_count;
} aggregate_tensor;

/* Pure arithmetic: fails only without memory (MR_NOMEM), and then nothing was written. The thread pool may be NULL. */
MR_MUST mr_status aggregate(const reduction *reduction, const aggregate_tensor *tensors, size_t count,
                            thread_pool *pool);
