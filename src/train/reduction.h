/* reduction.h — reduction kernels of a sync: a range of one tensor of all workers into one.
 *
 *   average    ((r0 + r1) + r2 + …) / W, added in the order of the workers
 *   weighted   (s0·r0 + s1·r1) + s2·r2 + …, the shares sum to one
 *   median     the middle one; of an even number the mean of the two in the middle
 *   trimmed    the mean without the `trim` largest and the `trim` smallest, added from small to large
 *   max        the largest
 *   momentum   on top of any: keep·previous + (1 − keep)·that
 *
 * A NaN of any worker makes the item NaN, whatever the kind. Items never meet each other, so the result does not depend
 * on how a tensor is cut into stretches or which thread folds which; and no operation is fused or reordered, so the
 * result has the same bits from every compiler and on every machine.
 *
 * A stretch is small enough for the first cache: each input is read from memory once, in step with the others, and all
 * that is in between stays close. The order statistics run a merge-exchange network (Batcher; Knuth 5.2.2 M) over whole
 * rows: every comparison is a vector's minimum and maximum, nothing branches on data. */
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
    size_t trim;          /* trimmed: at each end; 2·trim < workers */
    bool moves;           /* momentum */
    double keep;          /* 0…1 */
} reduction;

/* The longest stretch, in items, and the room that one needs, in items. */
size_t reduction_step(const reduction *reduction);
size_t reduction_scratch(const reduction *reduction);

/* rows: one for each worker. previous: of momentum, else ignored. `out` and `scratch` overlap nothing.
 * count ≤ reduction_step. */
void fold_f32(const reduction *reduction, const float *const *rows, const float *previous, float *out, size_t count,
              float *scratch);
void fold_f64(const reduction *reduction, const double *const *rows, const double *previous, double *out, size_t count,
              double *scratch);
