/* ps_load.h — what the ranks of the parameter scenario do: a function of (rank, step, slot, what they were shown).
 *
 * Known to the ranks, which do it, and to the ledger, which expects it. */
#pragma once
#include "ps/consistency.h"
#include "ps/floats.h"
#include "ps/mix.h"

enum { PS_SLOTS_MAX = 8 /* with the ledger */, PS_RANKS_MAX = 16, PS_BYTES = FLOATS_WIDTH * sizeof(double) };

/* Outside BSP a rank pushes to some slots only; every step ends with a tick to all. */
static inline bool ps_touches(uint32_t rank, uint64_t step, uint32_t slot) {
    return mix2(mix2(rank, step), slot) % 10 < 6;
}

/* The name behind `last` of this rank for that slot. */
static inline uint64_t ps_next_name(uint32_t rank, uint32_t slot, uint64_t last) {
    uint64_t step = name_ended(last) + 1;
    if (last < name_of(step, 1) && ps_touches(rank, step, slot)) return name_of(step, 1);
    return name_tick(step);
}

/* A gradient of full mantissas, so that the order of additions shows. `shown`: a hash of what it was computed from. */
static inline void ps_gradient(uint32_t rank, uint64_t step, uint32_t slot, uint64_t shown, double out[FLOATS_WIDTH]) {
    for (uint32_t i = 0; i < FLOATS_WIDTH; i++) {
        uint64_t bits = mix2(mix2(mix2(rank, step), mix2(slot, i)), shown);
        out[i] = (double)(bits >> 11) * 0x1p-53 - 0.5;
    }
}
