/* reduction.c — see reduction.h. The kernels are in reduction_real.inc, compiled for float and for double; this file
 * computes the size of a stretch. */
#include "train/reduction.h"

#include <string.h>

#include "base/simd.h"

enum {
    STEP = 1024,          /* items of a stretch: 4 or 8 KB for each row */
    SORT_ITEMS = 8 * 1024 /* of all rows together, so that the sorting network runs in a fast cache */
};

static bool sorts(const reduction *reduction) {
    return reduction->kind == REDUCTION_MEDIAN || reduction->kind == REDUCTION_TRIMMED;
}

size_t reduction_step(const reduction *reduction) {
    if (!sorts(reduction)) return STEP;
    size_t step = SORT_ITEMS / reduction->workers;
    return step > STEP ? STEP : step < 64 ? 64 : step;
}

size_t reduction_scratch(const reduction *reduction) {
    return sorts(reduction) ? (reduction->workers + 1) * reduction_step(reduction) : 0;
}

#define REAL       float
#define NAME(verb) verb##_f32
#include "train/reduction_real.inc"
#undef REAL
#undef NAME

#define REAL       double
#define NAME(verb) verb##_f64
#include "train/reduction_real.inc"
