/* ps_workload.h — workload of the ranks of the parameter scenario: a function of rank, step, slot and pulled values.
 * Ranks execute it, and the checker computes the expected values with it. */
#pragma once
#include "ps/consistency.h"
#include "ps/stable_hash.h"
#include "sim/ps/float_machine.h"

enum { PS_SLOTS_MAX = 8 /* with round state */, PS_RANKS_MAX = 16, PS_BYTES = FLOAT_MACHINE_WIDTH * sizeof(double) };

/* Keys of a slot: one bit for each place of its numbers. */
enum { PS_ALL_KEYS = (1 << FLOAT_MACHINE_WIDTH) - 1 };

/* Keys that a rank pulls in a step in BSP; outside BSP it draws them. */
static inline uint8_t ps_keys(uint32_t rank, uint64_t step, uint32_t slot) {
    uint64_t bits = stable_hash2(stable_hash2(slot, rank), step);
    return bits % 2 == 0 ? PS_ALL_KEYS : (uint8_t)(1 + (bits >> 1) % PS_ALL_KEYS);
}

/* Writes the keys as a query (float_machine.h); returns its size. */
static inline size_t ps_write_query(uint8_t keys, uint8_t out[FLOAT_MACHINE_WIDTH]) {
    size_t size = 0;
    for (uint8_t i = 0; i < FLOAT_MACHINE_WIDTH && keys != PS_ALL_KEYS; i++)
        if ((keys >> i & 1) != 0) out[size++] = i;
    return size;
}

/* Writes the selected values, one after the other; returns their size. */
static inline size_t ps_select(const double values[FLOAT_MACHINE_WIDTH], uint8_t keys,
                               double out[FLOAT_MACHINE_WIDTH]) {
    size_t count = 0;
    for (uint8_t i = 0; i < FLOAT_MACHINE_WIDTH; i++)
        if ((keys >> i & 1) != 0) out[count++] = values[i];
    return count * sizeof *out;
}

/* Outside BSP a rank pushes to some slots only; every step ends with an end-of-step to all slots. */
static inline bool ps_touches(uint32_t rank, uint64_t step, uint32_t slot) {
    return stable_hash2(stable_hash2(rank, step), slot) % 10 < 6;
}

/* In some seeds a push to a slot has several items, each with its own seq. Items are pushed one by one, or several in
 * one batch with the seq of the last. */
enum { PS_ITEMS_MAX = 3 };

/* Number of items of a step that are applied, from the last seq. */
static inline uint32_t ps_items_had(uint64_t last, uint64_t step) {
    return seq_step(last) == step ? (uint32_t)(last & SEQ_TICK) : 0;
}

/* A gradient with full mantissas, so that the order of additions shows, for the keys that the rank needs next: a push
 * that also pulls gets them. `shown`: a hash of the values it was computed from. */
static inline void ps_gradient(uint32_t rank, uint64_t step, uint32_t slot, uint64_t shown,
                               double out[FLOAT_MACHINE_WIDTH]) {
    for (uint32_t i = 0; i < FLOAT_MACHINE_WIDTH; i++) {
        uint64_t bits = stable_hash2(stable_hash2(stable_hash2(rank, step), stable_hash2(slot, i)), shown);
        bool pushed = (ps_keys(rank, step + 1, slot) >> i & 1) != 0;
        out[i] = pushed ? (double)(bits >> 11) * 0x1p-53 - 0.5 : 0;
    }
}

/* Writes the payload of a batch of items; returns its size. */
static inline size_t ps_batch(uint32_t rank, uint64_t step, uint32_t slot, uint64_t shown, uint32_t first,
                              uint32_t last, double out[PS_ITEMS_MAX][FLOAT_MACHINE_WIDTH]) {
    for (uint32_t i = first; i <= last && i <= PS_ITEMS_MAX; i++)
        ps_gradient(rank, step, slot, i == 1 ? shown : stable_hash2(shown, i), out[i - first]);
    return (last - first + 1) * PS_BYTES;
}
