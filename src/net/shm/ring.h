/* ring.h — single-producer single-consumer ring of records in shared memory, without locks.
 *
 * A ring is an extent of the arena: a header of RING_HEADER bytes, then `capacity` bytes of records. A record is a word
 * of eight bytes (size, type) and its payload, padded to eight; it never wraps: where the rest of the data is too
 * short, a SKIP record fills it. Positions count bytes since the ring's creation and only grow.
 *
 * There is no shared head: a record's own word publishes it. The producer writes the payload, then a zero into the word
 * *after* the record, then the record's word. The reader reads the word at its position: zero, or the next complete
 * record. A small message is thus transferred in the one cache line that the reader polls, and a message costs one line
 * that moves from one core to another.
 *
 *        read                 published                  free
 *   ─────────────┬────────┬──────────────┬──────┬───┬─────────────
 *                │ 24, 1  │ payload …    │ 8, 1 │ … │ 0            the reader stops at the zero
 *   ─────────────┴────────┴──────────────┴──────┴───┴─────────────
 *
 *   header  offset  what                                                        written by
 *   ------  ------  ----------------------------------------------------------  ----------------------
 *   armed   0       the consumer is not polling: mark its ready bit             consumer sets, producer clears
 *   starved 4       the producer waits for room: mark its ready bit             producer sets, consumer clears
 *   index   8       the consumer's ready bit (process_block.h)                  consumer, before it arms
 *   index   12      the producer's ready bit                                    producer, once
 *   left    16      the producer uses another ring and does not access this      producer, once
 *                   one any more: only then may its memory be reused
 *   tail    64      everything before it has been read                          consumer
 *   data    128     records; the first word is zero before the first record
 *
 * Runs. A record that others follow at once may be held: the first record of such a run has RING_HELD in its word, no
 * fence follows, and the reader waits with it if it can. The writer then has exclusive use of its cache lines, and the
 * whole run is published (ring_show) by storing its first word again without the mark. The records are readable all the
 * time: a reader that has waited long enough, or wants to sleep, reads them, and nothing is lost if the writer dies.
 * Holding a record does not wake a reader that is just going to sleep; ring_show, which must end every run, does.
 *
 * Invariants   tail <= head <= tail + capacity - 8; all are multiples of 8; a record is entirely within the data; the
 *              word at head is zero. ring_producer_check and ring_consumer_check assert what each end can check by
 *              itself: (1) positions are multiples of 8, and an offset is its position in the data;
 *              (2) released records were read, and no more is read than fits; (3) a run has at most RING_RUN records.
 *              If a side publishes (a record or tail) and then finds the other side's flag clear, the other side
 *              will check again by itself: both sides store, then fence, then load.
 * Order        A record's word is stored with release and loaded with acquire, and so is tail: they order the payload
 *              and the room. Relaxed order suffices for the rest: the zero after a record is ordered by the record's
 *              word; a flag is read after the fence, and if set is followed by an exchange with acquire, which also
 *              makes the index visible that the other side wrote before it; a flag that its own side clears again
 *              costs the other side at most a needless mark.
 * Death        A record becomes visible only by its word: a producer that dies earlier leaves no record.
 * Trust        The other process may write anything here at any time. Sizes are read once, checked, and used from a
 *              local variable; a corrupt ring is reported (RING_CORRUPT) and not read further.
 * Speed        The fence waits for the stores before it; the cache lines of the next records are therefore prefetched
 *              (RING_AHEAD).
 * Threads      The producer and the consumer may be two threads of one process; each end has one user at a time. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "net/shm/process_block.h"

enum {
    RING_HEADER = 128,
    RING_RECORD_HEADER = 8,
    RING_BYTES_DEFAULT = 16 * 1024, /* of an extent; grows when full */
    RING_BYTES_MAX = 4 * 1024 * 1024,
    RING_BYTES_MIN = 4096,
    RING_AHEAD = 256,        /* distance from the head at which the producer prefetches lines for writing */
    RING_TYPE_SKIP = 0xffff, /* used by ring.h only; other types are 1…0xfffe */
    RING_RUN = 32,           /* maximum records of a run */
};
#define RING_HELD (UINT64_C(1) << 48) /* in the word of a run's first record, until the run is published */

typedef struct ring_shared {
    _Alignas(64) _Atomic uint32_t armed;
    _Atomic uint32_t starved;
    _Atomic uint32_t consumer_index, producer_index;
    _Atomic uint32_t left;
    _Alignas(64) _Atomic uint64_t tail;
    _Alignas(64) uint8_t data[];
} ring_shared;

_Static_assert(offsetof(ring_shared, armed) == 0 && offsetof(ring_shared, starved) == 4, "layout");
_Static_assert(offsetof(ring_shared, consumer_index) == 8 && offsetof(ring_shared, producer_index) == 12, "layout");
_Static_assert(offsetof(ring_shared, left) == 16 && offsetof(ring_shared, tail) == 64, "layout");
_Static_assert(offsetof(ring_shared, data) == RING_HEADER, "layout");

typedef struct ring_producer { /* the writing end, private to its process */
    ring_shared *shared;
    uint64_t capacity;
    uint64_t head;      /* position of the next record; one record at a time is reserved */
    uint64_t tail_seen; /* the consumer has read at least up to here */
    uint64_t offset;    /* head's offset in the data */
    uint64_t skipped;   /* size of a SKIP record that is published with the reserved record */
    uint8_t *run;       /* the word of a run's first record while it has the mark and was not read; or NULL */
    uint64_t run_word;  /* its value without the mark */
    uint64_t run_head;  /* position of the run's first record: tail_seen <= run_head while `run` is not NULL */
    uint32_t run_count; /* records of the run; 0: no run */
} ring_producer;

typedef struct ring_consumer { /* the reading end */
    ring_shared *shared;
    uint64_t capacity;
    uint64_t tail, offset;
    uint64_t released; /* the tail that is visible to the producer */
} ring_consumer;

typedef struct ring_record {
    const uint8_t *data; /* in shared memory; borrowed until ring_advance */
    uint32_t size;
    uint16_t type;
} ring_record;

typedef enum ring_peek_result {
    RING_EMPTY,
    RING_RECORD,
    RING_FIRST, /* the first record of a held run: more follow at once, and a reader may wait for them */
    RING_CORRUPT
} ring_peek_result;

/* Initialize both ends of a zeroed extent at `memory`. `index` is the caller's own ready bit. */
void ring_producer_init(ring_producer *ring, void *memory, uint64_t bytes, uint32_t index);
void ring_consumer_init(ring_consumer *ring, void *memory, uint64_t bytes, uint32_t index);

/* The largest record that an empty ring of this capacity always accepts, at any position of its head. */
static inline uint64_t ring_record_max(uint64_t capacity) { return capacity / 2 - 2 * RING_RECORD_HEADER; }

static inline uint64_t ring_padded(uint64_t size) { return (size + RING_RECORD_HEADER + 7) & ~UINT64_C(7); }

/* A record's word. Zero: no record yet. */
static inline uint64_t ring_word(uint32_t size, uint16_t type) { return (uint64_t)size | (uint64_t)type << 32; }

static inline void ring_store_word(uint8_t *at, uint64_t word, int order) {
    __atomic_store_n((uint64_t *)(void *)at, word, order);
}

static inline uint64_t ring_load_word(const uint8_t *at) {
    return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE);
}

/* ---- Producer. */

/* Whether the next `bytes` are free, including the words and gaps of all their records and the zero after them. */
__attribute__((noinline)) bool ring_look_for_room(ring_producer *ring, uint64_t bytes); /* reads the consumer's tail */
static inline bool ring_is_free(ring_producer *ring, uint64_t bytes) {
    bool known = ring->head + bytes - ring->tail_seen <= ring->capacity;
    return __builtin_expect(known, 1) || ring_look_for_room(ring, bytes);
}

/* Reserves room for a record of `size` bytes, to be filled and published; NULL: no room now. A second reserve cancels
 * the first. */
static inline uint8_t *ring_reserve(ring_producer *ring, uint64_t size) {
    uint64_t need = ring_padded(size), to_end = ring->capacity - ring->offset;
    uint64_t skip = need > to_end ? to_end : 0;
    if (!ring_is_free(ring, skip + need + RING_RECORD_HEADER)) return NULL;
    ring->skipped = skip;
    uint64_t offset = skip != 0 ? 0 : ring->offset;
    return ring->shared->data + offset + RING_RECORD_HEADER;
}

/* Writes the word of the reserved record, whose size may have been reduced. */
static inline void ring_place(ring_producer *ring, uint32_t size, uint64_t word) {
    uint8_t *data = ring->shared->data;
    uint64_t begin = ring->skipped != 0 ? 0 : ring->offset, used = ring_padded(size);
    uint64_t next = begin + used == ring->capacity ? 0 : begin + used;
    ring_store_word(data + next, 0, __ATOMIC_RELAXED);
    ring_store_word(data + begin, word, __ATOMIC_RELEASE);
    if (__builtin_expect(ring->skipped != 0, 0)) {
        /* The reader is before the gap: this word makes the record visible. */
        uint32_t gap = (uint32_t)(ring->skipped - RING_RECORD_HEADER);
        ring_store_word(data + ring->offset, ring_word(gap, RING_TYPE_SKIP), __ATOMIC_RELEASE);
    }
    ring->head += ring->skipped + used;
    ring->skipped = 0;
    ring->offset = next;
    if (next + RING_AHEAD < ring->capacity) cpu_prefetch_write(data + next + RING_AHEAD);
}

static inline bool ring_is_armed(const ring_producer *ring) {
    return __builtin_expect(atomic_load_explicit(&ring->shared->armed, memory_order_relaxed) != 0, 0);
}

/* Publishes the run and all records placed so far. True: the consumer is not polling and must be woken (its ready bit,
 * then its doorbell). */
static inline bool ring_show(ring_producer *ring) {
    if (ring->run != NULL) ring_store_word(ring->run, ring->run_word, __ATOMIC_RELEASE);
    ring->run = NULL;
    ring->run_count = 0;
    cpu_fence();
    return ring_is_armed(ring) && atomic_exchange_explicit(&ring->shared->armed, 0, memory_order_acquire) != 0;
}

/* Publishes the reserved record, and the run that it ends, if any. Returns as ring_show. */
static inline bool ring_publish(ring_producer *ring, uint32_t size, uint16_t type) {
    ring_place(ring, size, ring_word(size, type));
    return ring_show(ring);
}

/* As ring_publish, when more records follow at once: the record becomes part of a run, which the consumer need not read
 * before it is published. A producer with a held run must publish it before it does anything else that takes long. */
static inline bool ring_hold(ring_producer *ring, uint32_t size, uint16_t type) {
    uint64_t word = ring_word(size, type);
    if (ring->skipped != 0 || ring->run_count + 1 == RING_RUN || ring_is_armed(ring))
        return ring_publish(ring, size, type);
    if (ring->run_count++ == 0) {
        ring->run = ring->shared->data + ring->offset;
        ring->run_word = word;
        ring->run_head = ring->head;
        word |= RING_HELD;
    }
    ring_place(ring, size, word);
    return false;
}

/* After a failed reserve: requests a wake-up when something has been read. False: something was just read, reserve
 * again. */
bool ring_starve(ring_producer *ring);

/* The producer's last access to a ring that it has replaced by another one. */
static inline void ring_leave(ring_shared *shared) { atomic_store_explicit(&shared->left, 1, memory_order_release); }

/* ---- Consumer. */

/* The word of the next record, zero until it is published. */
static inline const uint8_t *ring_next(const ring_consumer *ring) { return ring->shared->data + ring->offset; }

static inline bool ring_readable(const ring_consumer *ring) { return ring_load_word(ring_next(ring)) != 0; }

/* Decodes a record's word. Returns false unless it is a plain record within the data. */
static inline bool ring_plain(const ring_consumer *ring, uint64_t word, ring_record *out) {
    uint64_t type = word >> 32;
    uint32_t size = (uint32_t)word;
    bool plain = type - 1 < RING_TYPE_SKIP - 1 && ring_padded(size) <= ring->capacity - ring->offset;
    if (__builtin_expect(plain, 1))
        *out = (ring_record){.data = ring_next(ring) + RING_RECORD_HEADER, .size = size, .type = (uint16_t)type};
    return plain;
}

ring_peek_result ring_peek_odd(ring_consumer *ring, uint64_t word, ring_record *out);

/* The next record, or RING_EMPTY. */
static inline ring_peek_result ring_peek(ring_consumer *ring, ring_record *out) {
    uint64_t word = ring_load_word(ring_next(ring));
    if (word == 0) return RING_EMPTY;
    return __builtin_expect(ring_plain(ring, word, out), 1) ? RING_RECORD : ring_peek_odd(ring, word, out);
}

/* Advances past the record returned by ring_peek. The producer sees the room after the next release. */
static inline void ring_advance(ring_consumer *ring, uint32_t size) {
    uint64_t used = ring_padded(size);
    ring->tail += used;
    ring->offset += used;
    if (ring->offset == ring->capacity) ring->offset = 0;
}

/* Returns the room of all read records to the producer. True: the producer waits for room and must be woken. */
static inline bool ring_release(ring_consumer *ring) {
    if (ring->released == ring->tail) return false;
    ring->released = ring->tail;
    atomic_store_explicit(&ring->shared->tail, ring->tail, memory_order_release);
    cpu_fence();
    if (__builtin_expect(atomic_load_explicit(&ring->shared->starved, memory_order_relaxed) == 0, 1)) return false;
    return atomic_exchange_explicit(&ring->shared->starved, 0, memory_order_acquire) != 0;
}

/* Marks that this end stops polling. False: a record came meanwhile, and the ring is not armed. */
bool ring_arm(ring_consumer *ring);
void ring_disarm(ring_consumer *ring);

/* Assert the invariants above as far as one end can check them; bytes written by the other side are not read. */
void ring_producer_check(const ring_producer *ring);
void ring_consumer_check(const ring_consumer *ring);
