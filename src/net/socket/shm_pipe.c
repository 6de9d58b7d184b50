/* shm_pipe.c — see shm_pipe.h. */
#include "net/socket/shm_pipe.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/cpu.h"
#include "base/error.h"
#include "net/shm/sealed_memfd.h"

#define MAGIC UINT64_C(0x3230746375645f6d) /* "m_duct02"; format 01 had only frames with checksums */
enum { DATA_OFFSET = 4096 };
enum { JOINED = 1, LOOKS = 2 };
enum { TAKEN = 1, DECLINED = 2 };               /* answers to a large ring */
enum { TO_PIPE = 0, TO_LARGE_RING, RINGS = 2 }; /* indices of turns */
/* bytes read before the next check whether the writer waits for room */
enum { ASK_BYTES = SHM_PIPE_ENOUGH / 2 };
enum { LINE = 64, FETCH_BYTES = 384 }; /* a few small requests, or their answers */

typedef struct flow { /* one direction; layout in shared memory */
    _Alignas(64) _Atomic uint64_t head;
    _Atomic uint64_t turns[RINGS]; /* position of the last turn to each ring; 0: never */
    _Alignas(64) _Atomic uint64_t tail;
    _Atomic uint32_t answer;
    _Alignas(64) _Atomic uint32_t armed;
    _Alignas(64) _Atomic uint32_t starved;
    uint8_t rest[252];
} flow;

typedef struct layout {
    uint64_t magic, capacity;
    _Atomic uint32_t joined;
    flow flows[2]; /* from the creator, and to it */
} layout;

_Static_assert(offsetof(layout, flows) == 64 && offsetof(flow, turns) == 8 && offsetof(flow, tail) == 64, "layout");
_Static_assert(offsetof(flow, answer) == 72, "layout");
_Static_assert(offsetof(flow, armed) == 128 && offsetof(flow, starved) == 192 && sizeof(flow) == 448, "layout");
_Static_assert(sizeof(layout) <= DATA_OFFSET, "the bytes are behind it");
_Static_assert((SHM_PIPE_CAPACITY & (SHM_PIPE_CAPACITY - 1)) == 0, "positions become places by a mask");
_Static_assert((LARGE_RING_CAPACITY & (LARGE_RING_CAPACITY - 1)) == 0 &&
                   (int)LARGE_RING_CAPACITY > (int)SHM_PIPE_CAPACITY,
               "likewise");

typedef struct ring { /* the ring with the current bytes of a direction */
    uint8_t *bytes;   /* read-only in the reading direction */
    uint64_t capacity;
} ring;

typedef struct side { /* private state of one direction */
    uint8_t *bytes;   /* of the small ring */
    large_ring large_ring;
    ring ring;             /* the current one of the two rings */
    uint64_t turns[RINGS]; /* turns made by the writer, or noted by the reader */
} side;

struct shm_pipe {
    layout *shared; /* mapped */
    flow *out, *in;
    side writes, reads;
    uint64_t head, tail;    /* own positions: bytes written, bytes read */
    uint64_t seen, known;   /* the other side's head and tail when read last */
    uint64_t asked;         /* own tail at the last check whether the other side waits for room */
    uint64_t enough;        /* a waiting writer is woken when at most this much is unread */
    bool offered, answered; /* a large ring: to the other side, from it */
};

static size_t size_of(void) { return DATA_OFFSET + 2 * (size_t)SHM_PIPE_CAPACITY; }

static bool is_at_large_ring(const side *side) { return side->ring.capacity == LARGE_RING_CAPACITY; }

static void go_to(side *side, int which) {
    side->ring = which == TO_LARGE_RING ? (ring){side->large_ring.bytes, LARGE_RING_CAPACITY}
                                        : (ring){side->bytes, SHM_PIPE_CAPACITY};
}

/* Returns NULL if the memory cannot be mapped. */
static shm_pipe *map(int fd, bool made) {
    void *memory = mmap(NULL, size_of(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return NULL;
    shm_pipe *pipe = xcalloc(1, sizeof *pipe);
    uint8_t *bytes = (uint8_t *)memory + DATA_OFFSET;
    pipe->shared = memory;
    pipe->out = &pipe->shared->flows[made ? 0 : 1];
    pipe->in = &pipe->shared->flows[made ? 1 : 0];
    pipe->writes.bytes = bytes + (made ? 0 : SHM_PIPE_CAPACITY);
    pipe->reads.bytes = bytes + (made ? SHM_PIPE_CAPACITY : 0);
    go_to(&pipe->writes, TO_PIPE);
    go_to(&pipe->reads, TO_PIPE);
    return pipe;
}

mr_status shm_pipe_create(shm_pipe **out, int *fd) {
    int made = sealed_memfd_create("miniray-duct", size_of());
    if (made < 0) return error_errno("cannot create a shm pipe of %llu bytes", (unsigned long long)size_of());
    shm_pipe *pipe = map(made, true);
    if (pipe == NULL) {
        mr_status status = error_errno("cannot map a new shm pipe of %llu bytes", (unsigned long long)size_of());
        close(made);
        return status;
    }
    pipe->shared->magic = MAGIC;
    pipe->shared->capacity = SHM_PIPE_CAPACITY;
    *out = pipe;
    *fd = made;
    return MR_OK;
}

mr_status shm_pipe_join(int fd, bool looks, shm_pipe **out) {
    uint64_t size;
    if (!sealed_memfd_read_size(fd, &size) || size != size_of())
        return error_set(MR_CORRUPT, "fd %d, which is not a shm pipe", fd);
    shm_pipe *pipe = map(fd, false);
    if (pipe == NULL) return error_errno("cannot map the peer's shm pipe (fd %d)", fd);
    if (pipe->shared->magic != MAGIC || pipe->shared->capacity != SHM_PIPE_CAPACITY) {
        shm_pipe_close(pipe);
        return error_set(MR_CORRUPT, "fd %d, which is not a shm pipe: wrong magic number or capacity", fd);
    }
    atomic_store_explicit(&pipe->shared->joined, looks ? JOINED | LOOKS : JOINED, memory_order_release);
    *out = pipe;
    return MR_OK;
}

void shm_pipe_close(shm_pipe *pipe) {
    if (pipe == NULL) return;
    large_ring_close(&pipe->writes.large_ring);
    large_ring_close(&pipe->reads.large_ring);
    munmap(pipe->shared, size_of());
    free(pipe);
}

static uint32_t joined(const shm_pipe *pipe) {
    return atomic_load_explicit(&pipe->shared->joined, memory_order_acquire);
}
bool shm_pipe_is_joined(const shm_pipe *pipe) { return (joined(pipe) & JOINED) != 0; }
bool shm_pipe_is_looked_through(const shm_pipe *pipe) { return (joined(pipe) & LOOKS) != 0; }

/* ---- Transfer of bytes. */

static mr_status corrupt(void) {
    return error_set(MR_CORRUPT, "ring positions more than %d bytes apart", SHM_PIPE_CAPACITY);
}

/* Both sides use fences: publish, fence, read the flag; set the flag, fence, read the published position. */
static bool flag_taken(_Atomic uint32_t *flag) {
    cpu_fence();
    if (__builtin_expect(atomic_load_explicit(flag, memory_order_relaxed) == 0, 1)) return false;
    return atomic_exchange_explicit(flag, 0, memory_order_acquire) != 0;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static uint8_t *place_of(const ring *ring, uint64_t position) {
    return ring->bytes + (position & (ring->capacity - 1));
}

/* Size of the next copy: at most one stride, and not across the end of the ring. */
static size_t stretch(const ring *ring, uint64_t position, uint64_t free, size_t wanted) {
    size_t to_end = (size_t)(ring->capacity - (position & (ring->capacity - 1)));
    return smaller(smaller(wanted, SHM_PIPE_STRIDE), smaller((size_t)free, to_end));
}

static uint64_t tail_now(const shm_pipe *pipe) { return atomic_load_explicit(&pipe->out->tail, memory_order_acquire); }

static mr_status room_behind(const shm_pipe *pipe, uint64_t tail, uint64_t *room) {
    uint64_t under_way = pipe->head - tail;
    if (under_way > pipe->writes.ring.capacity) return corrupt();
    *room = pipe->writes.ring.capacity - under_way;
    return MR_OK;
}

/* Reads the tail again when the known room is used up. */
static mr_status look_for_room(shm_pipe *pipe, uint64_t *room) {
    pipe->known = tail_now(pipe);
    return room_behind(pipe, pipe->known, room);
}

/* Handles a turn that was not noted yet. Up to the turn the bytes are in the current ring; a reader at the turn
 * continues in the other ring, where another turn may wait: *turned. Three pending turns are impossible, because turns
 * to one ring grow. */
static mr_status note_turn(shm_pipe *pipe, int to, uint64_t turn, uint64_t *waiting, bool *turned) {
    side *reads = &pipe->reads;
    uint64_t before = turn - pipe->tail;
    if (before > reads->ring.capacity || *waiting > LARGE_RING_CAPACITY || reads->large_ring.bytes == NULL)
        return corrupt();
    pipe->enough = LARGE_RING_CAPACITY / 2;
    *turned = before == 0;
    if (*turned) {
        reads->turns[to] = turn;
        go_to(reads, to);
    } else if (before < *waiting) {
        *waiting = before;
    }
    return MR_OK;
}

/* Number of unread bytes in the current ring. The head is loaded first, so that every turn before it is visible. */
static mr_status waiting_of(shm_pipe *pipe, uint64_t *waiting) {
    side *reads = &pipe->reads;
    bool turned;
    do {
        int to = is_at_large_ring(reads) ? TO_PIPE : TO_LARGE_RING;
        pipe->seen = atomic_load_explicit(&pipe->in->head, memory_order_acquire);
        uint64_t turn = atomic_load_explicit(&pipe->in->turns[to], memory_order_relaxed);
        *waiting = pipe->seen - pipe->tail;
        pipe->enough = reads->ring.capacity / 2;
        turned = false;
        if (__builtin_expect(turn != reads->turns[to], 0))
            MR_TRY(note_turn(pipe, to, turn, waiting, &turned));
        else if (*waiting > reads->ring.capacity)
            return corrupt();
    } while (turned);
    return MR_OK;
}

static void publish_head(shm_pipe *pipe, bool *wake) {
    atomic_store_explicit(&pipe->out->head, pipe->head, memory_order_release);
    cpu_hand_over(&pipe->out->head);
    *wake |= flag_taken(&pipe->out->armed);
}

/* Writes one part as far as possible; a large part is published in strides while the rest is copied. */
static mr_status put(shm_pipe *pipe, const struct iovec *piece, uint64_t *room, size_t *put, bool *wake) {
    *put = 0;
    while (*put < piece->iov_len && !*wake) {
        if (*room == 0) MR_TRY(look_for_room(pipe, room));
        size_t size = stretch(&pipe->writes.ring, pipe->head, *room, piece->iov_len - *put);
        if (size == 0) break;
        memcpy(place_of(&pipe->writes.ring, pipe->head), (const uint8_t *)piece->iov_base + *put, size);
        *put += size;
        *room -= size;
        pipe->head += size;
        if (size == SHM_PIPE_STRIDE) publish_head(pipe, wake);
    }
    return MR_OK;
}

/* From here on bytes are written to the other ring. */
static void turn(shm_pipe *pipe, int to) {
    pipe->writes.turns[to] = pipe->head;
    atomic_store_explicit(&pipe->out->turns[to], pipe->head, memory_order_release);
    go_to(&pipe->writes, to);
}

/* Turns back to the small ring once all bytes were read, and with them the turn to the large ring: its word may then be
 * overwritten. */
static void leave_large_ring(shm_pipe *pipe) {
    pipe->known = tail_now(pipe);
    if (pipe->known == pipe->head && pipe->head != pipe->writes.turns[TO_LARGE_RING]) turn(pipe, TO_PIPE);
}

/* Prefetches the cache lines after the written bytes, which the reader has had since the previous lap. The line of the
 * last written byte is excluded, because the reader may be reading it. */
static void claim(const shm_pipe *pipe, uint64_t room) {
    if (room < FETCH_BYTES + LINE) return;
    uint64_t from = (pipe->head + LINE - 1) & ~(uint64_t)(LINE - 1);
    for (uint64_t at = from; at < from + FETCH_BYTES; at += LINE) cpu_prefetch_write(place_of(&pipe->writes.ring, at));
}

/* Moves the lines of a small message to the shared cache, where the reader finds them sooner. */
static void hand_over(const shm_pipe *pipe, uint64_t size) {
    if (size > FETCH_BYTES) return;
    for (uint64_t at = (pipe->head - size) & ~(uint64_t)(LINE - 1); at < pipe->head; at += LINE)
        cpu_hand_over(place_of(&pipe->writes.ring, at));
}

mr_status shm_pipe_write(shm_pipe *pipe, const struct iovec *pieces, size_t count, size_t *moved, bool *wake) {
    uint64_t room = 0;
    *moved = 0;
    *wake = false;
    if (__builtin_expect(is_at_large_ring(&pipe->writes), 0)) leave_large_ring(pipe);
    MR_TRY(room_behind(pipe, pipe->known, &room));
    for (size_t i = 0; i < count; i++) {
        size_t piece;
        MR_TRY(put(pipe, &pieces[i], &room, &piece, wake));
        *moved += piece;
        if (piece < pieces[i].iov_len) break;
    }
    if (*moved != 0) {
        publish_head(pipe, wake);
        claim(pipe, room);
    }
    return MR_OK;
}

/* The fast path excludes a writer in its large ring, which may have to turn back first, and a message across the end of
 * the ring. */
bool shm_pipe_send(shm_pipe *pipe, span first, span rest, bool *wake) {
    const ring *ring = &pipe->writes.ring;
    uint64_t room = 0, size = first.size + rest.size, place = pipe->head & (SHM_PIPE_CAPACITY - 1);
    MR_ASSERT(size <= SHM_PIPE_STRIDE);
    if (is_at_large_ring(&pipe->writes) || place + size > SHM_PIPE_CAPACITY) return false;
    if (room_behind(pipe, pipe->known, &room) != MR_OK) return false;
    if (room < size && (look_for_room(pipe, &room) != MR_OK || room < size)) return false;
    memcpy(ring->bytes + place, first.data, first.size);
    memcpy(ring->bytes + place + first.size, rest.data, rest.size);
    pipe->head += size;
    hand_over(pipe, size);
    *wake = false;
    publish_head(pipe, wake);
    claim(pipe, room - size);
    return true;
}

/* Checked rarely, because the writer of a nearly empty ring does not wait. */
static bool is_time_to_ask(shm_pipe *pipe) {
    if (pipe->tail - pipe->asked < ASK_BYTES || pipe->seen - pipe->tail > pipe->enough) return false;
    pipe->asked = pipe->tail;
    return true;
}

static mr_status get(shm_pipe *pipe, const struct iovec *piece, uint64_t *waiting, size_t *got, bool *wake) {
    *got = 0;
    while (*got < piece->iov_len && !*wake) {
        if (*waiting == 0) MR_TRY(waiting_of(pipe, waiting));
        size_t size = stretch(&pipe->reads.ring, pipe->tail, *waiting, piece->iov_len - *got);
        if (size == 0) break;
        memcpy((uint8_t *)piece->iov_base + *got, place_of(&pipe->reads.ring, pipe->tail), size);
        *got += size;
        *waiting -= size;
        pipe->tail += size;
        atomic_store_explicit(&pipe->in->tail, pipe->tail, memory_order_release);
        *wake = is_time_to_ask(pipe) && flag_taken(&pipe->in->starved);
    }
    return MR_OK;
}

mr_status shm_pipe_read(shm_pipe *pipe, const struct iovec *pieces, size_t count, size_t *moved, bool *wake) {
    uint64_t waiting = 0;
    *moved = 0;
    *wake = false;
    for (size_t i = 0; i < count; i++) {
        size_t piece;
        MR_TRY(get(pipe, &pieces[i], &waiting, &piece, wake));
        *moved += piece;
        if (piece < pieces[i].iov_len) break;
    }
    return MR_OK;
}

/* The fast path excludes bytes across the end, the large ring, and a reader that has read a quarter of a ring and must
 * check whether the writer waits. */
size_t shm_pipe_receive(shm_pipe *pipe, void *to, size_t max) {
    const side *reads = &pipe->reads;
    uint64_t head = atomic_load_explicit(&pipe->in->head, memory_order_acquire), waiting = head - pipe->tail;
    uint64_t place = pipe->tail & (SHM_PIPE_CAPACITY - 1);
    if (waiting > max || place + waiting > SHM_PIPE_CAPACITY || is_at_large_ring(reads)) return 0;
    if (atomic_load_explicit(&pipe->in->turns[TO_LARGE_RING], memory_order_relaxed) != reads->turns[TO_LARGE_RING])
        return 0;
    if (pipe->tail + waiting - pipe->asked >= ASK_BYTES) return 0;
    memcpy(to, reads->ring.bytes + place, waiting);
    pipe->seen = head;
    pipe->tail = head;
    atomic_store_explicit(&pipe->in->tail, head, memory_order_release);
    return waiting;
}

static uint64_t waiting_now(const shm_pipe *pipe) {
    return atomic_load_explicit(&pipe->in->head, memory_order_acquire) - pipe->tail;
}

bool shm_pipe_readable(const shm_pipe *pipe) { return waiting_now(pipe) != 0; }

/* Prefetches the first lines of the available bytes; the CPU prefetches the rest of a large message. Also prefetches
 * the line of the small ring in which the last sent message ends, because the answer begins in it; its reader has
 * finished with it. Another thread may write meanwhile: only what never changes and the published head are read. */
bool shm_pipe_look(const shm_pipe *pipe) {
    uint64_t waiting = waiting_now(pipe);
    if (waiting == 0) return false;
    const uint8_t *at = place_of(&pipe->reads.ring, pipe->tail);
    for (size_t line = 0; line < FETCH_BYTES && line < waiting; line += LINE) __builtin_prefetch(at + line);
    uint64_t head = atomic_load_explicit(&pipe->out->head, memory_order_relaxed);
    cpu_prefetch_write(pipe->writes.bytes + (head & (SHM_PIPE_CAPACITY - 1)));
    return true;
}

bool shm_pipe_arm(shm_pipe *pipe) {
    atomic_store_explicit(&pipe->in->armed, 1, memory_order_relaxed);
    cpu_fence();
    return !shm_pipe_readable(pipe);
}

void shm_pipe_disarm(shm_pipe *pipe) { atomic_store_explicit(&pipe->in->armed, 0, memory_order_relaxed); }

bool shm_pipe_starve(shm_pipe *pipe) {
    uint64_t room = 0;
    atomic_store_explicit(&pipe->out->starved, 1, memory_order_relaxed);
    cpu_fence();
    if (room_behind(pipe, tail_now(pipe), &room) != MR_OK || room < pipe->writes.ring.capacity / 2) return true;
    atomic_store_explicit(&pipe->out->starved, 0, memory_order_relaxed);
    return false;
}

bool shm_pipe_has_room(const shm_pipe *pipe) {
    uint64_t room = 0;
    return room_behind(pipe, tail_now(pipe), &room) != MR_OK || room != 0; /* the writer reports impossible positions */
}

/* ---- Growth. */

bool shm_pipe_may_offer(const shm_pipe *pipe) { return !pipe->offered; }

mr_status shm_pipe_offer(shm_pipe *pipe, int *fd) {
    MR_ASSERT(!pipe->offered);
    pipe->offered = true;
    MR_TRY(large_ring_create(&pipe->writes.large_ring));
    *fd = pipe->writes.large_ring.fd;
    return MR_OK;
}

void shm_pipe_withdraw(shm_pipe *pipe) {
    MR_ASSERT(!is_at_large_ring(&pipe->writes));
    large_ring_close(&pipe->writes.large_ring);
}

/* Position 0 means no turn; at position 0 no correct reader's ring is full. */
bool shm_pipe_grow(shm_pipe *pipe) {
    side *writes = &pipe->writes;
    if (writes->large_ring.bytes == NULL || is_at_large_ring(writes) || pipe->head == 0) return false;
    uint32_t answer = atomic_load_explicit(&pipe->out->answer, memory_order_acquire);
    if (answer != 0 && answer != TAKEN) large_ring_close(&writes->large_ring);
    if (answer != TAKEN || large_ring_back(&writes->large_ring) != MR_OK) return false;
    atomic_store_explicit(&pipe->out->starved, 0, memory_order_relaxed);
    turn(pipe, TO_LARGE_RING);
    return true;
}

void shm_pipe_rest(shm_pipe *pipe) {
    side *writes = &pipe->writes;
    if (is_at_large_ring(writes)) leave_large_ring(pipe);
    if (writes->large_ring.bytes != NULL && !is_at_large_ring(writes)) large_ring_rest(&writes->large_ring);
}

static void answer(shm_pipe *pipe, uint32_t answer) {
    pipe->answered = true;
    atomic_store_explicit(&pipe->in->answer, answer, memory_order_release);
}

mr_status shm_pipe_take(shm_pipe *pipe, int fd, bool *wake) {
    large_ring *ring = &pipe->reads.large_ring;
    *wake = false;
    if (pipe->answered) return error_set(MR_CORRUPT, "a second large ring (fd %d) for one direction of a shm pipe", fd);
    mr_status status = large_ring_join(fd, ring);
    if (status == MR_CORRUPT) return status;
    answer(pipe, status == MR_OK ? TAKEN : DECLINED);
    *wake = flag_taken(&pipe->in->starved);
    return status;
}

void shm_pipe_decline(shm_pipe *pipe) { answer(pipe, DECLINED); }

unsigned shm_pipe_large_rings(const shm_pipe *pipe) {
    return (pipe->writes.large_ring.bytes != NULL) + (pipe->reads.large_ring.bytes != NULL);
}
