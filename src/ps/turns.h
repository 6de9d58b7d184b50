/* turns.h — priority queue with aging: requests passed over too often come first, then priority, then age.
 *
 * Each one that waits is in two heaps: by priority and age, and by how much had gone when it began to wait. The second
 * says how often it was passed over, for nothing has to be counted at those who wait: asking who is next and going are
 * O(log n), however many they are.
 *
 * Pure; turns are borrowed while they wait. */
#pragma once
#include "base/heap.h"

typedef struct turn {             /* of something that may wait; zero-initialized it does not */
    uint64_t since;               /* its age, a number that grows: the caller's to set before it waits */
    heap_item preferred, patient; /* in the two heaps */
} turn;

typedef struct turns {       /* zero-initialized nobody waits */
    heap preferred, patient; /* by priority and age; by what had gone */
    uint64_t gone;
} turns;

void turns_fini(turns *turns);
static inline bool turns_empty(const turns *turns) { return turns->preferred.count == 0; }

void turns_wait(turns *turns, turn *turn, uint8_t priority);   /* no-op if it waits already */
void turns_prefer(turns *turns, turn *turn, uint8_t priority); /* of one that waits; of others no-op */
void turns_leave(turns *turns, turn *turn);                    /* no-op if it does not wait */

/* NULL: nobody. Whoever was passed over `patience` times goes first. */
turn *turns_next(const turns *turns, uint64_t patience);
void turns_go(turns *turns, turn *turn); /* it leaves, and all others are passed over */

void turns_check(const turns *turns); /* asserts that both heaps have the same ones */
