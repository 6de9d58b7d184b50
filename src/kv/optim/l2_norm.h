/* l2_norm.h — lengths of vectors that do not depend on how wide a machine adds.
 *
 * Squares are taken and added in fp64, in L2_NORM_LANES sums: item i belongs to the lane i mod L2_NORM_LANES, whatever
 * the length. The lanes are then added in pairs, lane k and lane k + half, until one is left. Parts of a vector (the
 * blocks of a table) are added by the caller, in the order of the parts. */
#pragma once
#include <stddef.h>

enum { L2_NORM_LANES = 16 };

double l2_norm_squares(const float *values, size_t count); /* the sum of the squares */

/* What gradients with these squares are multiplied by, so that they are no longer than `limit`:
 * min(1, limit / √squares) in fp64, rounded. 0 if there is a NaN or an infinity among them: such an update is none. */
float l2_norm_clip(double squares, double limit);

/* LAMB: |values| / |update|, or 1 where one of them is 0 or not finite. */
float l2_norm_trust(double value_squares, double update_squares);
