/* ring.h — records from one process to another through shared memory: one writes, one reads, nobody locks.
 *
 * A ring is an extent of the arena: a header of RING_HEADER bytes, then `capacity` bytes of records. A record is eight
 * bytes (size, type) and its payload, padded to eight; it never wraps: where the rest of the data is too short, a SKIP
 * record fills it. Positions count bytes since the ring was made and only grow.
 *
 *   header  offset  what                                                        written by
 *   ------  ------  ----------------------------------------------------------  ----------------------
 *   head    0       everything before it is published                           producer
 *   index   8       the producer's ready bit (station.h)                        producer, once
 *   left    12      the producer has gone to another ring and touches this      producer, once
 *                   one no more: only then may its memory become another ring
 *   tail    64      everything before it has been read                          consumer
 *   armed   128     the consumer does not look: mark its ready bit              consumer sets, producer clears
 *   index   132     the consumer's ready bit                                    consumer, before it arms
 *   starved 192     the producer waits for room: mark its ready bit             producer sets, consumer clears
 *   data    256     records
 *
 * Invariants   tail <= head <= tail + capacity; all are multiples of 8; a record lies wholly inside the data.
 *   Whoever publishes (head or tail), then finds the other side's flag clear, is sure that the other side will look
 * again by itself: both sides store, then fence, then load. Death   A producer that dies before it moved `head` leaves
 * nothing: a record is there whole or not at all. Trust   The other process may write anything here at any time. Sizes
 * are read once, checked, and used from a local; a ring that makes no sense is reported (RING_CORRUPT), never followed.
 * Threads The producer and the consumer may be two threads of one process; each end has one user at a time. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "net/shm/station.h"

enum {
    RING_HEADER = 256,
    RING_RECORD_HEADER = 8,
    RING_BYTES_DEFAULT = 16 * 1024, /* of an extent; grown when it is found full */
    RING_BYTES_MAX = 4 * 1024 * 1024,
    RING_BYTES_MIN = 4096,
    RING_TYPE_SKIP = 0xffff, /* only ring.h itself makes and sees these */
};

typedef struct ring_shared {
    _Alignas(64) _Atomic uint64_t head;
    _Atomic uint32_t producer_index, left;
    _Alignas(64) _Atomic uint64_t tail;
    _Alignas(64) _Atomic uint32_t armed;
    _Atomic uint32_t consumer_index;
    _Alignas(64) _Atomic uint32_t starved;
    _Alignas(64) uint8_t data[];
} ring_shared;

_Static_assert(offsetof(ring_shared, tail) == 64 && offsetof(ring_shared, armed) == 128, "layout");
_Static_assert(offsetof(ring_shared, producer_index) == 8 && offsetof(ring_shared, left) == 12, "layout");
_Static_assert(offsetof(ring_shared, starved) == 192 && offsetof(ring_shared, data) == RING_HEADER, "layout");

typedef struct ring_producer { /* the writing end, private to its process */
    ring_shared *shared;
    uint64_t capacity;
    uint64_t head;      /* published and reserved positions are the same: one record at a time is under way */
    uint64_t tail_seen; /* the consumer is at least here */
    uint64_t offset;    /* head's place in the data */
    uint64_t skipped;   /* bytes of a SKIP record that the reserved record will publish with it */
} ring_producer;

typedef struct ring_consumer { /* the reading end */
    ring_shared *shared;
    uint64_t capacity;
    uint64_t tail, head_seen, offset;
    uint64_t released; /* the tail that the producer was told */
} ring_consumer;

typedef struct ring_record {
    const uint8_t *data; /* in shared memory; borrowed until ring_advance */
    uint32_t size;
    uint16_t type;
} ring_record;

typedef enum ring_peek_result { RING_EMPTY, RING_RECORD, RING_CORRUPT } ring_peek_result;

/* Both ends of a zeroed extent at `memory`. `index` is the caller's own ready bit. */
void ring_producer_init(ring_producer *ring, void *memory, uint64_t bytes, uint32_t index);
void ring_consumer_init(ring_consumer *ring, void *memory, uint64_t bytes, uint32_t index);

/* The largest record that a ring of that many bytes takes for sure once it is empty, wherever its head stands. */
static inline uint64_t ring_record_max(uint64_t capacity) { return capacity / 2 - 2 * RING_RECORD_HEADER; }

static inline uint64_t ring_padded(uint64_t size) { return (size + RING_RECORD_HEADER + 7) & ~UINT64_C(7); }

static inline void ring_write_header(uint8_t *at, uint32_t size, uint16_t type) {
    uint64_t word = (uint64_t)size | (uint64_t)type << 32;
    __builtin_memcpy(at, &word, sizeof word);
}

/* ---- Producer. */

/* Room for a record of `size` bytes, to be filled and published; NULL: not now. A second reserve gives the first up. */
static inline uint8_t *ring_reserve(ring_producer *ring, uint64_t size) {
    uint64_t need = ring_padded(size), to_end = ring->capacity - ring->offset;
    uint64_t skip = need > to_end ? to_end : 0;
    if (ring->head + skip + need - ring->tail_seen > ring->capacity) {
        ring->tail_seen = atomic_load_explicit(&ring->shared->tail, memory_order_acquire);
        if (ring->head + skip + need - ring->tail_seen > ring->capacity) return NULL;
    }
    ring->skipped = skip;
    uint64_t offset = skip != 0 ? 0 : ring->offset;
    return ring->shared->data + offset + RING_RECORD_HEADER;
}

/* Publishes the reserved record, which may have become smaller. True: the consumer is not looking and must be told (its
 * ready bit, then its doorbell). */
static inline bool ring_publish(ring_producer *ring, uint32_t size, uint16_t type) {
    uint8_t *data = ring->shared->data;
    if (ring->skipped != 0) {
        ring_write_header(data + ring->offset, (uint32_t)(ring->skipped - RING_RECORD_HEADER), RING_TYPE_SKIP);
        ring->head += ring->skipped;
        ring->offset = 0;
        ring->skipped = 0;
    }
    ring_write_header(data + ring->offset, size, type);
    uint64_t used = ring_padded(size);
    ring->head += used;
    ring->offset += used;
    if (ring->offset == ring->capacity) ring->offset = 0;
    atomic_store_explicit(&ring->shared->head, ring->head, memory_order_release);
    cpu_fence();
    if (__builtin_expect(atomic_load_explicit(&ring->shared->armed, memory_order_relaxed) == 0, 1)) return false;
    return atomic_exchange_explicit(&ring->shared->armed, 0, memory_order_acquire) != 0;
}

/* After a reserve that failed: asks to be told when something has been read. False: it just was, reserve again. */
bool ring_starve(ring_producer *ring);

/* The producer's last act on a ring that it has left for another one. */
static inline void ring_leave(ring_shared *shared) { atomic_store_explicit(&shared->left, 1, memory_order_release); }

/* ---- Consumer. */

static inline bool ring_readable(const ring_consumer *ring) {
    return atomic_load_explicit(&ring->shared->head, memory_order_acquire) != ring->tail;
}

ring_peek_result ring_peek_slow(ring_consumer *ring, ring_record *out);

/* The next record, or RING_EMPTY. */
static inline ring_peek_result ring_peek(ring_consumer *ring, ring_record *out) {
    if (ring->tail == ring->head_seen) {
        ring->head_seen = atomic_load_explicit(&ring->shared->head, memory_order_acquire);
        if (ring->tail == ring->head_seen) return RING_EMPTY;
    }
    return ring_peek_slow(ring, out);
}

/* Goes past a record that ring_peek gave. The producer hears of it at the next release. */
static inline void ring_advance(ring_consumer *ring, uint32_t size) {
    uint64_t used = ring_padded(size);
    ring->tail += used;
    ring->offset += used;
    if (ring->offset == ring->capacity) ring->offset = 0;
}

/* Gives the room of everything read back. True: the producer waits for it and must be told. */
static inline bool ring_release(ring_consumer *ring) {
    if (ring->released == ring->tail) return false;
    ring->released = ring->tail;
    atomic_store_explicit(&ring->shared->tail, ring->tail, memory_order_release);
    cpu_fence();
    if (__builtin_expect(atomic_load_explicit(&ring->shared->starved, memory_order_relaxed) == 0, 1)) return false;
    return atomic_exchange_explicit(&ring->shared->starved, 0, memory_order_acquire) != 0;
}

/* Says that this end stops looking. False: something came meanwhile, look again (the ring is not armed). */
bool ring_arm(ring_consumer *ring);
void ring_disarm(ring_consumer *ring);
