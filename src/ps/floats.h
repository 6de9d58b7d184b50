/* floats.h — small dense values: FLOATS_WIDTH numbers for a slot, and plain decay and add.
 *
 * The store of tests and of the simulator. Its optimizer depends on the order of what it is given, and its sums are
 * sums of floating point numbers, so that an entry in the wrong place, or ranks in the wrong order, show in the bits. A
 * payload may be several of them, one behind the other, which are applied in turn.
 *
 *   request                          shows
 *   -------------------------------  --------------------------------------------------
 *   nothing                          all numbers
 *   up to FLOATS_WIDTH bytes         those of these places, in this order
 *   the payload of a push            those that it adds anything to, in their order
 *
 *   bytes   state
 *   8 × n   the numbers, and of one that keeps as many of before */
#pragma once
#include "ps/values.h"

enum { FLOATS_WIDTH = 3 };

typedef struct floats {
    double values[FLOATS_WIDTH], before[FLOATS_WIDTH];
    bool keeps;
} floats;

extern const values_ops floats_ops; /* `self` is a floats */

/* The places that a request asks for; SIZE_MAX: it makes no sense. */
size_t floats_places(span request, uint8_t out[FLOATS_WIDTH]);
