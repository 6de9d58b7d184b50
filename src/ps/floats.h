/* floats.h — small dense values: FLOATS_WIDTH numbers for a slot, and plain decay and add.
 *
 * The store of tests and of the simulator. Its optimizer depends on the order of what it is given, and its sums are
 * sums of floating point numbers, so that an entry in the wrong place, or ranks in the wrong order, show in the bits.
 */
#pragma once
#include "ps/values.h"

enum { FLOATS_WIDTH = 3 };

extern const values_ops floats_ops;
