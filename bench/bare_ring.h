/* bare_ring.h — minimal ring between two processes: slots of eight bytes, a head and a tail; both ends spin for ever.
 * The ring has no sizes, no sleeping and no checks: it is the reference that shows the overhead of the rings of
 * net/shm. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

enum { BARE_SLOTS = 1024 };

typedef struct bare_ring { /* zeroed shared memory */
    _Alignas(128) _Atomic uint64_t head;
    _Alignas(128) _Atomic uint64_t tail;
    _Alignas(128) uint64_t slots[BARE_SLOTS];
} bare_ring;

typedef struct bare_end { /* count of this side, and last known count of the other side */
    uint64_t mine, other;
} bare_end;

static inline void bare_put(bare_ring *ring, bare_end *end, uint64_t value) {
    while (end->mine - end->other == BARE_SLOTS) end->other = atomic_load_explicit(&ring->tail, memory_order_acquire);
    ring->slots[end->mine % BARE_SLOTS] = value;
    atomic_store_explicit(&ring->head, ++end->mine, memory_order_release);
}

static inline uint64_t bare_take(bare_ring *ring, bare_end *end) {
    while (end->mine == end->other) end->other = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t value = ring->slots[end->mine % BARE_SLOTS];
    atomic_store_explicit(&ring->tail, ++end->mine, memory_order_release);
    return value;
}

#include "bench/bench.h"

bench_fn bare_one_way_fn;    /* no argument; values: p50, p99 of 8 bytes one way in µs, on two CPUs */
bench_fn bare_round_trip_fn; /* values: the same for a round trip */
bench_fn bare_bytes_fn;      /* the same, with a copy in and out of `*argument` (a size_t) bytes on the way there */
bench_fn bare_rate_fn;       /* values: M messages/s, sent without waiting for answers */
