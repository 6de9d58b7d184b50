/* ring.c — see ring.h. What is here is not on the path of every message. */
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

bool ring_starve(ring_producer *ring) {
    atomic_store_explicit(&ring->shared->starved, 1, memory_order_seq_cst);
    cpu_fence();
    uint64_t tail = atomic_load_explicit(&ring->shared->tail, memory_order_acquire);
    if (tail == ring->tail_seen) return true;
    atomic_store_explicit(&ring->shared->starved, 0, memory_order_relaxed);
    return false;
}

/* Everything here was written by another process: it is read once and checked before it is used. */
ring_peek_result ring_peek_slow(ring_consumer *ring, ring_record *out) {
    for (;;) {
        uint64_t available = ring->head_seen - ring->tail;
        if (available > ring->capacity || available < RING_RECORD_HEADER || available % 8 != 0) return RING_CORRUPT;
        const uint8_t *at = ring->shared->data + ring->offset;
        uint64_t word = __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_RELAXED);
        uint32_t size = (uint32_t)word;
        uint16_t type = (uint16_t)(word >> 32);
        uint64_t used = ring_padded(size);
        if (word >> 48 != 0 || used > available || used > ring->capacity - ring->offset) return RING_CORRUPT;
        if (type != RING_TYPE_SKIP) {
            *out = (ring_record){.data = at + RING_RECORD_HEADER, .size = size, .type = type};
            return RING_RECORD;
        }
        if (ring->offset + used != ring->capacity) return RING_CORRUPT;
        ring_advance(ring, size);
        if (ring->tail == ring->head_seen) return RING_CORRUPT; /* a SKIP is published with the record after it */
    }
}

bool ring_arm(ring_consumer *ring) {
    atomic_store_explicit(&ring->shared->armed, 1, memory_order_seq_cst);
    cpu_fence();
    if (!ring_readable(ring)) return true;
    ring_disarm(ring);
    return false;
}

void ring_disarm(ring_consumer *ring) { atomic_store_explicit(&ring->shared->armed, 0, memory_order_relaxed); }
