/* l2_norm.c — see l2_norm.h. */
#include "kv/optim/l2_norm.h"

#include <math.h>

#include "base/simd.h"

SIMD_CLONES static void add_lanes(double *restrict lanes, const float *restrict values, size_t count) {
    for (size_t at = 0; at + L2_NORM_LANES <= count; at += L2_NORM_LANES)
        for (size_t k = 0; k < L2_NORM_LANES; k++) lanes[k] += (double)values[at + k] * (double)values[at + k];
}

double l2_norm_squares(const float *values, size_t count) {
    double lanes[L2_NORM_LANES] = {0};
    size_t whole = count / L2_NORM_LANES * L2_NORM_LANES;
    add_lanes(lanes, values, whole);
    for (size_t i = whole; i < count; i++) lanes[i - whole] += (double)values[i] * (double)values[i];
    for (size_t half = L2_NORM_LANES / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++) lanes[k] += lanes[k + half];
    return lanes[0];
}

float l2_norm_clip(double squares, double limit) {
    if (!isfinite(squares)) return 0;
    double norm = sqrt(squares);
    return norm > limit ? (float)(limit / norm) : 1;
}

float l2_norm_trust(double value_squares, double update_squares) {
    if (!isfinite(value_squares) || !isfinite(update_squares) || value_squares <= 0 || update_squares <= 0) return 1;
    return (float)(sqrt(value_squares) / sqrt(update_squares));
}
