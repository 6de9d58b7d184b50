/* ring.h — single-producer single-consumer ring of records in shared memory, without locks.
 *
 * A ring is an extent of the arena: a header of RING_HEADER bytes, then `capacity` bytes of records. A record is a word
 * of eight bytes (size, type) and its payload, padded to eight; it never wraps: where the rest of the data is too
 * short, a SKIP record fills it. Positions count bytes since the ring was made and only grow.
 *
 * There is no shared head: a record's own word shows that it is there. The producer writes the payload, then a zero
 * into the word *after* the record, then the record's word. The reader looks at the word it has come to: zero, or the
 * next record, whole. So a small message travels in the one cache line that the reader watches, and the cost of a
 * message is one line that moves from one core to another.
 *
 *        read                 published                  free
 *   ─────────────┬────────┬──────────────┬──────┬───┬─────────────
 *                │ 24, 1  │ payload …    │ 8, 1 │ … │ 0            the reader stops at the zero
 *   ─────────────┴────────┴──────────────┴──────┴───┴─────────────
 *
 *   header  offset  what                                                        written by
 *   ------  ------  ----------------------------------------------------------  ----------------------
 *   armed   0       the consumer does not look: mark its ready bit              consumer sets, producer clears
 *   starved 4       the producer waits for room: mark its ready bit             producer sets, consumer clears
 *   index   8       the consumer's ready bit (process_block.h)                  consumer, before it arms
 *   index   12      the producer's ready bit                                    producer, once
 *   left    16      the producer has gone to another ring and touches this      producer, once
 *                   one no more: only then may its memory become another ring
 *   tail    64      everything before it has been read                          consumer
 *   data    128     records; the first word is zero before there is one
 *
 * Runs. A record for which the reader need not hurry, because more follow at once, may be held: the first of such a run
 * bears RING_HELD in its word, no fence follows, and the reader leaves it alone if it can. So the writer has its lines
 * to itself, and the run changes sides as a whole, when its first word is stored once more without the mark. All of it
 * is there all the time: a reader that has waited enough, or wants to sleep, reads on, and a writer that dies has lost
 * nothing. A run does not promise to wake a reader that goes to sleep at that very moment: the writer shows every run
 * in the end (ring_show), which does.
 *
 * Invariants   tail <= head <= tail + capacity - 8; all are multiples of 8; a record lies wholly inside the data; the
 *              word at head is zero. ring_producer_check and ring_consumer_check assert what each end knows of that by
 *              itself: (1) positions are multiples of 8, and an offset is its position in the data;
 *              (2) released records were read, and no more is read than fits; (3) a run has at most RING_RUN records.
 *              A side that publishes (a record or tail), then finds the other side's flag clear,
 *              knows that the other side will look again by itself: both sides store, then fence, then load.
 * Order        A record's word is stored with release and loaded with acquire, and so is tail: they carry the payload
 *              and the room. The rest is relaxed, and may be: the zero after a record is ordered by the record's word;
 *              a flag is read after the fence, and where it is found set an exchange with acquire follows, which also
 *              shows the index that the other side wrote before it; a flag that its own side clears again costs the
 *              other side a needless mark at most.
 * Death        A producer that dies before it wrote a record's word leaves nothing: a record is there whole or not at
 *              all.
 * Trust        The other process may write anything here at any time. Sizes are read once, checked, and used from a
 *              local; a ring that makes no sense is reported (RING_CORRUPT), never followed.
 * Speed        The fence waits for the stores before it; so the lines of the records to come are asked for ahead of
 *              them (RING_AHEAD).
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
    RING_BYTES_DEFAULT = 16 * 1024, /* of an extent; grown when it is found full */
    RING_BYTES_MAX = 4 * 1024 * 1024,
    RING_BYTES_MIN = 4096,
    RING_AHEAD = 256,        /* how far in front of the head the producer asks for lines to write */
    RING_TYPE_SKIP = 0xffff, /* only ring.h itself makes and sees these; others are 1…0xfffe */
    RING_RUN = 32,           /* records of a run, at most */
};
#define RING_HELD (UINT64_C(1) << 48) /* in the word of a run's first record, until it is shown */

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
    uint64_t head;      /* published and reserved positions are the same: one record at a time is under way */
    uint64_t tail_seen; /* the consumer is at least here */
    uint64_t offset;    /* head's place in the data */
    uint64_t skipped;   /* bytes of a SKIP record that the reserved record will publish with it */
    uint8_t *run;       /* the word of a run's first record, while it bears the mark and was not read; or NULL */
    uint64_t run_word;  /* its value without the mark */
    uint64_t run_head;  /* where the run began: tail_seen <= run_head while there is a `run` */
    uint32_t run_count; /* its records; 0: there is none */
} ring_producer;

typedef struct ring_consumer { /* the reading end */
    ring_shared *shared;
    uint64_t capacity;
    uint64_t tail, offset;
    uint64_t released; /* the tail that the producer sees */
} ring_consumer;

typedef struct ring_record {
    const uint8_t *data; /* in shared memory; borrowed until ring_advance */
    uint32_t size;
    uint16_t type;
} ring_record;

typedef enum ring_peek_result {
    RING_EMPTY,
    RING_RECORD,
    RING_FIRST, /* a record, the first of a run that was not shown: more follow at once, for a reader that can wait */
    RING_CORRUPT
} ring_peek_result;

/* Both ends of a zeroed extent at `memory`. `index` is the caller's own ready bit. */
void ring_producer_init(ring_producer *ring, void *memory, uint64_t bytes, uint32_t index);
void ring_consumer_init(ring_consumer *ring, void *memory, uint64_t bytes, uint32_t index);

/* The largest record that a ring of that many bytes takes for sure once it is empty, wherever its head stands. */
static inline uint64_t ring_record_max(uint64_t capacity) { return capacity / 2 - 2 * RING_RECORD_HEADER; }

static inline uint64_t ring_padded(uint64_t size) { return (size + RING_RECORD_HEADER + 7) & ~UINT64_C(7); }

/* A record's word. Zero: there is none (yet). */
static inline uint64_t ring_word(uint32_t size, uint16_t type) { return (uint64_t)size | (uint64_t)type << 32; }

static inline void ring_store_word(uint8_t *at, uint64_t word, int order) {
    __atomic_store_n((uint64_t *)(void *)at, word, order);
}

static inline uint64_t ring_load_word(const uint8_t *at) {
    return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE);
}

/* ---- Producer. */

/* Whether the next `bytes`, with the words and gaps of all records in them and the zero behind them, are free. */
__attribute__((noinline)) bool ring_look_for_room(ring_producer *ring, uint64_t bytes); /* asks the consumer */
static inline bool ring_is_free(ring_producer *ring, uint64_t bytes) {
    bool known = ring->head + bytes - ring->tail_seen <= ring->capacity;
    return __builtin_expect(known, 1) || ring_look_for_room(ring, bytes);
}

/* Room for a record of `size` bytes, to be filled and published; NULL: not now. A second reserve gives the first up. */
static inline uint8_t *ring_reserve(ring_producer *ring, uint64_t size) {
    uint64_t need = ring_padded(size), to_end = ring->capacity - ring->offset;
    uint64_t skip = need > to_end ? to_end : 0;
    if (!ring_is_free(ring, skip + need + RING_RECORD_HEADER)) return NULL;
    ring->skipped = skip;
    uint64_t offset = skip != 0 ? 0 : ring->offset;
    return ring->shared->data + offset + RING_RECORD_HEADER;
}

/* The reserved record, which may have become smaller, is there. */
static inline void ring_place(ring_producer *ring, uint32_t size, uint64_t word) {
    uint8_t *data = ring->shared->data;
    uint64_t begin = ring->skipped != 0 ? 0 : ring->offset, used = ring_padded(size);
    uint64_t next = begin + used == ring->capacity ? 0 : begin + used;
    ring_store_word(data + next, 0, __ATOMIC_RELAXED);
    ring_store_word(data + begin, word, __ATOMIC_RELEASE);
    if (__builtin_expect(ring->skipped != 0, 0)) {
        /* The reader stands before the gap: this word lets it see the record. */
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

/* Shows the run, and everything else that was placed. True: the consumer is not looking and must be woken (its
 * ready bit, then its doorbell). */
static inline bool ring_show(ring_producer *ring) {
    if (ring->run != NULL) ring_store_word(ring->run, ring->run_word, __ATOMIC_RELEASE);
    ring->run = NULL;
    ring->run_count = 0;
    cpu_fence();
    return ring_is_armed(ring) && atomic_exchange_explicit(&ring->shared->armed, 0, memory_order_acquire) != 0;
}

/* Publishes the reserved record, and the run that it ends, if any. True: as ring_show. */
static inline bool ring_publish(ring_producer *ring, uint32_t size, uint16_t type) {
    ring_place(ring, size, ring_word(size, type));
    return ring_show(ring);
}

/* The same where more records follow at once: it becomes part of a run, which the consumer need not take before it is
 * shown. A producer that holds a run back shows it before it does anything else for long. */
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

/* After a reserve that failed: asks to be woken when something has been read. False: it just was, reserve again. */
bool ring_starve(ring_producer *ring);

/* The producer's last act on a ring that it has left for another one. */
static inline void ring_leave(ring_shared *shared) { atomic_store_explicit(&shared->left, 1, memory_order_release); }

/* ---- Consumer. */

/* The word of the next record: zero until it is there. */
static inline const uint8_t *ring_next(const ring_consumer *ring) { return ring->shared->data + ring->offset; }

static inline bool ring_readable(const ring_consumer *ring) { return ring_load_word(ring_next(ring)) != 0; }

/* The record that a word stands for. False: it is none that lies inside the data. */
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

/* Goes past a record that ring_peek gave. The producer hears of it at the next release. */
static inline void ring_advance(ring_consumer *ring, uint32_t size) {
    uint64_t used = ring_padded(size);
    ring->tail += used;
    ring->offset += used;
    if (ring->offset == ring->capacity) ring->offset = 0;
}

/* Gives the room of everything read back. True: the producer waits for it and must be woken. */
static inline bool ring_release(ring_consumer *ring) {
    if (ring->released == ring->tail) return false;
    ring->released = ring->tail;
    atomic_store_explicit(&ring->shared->tail, ring->tail, memory_order_release);
    cpu_fence();
    if (__builtin_expect(atomic_load_explicit(&ring->shared->starved, memory_order_relaxed) == 0, 1)) return false;
    return atomic_exchange_explicit(&ring->shared->starved, 0, memory_order_acquire) != 0;
}

/* Marks that this end stops looking. False: something came meanwhile, look again (the ring is not armed). */
bool ring_arm(ring_consumer *ring);
void ring_disarm(ring_consumer *ring);

/* Assert the invariants above, as far as one end knows them; bytes that the other side wrote are not looked at. */
void ring_producer_check(const ring_producer *ring);
void ring_consumer_check(const ring_consumer *ring);
