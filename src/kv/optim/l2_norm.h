/* l2_norm.h — Euclidean norms, independent of the machine's vector width.
 *
 * Squares are taken and added in fp64, in L2_NORM_LANES sums: item i belongs to the lane i mod L2_NORM_LANES, for any
 * length. The lanes are then added in pairs, lane k and lane k + half, until one is left. Parts of a vector (the
 * blocks of a table) are added by the caller, in the order of the parts. */
#pragma once
#include <stddef.h>

enum { L2_NORM_LANES = 16 };

double l2_norm_squares(const float *values, size_t count); /* sum of the squares */

/* Factor that limits gradients with these squares to the norm `limit`: min(1, limit / √squares) in fp64, rounded. 0 if
 * a square is NaN or infinite: such an update is skipped. */
float l2_norm_clip(double squares, double limit);

/* Trust ratio of LAMB: |values| / |update|, or 1 if one of them is 0 or not finite. */
float l2_norm_trust(double value_squares, double update_squares);
