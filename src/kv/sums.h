/* sums.h — plain dense values: an array of floats for each slot, to which pushes are added.
 *
 * A slot is a single 0 at first, and then as long as the longest array that was pushed to it; what is not there counts
 * as 0. The sum of a round is made in the order of the ranks, one number after the other, so its bits are those of a
 * plain loop.
 *
 * A pull is shown all of it, whatever it asks for.
 *
 *   bytes    payload; and state, which begins with 4 + n bytes of the one before if that is kept
 *   4 × n    float32, little-endian; a payload of another size changes nothing */
#pragma once
#include "ps/values.h"

extern const values_ops sums_ops;
