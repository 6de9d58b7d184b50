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
 *   8 × n   the numbers, and of one that keeps as many of before
 *
 * Where the context asks for it, rounds need norms: not each slot in each round, and of those that do some need a
 * second one, which is measured with the first (floats_needs). A norm is a double, a sum over slots; of the first phase
 * of the squares of the gradient, of the second those of what it would make of the numbers. */
#pragma once
#include "ps/values.h"

enum { FLOATS_WIDTH = 3 };

typedef struct floats_context {
    bool measures; /* norms */
} floats_context;

typedef struct floats {
    double values[FLOATS_WIDTH], before[FLOATS_WIDTH];
    bool keeps, measures;
    uint32_t slot;
} floats;

extern const values_ops floats_ops; /* `self` is a floats; its context a floats_context, or NULL: no norms */

/* How many phases of norms a slot needs, of the round that makes the version `moment`. */
uint32_t floats_needs(uint32_t slot, uint64_t moment);

/* The places that a request asks for; SIZE_MAX: it makes no sense. */
size_t floats_places(span request, uint8_t out[FLOATS_WIDTH]);
