/* duct.c — see duct.h. */
#include "net/stream/duct.h"

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
#include "net/shm/sealed.h"

#define MAGIC UINT64_C(0x3230746375645f6d) /* "m_duct02"; the first had frames with checksums only */
enum { DATA_OFFSET = 4096 };
enum { JOINED = 1, LOOKS = 2 };
enum { TAKEN = 1, DECLINED = 2 };          /* answers */
enum { TO_DUCT = 0, TO_ANNEX, RINGS = 2 }; /* turns */
enum { ASK_BYTES = DUCT_ENOUGH / 2 };      /* so much is read before it asks again whether somebody waits for room */
enum { LINE = 64, FETCH_BYTES = 384 };     /* a few small requests, or their answers */

typedef struct flow { /* one direction, as it lies in shared memory */
    _Alignas(64) _Atomic uint64_t head;
    _Atomic uint64_t turns[RINGS]; /* where it went on in that ring the last time; 0: never */
    _Alignas(64) _Atomic uint64_t tail;
    _Atomic uint32_t answer;
    _Alignas(64) _Atomic uint32_t armed;
    _Alignas(64) _Atomic uint32_t starved;
    uint8_t rest[252];
} flow;

typedef struct layout {
    uint64_t magic, capacity;
    _Atomic uint32_t joined;
    flow flows[2]; /* from the side that made it, and to it */
} layout;

_Static_assert(offsetof(layout, flows) == 64 && offsetof(flow, turns) == 8 && offsetof(flow, tail) == 64, "layout");
_Static_assert(offsetof(flow, answer) == 72, "layout");
_Static_assert(offsetof(flow, armed) == 128 && offsetof(flow, starved) == 192 && sizeof(flow) == 448, "layout");
_Static_assert(sizeof(layout) <= DATA_OFFSET, "the bytes are behind it");
_Static_assert((DUCT_CAPACITY & (DUCT_CAPACITY - 1)) == 0, "positions become places by a mask");
_Static_assert((ANNEX_CAPACITY & (ANNEX_CAPACITY - 1)) == 0 && (int)ANNEX_CAPACITY > (int)DUCT_CAPACITY, "likewise");

typedef struct ring { /* where the bytes of a direction lie now */
    uint8_t *bytes;   /* only to be read where we read */
    uint64_t capacity;
} ring;

typedef struct side { /* of one direction, what we know of it */
    uint8_t *bytes;   /* in the duct */
    annex annex;
    ring ring;             /* the one of both that we are at */
    uint64_t turns[RINGS]; /* that we made, or noted */
} side;

struct duct {
    layout *shared; /* mapped */
    flow *out, *in;
    side writes, reads;
    uint64_t head, tail;    /* ours: what was written, what was read */
    uint64_t seen, known;   /* the other side's head and tail, when we looked last */
    uint64_t asked;         /* our tail when we asked whether the other side waits for room */
    uint64_t enough;        /* who waits for room is told when no more than this lies there */
    bool offered, answered; /* an annex: to the other side, of it */
};

static size_t size_of(void) { return DATA_OFFSET + 2 * (size_t)DUCT_CAPACITY; }

static bool is_at_annex(const side *side) { return side->ring.capacity == ANNEX_CAPACITY; }

static void go_to(side *side, int which) {
    side->ring = which == TO_ANNEX ? (ring){side->annex.bytes, ANNEX_CAPACITY} : (ring){side->bytes, DUCT_CAPACITY};
}

/* NULL: it cannot be mapped. */
static duct *map(int fd, bool made) {
    void *memory = mmap(NULL, size_of(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return NULL;
    duct *duct = xcalloc(1, sizeof *duct);
    uint8_t *bytes = (uint8_t *)memory + DATA_OFFSET;
    duct->shared = memory;
    duct->out = &duct->shared->flows[made ? 0 : 1];
    duct->in = &duct->shared->flows[made ? 1 : 0];
    duct->writes.bytes = bytes + (made ? 0 : DUCT_CAPACITY);
    duct->reads.bytes = bytes + (made ? DUCT_CAPACITY : 0);
    go_to(&duct->writes, TO_DUCT);
    go_to(&duct->reads, TO_DUCT);
    return duct;
}

mr_status duct_create(duct **out, int *fd) {
    int made = sealed_create("miniray-duct", size_of());
    if (made < 0) return error_errno("cannot create a shm pipe of %llu bytes", (unsigned long long)size_of());
    duct *duct = map(made, true);
    if (duct == NULL) {
        mr_status status = error_errno("cannot map a new shm pipe of %llu bytes", (unsigned long long)size_of());
        close(made);
        return status;
    }
    duct->shared->magic = MAGIC;
    duct->shared->capacity = DUCT_CAPACITY;
    *out = duct;
    *fd = made;
    return MR_OK;
}

mr_status duct_join(int fd, bool looks, duct **out) {
    uint64_t size;
    if (!sealed_read_size(fd, &size) || size != size_of())
        return error_set(MR_CORRUPT, "fd %d, which is not a shm pipe", fd);
    duct *duct = map(fd, false);
    if (duct == NULL) return error_errno("cannot map the peer's shm pipe (fd %d)", fd);
    if (duct->shared->magic != MAGIC || duct->shared->capacity != DUCT_CAPACITY) {
        duct_close(duct);
        return error_set(MR_CORRUPT, "fd %d, which is not a shm pipe: wrong magic number or capacity", fd);
    }
    atomic_store_explicit(&duct->shared->joined, looks ? JOINED | LOOKS : JOINED, memory_order_release);
    *out = duct;
    return MR_OK;
}

void duct_close(duct *duct) {
    if (duct == NULL) return;
    annex_close(&duct->writes.annex);
    annex_close(&duct->reads.annex);
    munmap(duct->shared, size_of());
    free(duct);
}

static uint32_t joined(const duct *duct) { return atomic_load_explicit(&duct->shared->joined, memory_order_acquire); }
bool duct_is_joined(const duct *duct) { return (joined(duct) & JOINED) != 0; }
bool duct_is_looked_through(const duct *duct) { return (joined(duct) & LOOKS) != 0; }

/* ---- Bytes. */

static mr_status corrupt(void) {
    return error_set(MR_CORRUPT, "ring positions more than %d bytes apart", DUCT_CAPACITY);
}

/* The two sides meet in fences: publish, fence, look at the flag; flag, fence, look at what is published. */
static bool flag_taken(_Atomic uint32_t *flag) {
    cpu_fence();
    if (__builtin_expect(atomic_load_explicit(flag, memory_order_relaxed) == 0, 1)) return false;
    return atomic_exchange_explicit(flag, 0, memory_order_acquire) != 0;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static uint8_t *place_of(const ring *ring, uint64_t position) {
    return ring->bytes + (position & (ring->capacity - 1));
}

/* At most a stride, and not across the end of the bytes. */
static size_t stretch(const ring *ring, uint64_t position, uint64_t free, size_t wanted) {
    size_t to_end = (size_t)(ring->capacity - (position & (ring->capacity - 1)));
    return smaller(smaller(wanted, DUCT_STRIDE), smaller((size_t)free, to_end));
}

static uint64_t tail_now(const duct *duct) { return atomic_load_explicit(&duct->out->tail, memory_order_acquire); }

static mr_status room_behind(const duct *duct, uint64_t tail, uint64_t *room) {
    uint64_t under_way = duct->head - tail;
    if (under_way > duct->writes.ring.capacity) return corrupt();
    *room = duct->writes.ring.capacity - under_way;
    return MR_OK;
}

static mr_status room_of(const duct *duct, uint64_t *room) { return room_behind(duct, tail_now(duct), room); }

/* For who has used up the room that it knew of. */
static mr_status look_for_room(duct *duct, uint64_t *room) {
    duct->known = tail_now(duct);
    return room_behind(duct, duct->known, room);
}

/* A turn that was not noted yet. Up to it the bytes lie in the ring that we are at; who is there goes on in the other
 * one, where another turn may wait: *turned. It cannot be that there are three of them: turns to one ring grow. */
static mr_status note_turn(duct *duct, int to, uint64_t turn, uint64_t *waiting, bool *turned) {
    side *reads = &duct->reads;
    uint64_t before = turn - duct->tail;
    if (before > reads->ring.capacity || *waiting > ANNEX_CAPACITY || reads->annex.bytes == NULL) return corrupt();
    duct->enough = ANNEX_CAPACITY / 2;
    *turned = before == 0;
    if (*turned) {
        reads->turns[to] = turn;
        go_to(reads, to);
    } else if (before < *waiting) {
        *waiting = before;
    }
    return MR_OK;
}

/* What lies in the ring that we are at. The head is loaded first: of what is behind it every turn is known. */
static mr_status waiting_of(duct *duct, uint64_t *waiting) {
    side *reads = &duct->reads;
    bool turned;
    do {
        int to = is_at_annex(reads) ? TO_DUCT : TO_ANNEX;
        duct->seen = atomic_load_explicit(&duct->in->head, memory_order_acquire);
        uint64_t turn = atomic_load_explicit(&duct->in->turns[to], memory_order_relaxed);
        *waiting = duct->seen - duct->tail;
        duct->enough = reads->ring.capacity / 2;
        turned = false;
        if (__builtin_expect(turn != reads->turns[to], 0))
            MR_TRY(note_turn(duct, to, turn, waiting, &turned));
        else if (*waiting > reads->ring.capacity)
            return corrupt();
    } while (turned);
    return MR_OK;
}

static void publish_head(duct *duct, bool *wake) {
    atomic_store_explicit(&duct->out->head, duct->head, memory_order_release);
    cpu_hand_over(&duct->out->head);
    *wake |= flag_taken(&duct->out->armed);
}

/* One piece, as far as it goes; what is large is published while the rest is on its way. */
static mr_status put(duct *duct, const struct iovec *piece, uint64_t *room, size_t *put, bool *wake) {
    *put = 0;
    while (*put < piece->iov_len && !*wake) {
        if (*room == 0) MR_TRY(look_for_room(duct, room));
        size_t size = stretch(&duct->writes.ring, duct->head, *room, piece->iov_len - *put);
        if (size == 0) break;
        memcpy(place_of(&duct->writes.ring, duct->head), (const uint8_t *)piece->iov_base + *put, size);
        *put += size;
        *room -= size;
        duct->head += size;
        if (size == DUCT_STRIDE) publish_head(duct, wake);
    }
    return MR_OK;
}

/* From here on what is written lies in that ring. */
static void turn(duct *duct, int to) {
    duct->writes.turns[to] = duct->head;
    atomic_store_explicit(&duct->out->turns[to], duct->head, memory_order_release);
    go_to(&duct->writes, to);
}

/* When all of it was read, and with it that it was turned to: then its turn may be overwritten. */
static void leave_annex(duct *duct) {
    duct->known = tail_now(duct);
    if (duct->known == duct->head && duct->head != duct->writes.turns[TO_ANNEX]) turn(duct, TO_DUCT);
}

/* The lines behind what was written still lie in the cache of who read them a ring ago. They are on their way here
 * while nothing is to be written; one that has something to be read now stays there. */
static void claim(const duct *duct, uint64_t room) {
    if (room < FETCH_BYTES + LINE) return;
    uint64_t from = (duct->head + LINE - 1) & ~(uint64_t)(LINE - 1);
    for (uint64_t at = from; at < from + FETCH_BYTES; at += LINE) cpu_prefetch_write(place_of(&duct->writes.ring, at));
}

/* A small message is wanted at once: the reader finds its lines sooner where both caches end than in this one. */
static void hand_over(const duct *duct, uint64_t size) {
    if (size > FETCH_BYTES) return;
    for (uint64_t at = (duct->head - size) & ~(uint64_t)(LINE - 1); at < duct->head; at += LINE)
        cpu_hand_over(place_of(&duct->writes.ring, at));
}

mr_status duct_write(duct *duct, const struct iovec *pieces, size_t count, size_t *moved, bool *wake) {
    uint64_t room = 0;
    *moved = 0;
    *wake = false;
    if (__builtin_expect(is_at_annex(&duct->writes), 0)) leave_annex(duct);
    MR_TRY(room_behind(duct, duct->known, &room));
    for (size_t i = 0; i < count; i++) {
        size_t piece;
        MR_TRY(put(duct, &pieces[i], &room, &piece, wake));
        *moved += piece;
        if (piece < pieces[i].iov_len) break;
    }
    if (*moved != 0) {
        publish_head(duct, wake);
        claim(duct, room);
    }
    return MR_OK;
}

/* Who is at its annex may have to turn back first, and one that goes across the end lies in two places: neither is
 * usual. */
bool duct_send(duct *duct, span first, span rest, bool *wake) {
    const ring *ring = &duct->writes.ring;
    uint64_t room = 0, size = first.size + rest.size, place = duct->head & (DUCT_CAPACITY - 1);
    MR_ASSERT(size <= DUCT_STRIDE);
    if (is_at_annex(&duct->writes) || place + size > DUCT_CAPACITY) return false;
    if (room_behind(duct, duct->known, &room) != MR_OK) return false;
    if (room < size && (look_for_room(duct, &room) != MR_OK || room < size)) return false;
    memcpy(ring->bytes + place, first.data, first.size);
    memcpy(ring->bytes + place + first.size, rest.data, rest.size);
    duct->head += size;
    hand_over(duct, size);
    *wake = false;
    publish_head(duct, wake);
    claim(duct, room - size);
    return true;
}

/* Not for every small message: who reads a ring nearly empty all the time has nobody waiting. */
static bool is_time_to_ask(duct *duct) {
    if (duct->tail - duct->asked < ASK_BYTES || duct->seen - duct->tail > duct->enough) return false;
    duct->asked = duct->tail;
    return true;
}

static mr_status get(duct *duct, const struct iovec *piece, uint64_t *waiting, size_t *got, bool *wake) {
    *got = 0;
    while (*got < piece->iov_len && !*wake) {
        if (*waiting == 0) MR_TRY(waiting_of(duct, waiting));
        size_t size = stretch(&duct->reads.ring, duct->tail, *waiting, piece->iov_len - *got);
        if (size == 0) break;
        memcpy((uint8_t *)piece->iov_base + *got, place_of(&duct->reads.ring, duct->tail), size);
        *got += size;
        *waiting -= size;
        duct->tail += size;
        atomic_store_explicit(&duct->in->tail, duct->tail, memory_order_release);
        *wake = is_time_to_ask(duct) && flag_taken(&duct->in->starved);
    }
    return MR_OK;
}

mr_status duct_read(duct *duct, const struct iovec *pieces, size_t count, size_t *moved, bool *wake) {
    uint64_t waiting = 0;
    *moved = 0;
    *wake = false;
    for (size_t i = 0; i < count; i++) {
        size_t piece;
        MR_TRY(get(duct, &pieces[i], &waiting, &piece, wake));
        *moved += piece;
        if (piece < pieces[i].iov_len) break;
    }
    return MR_OK;
}

/* What goes across the end lies in two places, behind a turn is another ring, and who has read a quarter of one asks
 * whether somebody waits: none of that is usual. */
size_t duct_receive(duct *duct, void *to, size_t max) {
    const side *reads = &duct->reads;
    uint64_t head = atomic_load_explicit(&duct->in->head, memory_order_acquire), waiting = head - duct->tail;
    uint64_t place = duct->tail & (DUCT_CAPACITY - 1);
    if (waiting > max || place + waiting > DUCT_CAPACITY || is_at_annex(reads)) return 0;
    if (atomic_load_explicit(&duct->in->turns[TO_ANNEX], memory_order_relaxed) != reads->turns[TO_ANNEX]) return 0;
    if (duct->tail + waiting - duct->asked >= ASK_BYTES) return 0;
    memcpy(to, reads->ring.bytes + place, waiting);
    duct->seen = head;
    duct->tail = head;
    atomic_store_explicit(&duct->in->tail, head, memory_order_release);
    return waiting;
}

static uint64_t waiting_now(const duct *duct) {
    return atomic_load_explicit(&duct->in->head, memory_order_acquire) - duct->tail;
}

bool duct_readable(const duct *duct) { return waiting_now(duct) != 0; }

/* Of a large message the first lines will do, the rest follows them by itself. The other line is the one that our last
 * message ended in: it has been read, or nothing would have come, and the answer begins in it. */
bool duct_look(const duct *duct) {
    uint64_t waiting = waiting_now(duct);
    if (waiting == 0) return false;
    const uint8_t *at = place_of(&duct->reads.ring, duct->tail);
    for (size_t line = 0; line < FETCH_BYTES && line < waiting; line += LINE) __builtin_prefetch(at + line);
    cpu_prefetch_write(place_of(&duct->writes.ring, duct->head));
    return true;
}

bool duct_arm(duct *duct) {
    atomic_store_explicit(&duct->in->armed, 1, memory_order_relaxed);
    cpu_fence();
    return !duct_readable(duct);
}

void duct_disarm(duct *duct) { atomic_store_explicit(&duct->in->armed, 0, memory_order_relaxed); }

bool duct_starve(duct *duct) {
    uint64_t room = 0;
    atomic_store_explicit(&duct->out->starved, 1, memory_order_relaxed);
    cpu_fence();
    if (room_of(duct, &room) != MR_OK || room < duct->writes.ring.capacity / 2) return true;
    atomic_store_explicit(&duct->out->starved, 0, memory_order_relaxed);
    return false;
}

bool duct_has_room(const duct *duct) {
    uint64_t room = 0;
    return room_of(duct, &room) != MR_OK || room != 0; /* what makes no sense is met by who writes */
}

/* ---- Growth. */

bool duct_may_offer(const duct *duct) { return !duct->offered; }

mr_status duct_offer(duct *duct, int *fd) {
    MR_ASSERT(!duct->offered);
    duct->offered = true;
    MR_TRY(annex_create(&duct->writes.annex));
    *fd = duct->writes.annex.fd;
    return MR_OK;
}

void duct_withdraw(duct *duct) {
    MR_ASSERT(!is_at_annex(&duct->writes));
    annex_close(&duct->writes.annex);
}

/* Position 0 is that of no turn; there no ring of an honest reader is full. */
bool duct_grow(duct *duct) {
    side *writes = &duct->writes;
    if (writes->annex.bytes == NULL || is_at_annex(writes) || duct->head == 0) return false;
    uint32_t answer = atomic_load_explicit(&duct->out->answer, memory_order_acquire);
    if (answer != 0 && answer != TAKEN) annex_close(&writes->annex);
    if (answer != TAKEN || annex_back(&writes->annex) != MR_OK) return false;
    atomic_store_explicit(&duct->out->starved, 0, memory_order_relaxed);
    turn(duct, TO_ANNEX);
    return true;
}

void duct_rest(duct *duct) {
    side *writes = &duct->writes;
    if (is_at_annex(writes)) leave_annex(duct);
    if (writes->annex.bytes != NULL && !is_at_annex(writes)) annex_rest(&writes->annex);
}

static void answer(duct *duct, uint32_t answer) {
    duct->answered = true;
    atomic_store_explicit(&duct->in->answer, answer, memory_order_release);
}

mr_status duct_take(duct *duct, int fd, bool *wake) {
    annex *annex = &duct->reads.annex;
    *wake = false;
    if (duct->answered) return error_set(MR_CORRUPT, "a second large ring (fd %d) for one direction of a shm pipe", fd);
    mr_status status = annex_join(fd, annex);
    if (status == MR_CORRUPT) return status;
    answer(duct, status == MR_OK ? TAKEN : DECLINED);
    *wake = flag_taken(&duct->in->starved);
    return status;
}

void duct_decline(duct *duct) { answer(duct, DECLINED); }

unsigned duct_annexes(const duct *duct) {
    return (duct->writes.annex.bytes != NULL) + (duct->reads.annex.bytes != NULL);
}
