/* reduction.h — reduction kernels of a sync: combine a range of one tensor of all workers.
 *
 *   average    ((r0 + r1) + r2 + …) / W, added in the order of the workers
 *   weighted   (s0·r0 + s1·r1) + s2·r2 + …, the shares sum to one
 *   median     the middle item; for an even number of workers the mean of the two middle items
 *   trimmed    the mean without the `trim` largest and the `trim` smallest, added from small to large
 *   max        the largest item
 *   momentum   in addition to any of these: keep·previous + (1 − keep)·result
 *
 * A NaN of any worker makes the item NaN, with every kind. Items are independent of each other, so the result does not
 * depend on how a tensor is divided into stretches or which thread folds which. No operation is fused or reordered, so
 * the result has the same bits with every compiler and on every machine.
 *
 * A stretch is small enough for the first-level cache: each input is read from memory once, and intermediate results
 * stay in the cache. The order statistics run a merge-exchange network (Batcher; Knuth 5.2.2 M) over whole rows: every
 * comparison is a vector minimum and maximum, without branches on data. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef enum reduction_kind {
    REDUCTION_AVERAGE,
    REDUCTION_WEIGHTED,
    REDUCTION_MEDIAN,
    REDUCTION_TRIMMED,
    REDUCTION_MAX
} reduction_kind;

typedef struct reduction {
    reduction_kind kind;
    size_t workers;       /* ≥ 1 */
    const double *shares; /* weighted: one for each worker */
    size_t trim;          /* trimmed: workers left out at each end; 2·trim < workers */
    bool moves;           /* true: momentum */
    double keep;          /* of momentum: 0…1 */
} reduction;

/* The items of the longest stretch, and the items of scratch memory that it needs. */
size_t reduction_step(const reduction *reduction);
size_t reduction_scratch(const reduction *reduction);

/* rows: one for each worker. previous: for momentum, else ignored. `out` and `scratch` do not overlap other parameters.
 * count ≤ reduction_step. */
void fold_f32(const reduction *reduction, const float *const *rows, const float *previous, float *out, size_t count,
              float *scratch);
void fold_f64(const reduction *reduction, const double *const *rows, const double *previous, double *out, size_t count,
              double *scratch);
