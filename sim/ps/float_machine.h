/* float_machine.h — small dense values: FLOAT_MACHINE_WIDTH numbers for a slot, and plain decay and add.
 *
 * The store of tests and of the simulator. Its optimizer depends on the order of what it is given, and its sums are
 * sums of floating point numbers, so that an entry in the wrong place, or ranks in the wrong order, show in the bits. A
 * payload may be several of them, one behind the other, which are applied in turn.
 *
 *   request                          shows
 *   -------------------------------  --------------------------------------------------
 *   nothing                          all numbers
 *   up to FLOAT_MACHINE_WIDTH bytes         those of these places, in this order
 *   the payload of a push            those that it adds anything to, in their order
 *
 *   bytes   state
 *   8 × n   the numbers, and of one that keeps as many of before
 *
 * Where the context asks for it, rounds need norms: not each slot in each round, and of those that do some need a
 * second one, which is measured with the first (float_machine_needs). A norm is a double, a sum over slots; of the
 * first phase of the squares of the gradient, of the second those of what it would make of the numbers. */
#pragma once
#include "ps/state_machine.h"

enum { FLOAT_MACHINE_WIDTH = 3 };

typedef struct float_machine_context {
    bool measures; /* norms */
} float_machine_context;

typedef struct float_machine {
    double values[FLOAT_MACHINE_WIDTH], before[FLOAT_MACHINE_WIDTH];
    bool keeps, measures;
    uint32_t slot;
} float_machine;

/* `self` is a float_machine; its context a float_machine_context, or NULL: no norms. */
extern const state_machine_ops float_machine_ops;

/* How many phases of norms a slot needs, of the round that makes the version `moment`. */
uint32_t float_machine_needs(uint32_t slot, uint64_t moment);
