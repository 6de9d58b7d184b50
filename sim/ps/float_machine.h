/* float_machine.h — small dense values: FLOAT_MACHINE_WIDTH numbers for a slot, with an optimizer that decays and adds.
 *
 * The state machine of tests and of the simulator. Its optimizer depends on the order of its inputs, and its sums are
 * sums of floating point numbers, so an entry in the wrong place, or ranks in the wrong order, show in the bits. A
 * payload may be several pushes, one after the other, which are applied in turn.
 *
 *   query                            answer
 *   -------------------------------  --------------------------------------------------
 *   nothing                          all numbers
 *   up to FLOAT_MACHINE_WIDTH bytes  the numbers of these places, in this order
 *   the payload of a push            the numbers that the push adds to, in their order
 *
 *   bytes   state
 *   8 × n   the numbers; if the machine keeps them, also the numbers before
 *
 * If the context enables them, rounds need norms: some slots in some rounds need one norm, and some of those need a
 * second one, which is measured with the first (float_machine_needs). A norm is a double, a sum over slots: in the
 * first phase the sum of squares of the gradient, in the second the sum of squares of the numbers that the gradient
 * would produce. */
#pragma once
#include "ps/state_machine.h"

enum { FLOAT_MACHINE_WIDTH = 3 };

typedef struct float_machine_context {
    bool measures; /* rounds need norms */
} float_machine_context;

typedef struct float_machine {
    double values[FLOAT_MACHINE_WIDTH], before[FLOAT_MACHINE_WIDTH];
    bool keeps, measures;
    uint32_t slot;
} float_machine;

/* `self` is a float_machine; its context a float_machine_context, or NULL: no norms. */
extern const state_machine_ops float_machine_ops;

/* Number of phases of norms that a slot needs in the round that makes version `moment`. */
uint32_t float_machine_needs(uint32_t slot, uint64_t moment);
