/* rng.h — seeded random number generator.
 *
 * The same seed gives the same numbers on every machine and with every compiler. Secrets come from rng_system_fill. A
 * forked child has its parent's state and must seed again. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

typedef struct rng {
    uint64_t state[4];
} rng;

void rng_init(rng *rng, uint64_t seed);
uint64_t rng_next(rng *rng);
uint64_t rng_below(rng *rng, uint64_t bound);             /* uniform in [0, bound); bound > 0 */
int64_t rng_between(rng *rng, int64_t low, int64_t high); /* uniform in [low, high] */
double rng_unit(rng *rng);                                /* uniform in [0, 1) */
bool rng_chance(rng *rng, double probability);
void rng_shuffle(rng *rng, void *items, size_t count, size_t size);
void rng_fill(rng *rng, void *data, size_t size);

uint64_t rng_system_seed(void); /* from the system's entropy; differs between processes */
/* Fills memory with unpredictable bytes of the system, for secrets. MR_IO. */
MR_MUST mr_status rng_system_fill(void *data, size_t size);
