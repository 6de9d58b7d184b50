/* saved_state.h — layout of the shared memory in which an actor's process writes its state (mr_state_set), and from
 * which the node reads the state after the death of the process:
 *
 *   offset  size  name
 *   0       8     sequence: number of states written; 0: none. The last one is in half `sequence % 2`
 *   8       16    sizes of the states in half 0 and half 1, u64 each
 *   64            half 0, then half 1, of equal size
 *
 * A state is written into the other half, and becomes the last one by one store. A process that is killed at any
 * instant leaves a whole state. The reader checks all that it reads. */
#pragma once
#include <stdbool.h>

#include "base/bytes.h"

size_t saved_state_bytes(size_t size); /* of memory with room for states of `size` bytes */
/* Zeroed memory with `bytes` from saved_state_bytes, at a multiple of 64. False: the state is too large. */
bool saved_state_write(void *memory, size_t bytes, span state);
/* The last state, borrowed from the memory. False: there is none, or the memory is malformed. */
bool saved_state_read(const void *memory, size_t bytes, span *out);
