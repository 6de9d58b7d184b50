/* ring.c — see ring.h. Code outside the hot path. */
#include "net/shm/ring.h"

#include "base/assert.h"

static uint64_t capacity_of(uint64_t bytes) {
    MR_ASSERT(bytes >= RING_BYTES_MIN && bytes % 64 == 0);
    return bytes - RING_HEADER;
}

void ring_producer_init(ring_producer *ring, void *memory, uint64_t bytes, uint32_t index) {
    *ring = (ring_producer){.shared = memory, .capacity = capacity_of(bytes)};
    atomic_store_explicit(&ring->shared->producer_index, index, memory_order_relaxed);
}

void ring_consumer_init(ring_consumer *ring, void *memory, uint64_t bytes, uint32_t index) {
    *ring = (ring_consumer){.shared = memory, .capacity = capacity_of(bytes)};
    atomic_store_explicit(&ring->shared->consumer_index, index, memory_order_relaxed);
}

bool ring_look_for_room(ring_producer *ring, uint64_t bytes) {
    ring->tail_seen = atomic_load_explicit(&ring->shared->tail, memory_order_acquire);
    if (ring->tail_seen > ring->run_head) ring->run = NULL; /* read already: its place is free for other records */
    return ring->head + bytes - ring->tail_seen <= ring->capacity;
}

bool ring_starve(ring_producer *ring) {
    atomic_store_explicit(&ring->shared->starved, 1, memory_order_seq_cst);
    cpu_fence();
    uint64_t tail = atomic_load_explicit(&ring->shared->tail, memory_order_acquire);
    if (tail == ring->tail_seen) return true;
    atomic_store_explicit(&ring->shared->starved, 0, memory_order_relaxed);
    return false;
}

/* Handles a word that is no plain record: the first of a run, a SKIP at the end of the data, or a corrupt one. */
ring_peek_result ring_peek_odd(ring_consumer *ring, uint64_t word, ring_record *out) {
    uint32_t gap = (uint32_t)word;
    if ((word & RING_HELD) != 0) return ring_plain(ring, word ^ RING_HELD, out) ? RING_FIRST : RING_CORRUPT;
    if (word >> 32 != RING_TYPE_SKIP || ring->offset + ring_padded(gap) != ring->capacity) return RING_CORRUPT;
    ring_advance(ring, gap);
    word = ring_load_word(ring_next(ring)); /* not zero: a SKIP is published after the record behind it */
    bool leads_on = word != 0 && word >> 32 != RING_TYPE_SKIP;
    return leads_on ? ring_peek(ring, out) : RING_CORRUPT;
}

bool ring_arm(ring_consumer *ring) {
    atomic_store_explicit(&ring->shared->armed, 1, memory_order_seq_cst);
    cpu_fence();
    if (!ring_readable(ring)) return true;
    ring_disarm(ring);
    return false;
}

void ring_disarm(ring_consumer *ring) { atomic_store_explicit(&ring->shared->armed, 0, memory_order_relaxed); }

void ring_producer_check(const ring_producer *ring) {
    MR_ASSERT(ring->head % 8 == 0 && ring->skipped % 8 == 0 && ring->offset == ring->head % ring->capacity); /* 1 */
    MR_ASSERT(ring->run_count < RING_RUN && (ring->run_count > 0 || ring->run == NULL));                     /* 3 */
    MR_ASSERT(ring->run_count == 0 || ring->run_head < ring->head);                                          /* 3 */
}

void ring_consumer_check(const ring_consumer *ring) {
    MR_ASSERT(ring->tail % 8 == 0 && ring->offset == ring->tail % ring->capacity);            /* 1 */
    MR_ASSERT(ring->released <= ring->tail && ring->tail - ring->released <= ring->capacity); /* 2 */
}
