#include "train/fold.h"

#include <string.h>

#include "base/vector.h"

enum {
    STEP = 1024,          /* items of a stretch: 4 or 8 KB beside the rows' */
    SORT_ITEMS = 8 * 1024 /* of all rows together, so that the network runs in a near cache */
};

static bool sorts(const fold *fold) { return fold->kind == FOLD_MEDIAN || fold->kind == FOLD_TRIMMED; }

size_t fold_step(const fold *fold) {
    if (!sorts(fold)) return STEP;
    size_t step = SORT_ITEMS / fold->workers;
    return step > STEP ? STEP : step < 64 ? 64 : step;
}

size_t fold_scratch(const fold *fold) { return sorts(fold) ? (fold->workers + 1) * fold_step(fold) : 0; }

#define REAL       float
#define NAME(verb) verb##_f32
#include "train/fold_real.inc"
#undef REAL
#undef NAME

#define REAL       double
#define NAME(verb) verb##_f64
#include "train/fold_real.inc"
