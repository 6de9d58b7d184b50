/* event_ring.c — see event_ring.h. */
#include "runtime/common/event_ring.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/format.h"

enum { WORDS = sizeof(event) / 8 };

#define WORD_OF(field)     (offsetof(struct event, field) / 8)
#define SMALL_SHIFT(field) (8 * (offsetof(struct event, field) - offsetof(struct event, kind)))
_Static_assert(offsetof(struct event, kind) % 8 == 0, "kind, name, outcome and count are one word");

/* A reader that sees a later store sees all earlier ones. x86 keeps the order of stores, so a compiler barrier is
 * enough. */
static inline void store_barrier(void) {
#if defined(__x86_64__)
    __asm__ volatile("" ::: "memory");
#else
    cpu_fence();
#endif
}

/* The same for loads. x86 keeps their order, too. */
static inline void load_barrier(void) { store_barrier(); }

size_t event_ring_bytes(uint32_t count) {
    MR_ASSERT(count <= EVENT_RING_COUNT_MAX);
    uint32_t capacity = EVENT_RING_COUNT_MIN;
    while (capacity < count) capacity *= 2;
    return EVENT_RING_PAGE + (size_t)capacity * sizeof(event_ring_record);
}

uint32_t event_ring_capacity(size_t bytes) {
    if (bytes < EVENT_RING_PAGE + EVENT_RING_COUNT_MIN * sizeof(event_ring_record)) return 0;
    size_t room = (bytes - EVENT_RING_PAGE) / sizeof(event_ring_record);
    uint32_t capacity = EVENT_RING_COUNT_MIN;
    while (capacity * 2 <= room && capacity < EVENT_RING_COUNT_MAX) capacity *= 2;
    return capacity;
}

static event_ring_record *records_of(const void *memory) {
    return (event_ring_record *)((uintptr_t)memory + EVENT_RING_PAGE);
}

/* ---- Writing. */

void event_ring_open(event_ring *ring, void *memory, size_t bytes, clock_source clock, const event_ring_identity *who) {
    uint32_t capacity = event_ring_capacity(bytes);
    MR_ASSERT(capacity > 0 && (uintptr_t)memory % 64 == 0);
    event_ring_page *page = memory;
    memset(page, 0, sizeof *page);
    page->version = EVENT_RING_VERSION;
    page->capacity = capacity;
    page->process = who->process;
    page->pid = who->pid;
    page->role = who->role;
    page->opened_us = clock_now_us(clock);
    store_barrier();
    page->magic = EVENT_RING_MAGIC;
    *ring = (event_ring){.page = page, .records = records_of(memory), .mask = capacity - 1, .clock = clock, .limit = 1};
}

void event_ring_close(event_ring *ring) { memset(ring, 0, sizeof *ring); }

static inline uint32_t slot_of(const char *name, size_t size) {
    return ((uint32_t)size * 37 + (uint8_t)name[0] * 5 + (uint8_t)name[size - 1]) % 64;
}

static bool is_known(const event_ring *ring, uint32_t number, const char *name, size_t size) {
    const event_ring_known *known = &ring->names[number];
    return known->size == size && memcmp(ring->page->names + known->offset, name, size) == 0;
}

/* Number of a name: searches all names, and adds a new one. */
static uint8_t learn(event_ring *ring, const char *name, size_t size) {
    for (uint32_t i = 0; i < ring->names_count; i++)
        if (is_known(ring, i, name, size)) return (uint8_t)i;
    if (ring->names_count == EVENT_RING_NAMES_MAX || ring->names_used + 1 + size > EVENT_RING_NAMES_BYTES)
        return EVENT_RING_NAME_NONE;
    event_ring_page *page = ring->page;
    uint32_t number = ring->names_count++, at = ring->names_used;
    page->names[at] = (uint8_t)size;
    memcpy(page->names + at + 1, name, size);
    ring->names[number] = (event_ring_known){.offset = (uint16_t)(at + 1), .size = (uint8_t)size};
    ring->names_used += 1 + (uint32_t)size;
    atomic_store_explicit(&page->names_used, ring->names_used, memory_order_release);
    return (uint8_t)number;
}

/* Number of a name, by a cache of recent names. */
static uint8_t number_of(event_ring *ring, const char *name, size_t size) {
    if (size == 0 || size > 255) return EVENT_RING_NAME_NONE;
    uint8_t *recent = &ring->recent[slot_of(name, size)];
    if (*recent != 0 && is_known(ring, *recent - 1u, name, size)) return (uint8_t)(*recent - 1);
    uint8_t number = learn(ring, name, size);
    if (number != EVENT_RING_NAME_NONE) *recent = (uint8_t)(number + 1);
    return number;
}

static inline void store_word(event_ring *ring, uint64_t number, size_t word, uint64_t value) {
    atomic_store_explicit(&ring->records[number & ring->mask].words[word], value, memory_order_relaxed);
}

static void begin(event_ring *ring, const event *event) {
    uint64_t number = ring->next;
    if (number == ring->reserved) {
        ring->reserved += EVENT_RING_BLOCK;
        atomic_store_explicit(&ring->page->reserved, ring->reserved, memory_order_relaxed);
        store_barrier();
    }
    uint64_t words[WORDS];
    ring->newest = *event;
    ring->newest.number = number;
    memcpy(words, &ring->newest, sizeof words);
    for (size_t i = 0; i < WORDS; i++) store_word(ring, number, i, words[i]);
    ring->small = words[WORD_OF(kind)];
    ring->next = number + 1;
    atomic_store_explicit(&ring->page->next, number + 1, memory_order_release);
}

/* Limit of calls for the next record, after a record that took so long. */
static uint32_t next_limit(uint32_t limit, int64_t took_us) {
    if (took_us > 4 * EVENT_RING_GROUP_US) return 1;
    if (took_us > EVENT_RING_GROUP_US) return limit > 1 ? limit / 2 : 1;
    return took_us < EVENT_RING_GROUP_US / 2 && limit < EVENT_RING_GROUP_MAX ? limit * 2 : limit;
}

static void close_newest(event_ring *ring, int64_t now_us) {
    ring->shared = false;
    ring->open_key = EVENT_RING_NO_KEY;
    store_word(ring, ring->newest.number, WORD_OF(ended_us), (uint64_t)now_us);
    ring->limit = next_limit(ring->limit, now_us - ring->newest.begun_us);
}

static void set_inside(event_ring *ring, uint32_t inside) {
    ring->inside = inside;
    atomic_store_explicit(&ring->page->inside, inside, memory_order_relaxed);
}

/* Whether the newest record can also count this call. */
static bool fits(const event_ring *ring, const event_ring_call *call, uint8_t name) {
    const event *newest = &ring->newest;
    return ring->shared && ring->inside == 0 && !ring->slept && newest->kind == call->kind && newest->name == name &&
           newest->process == call->process;
}

static uint32_t free_lane(const event_ring *ring) {
    return ~ring->lanes == 0 ? EVENT_RING_LANES - 1 : (uint32_t)__builtin_ctzll(~ring->lanes);
}

static void count_more(event_ring *ring, uint32_t more) {
    ring->newest.count = (uint8_t)(ring->newest.count + more);
    ring->small += (uint64_t)more << SMALL_SHIFT(count);
    store_word(ring, ring->newest.number, WORD_OF(kind), ring->small);
}

/* Adds the fast path's calls since the last count to the newest record. */
static void count_short(event_ring *ring) {
    if (ring->room == ring->had) return;
    count_more(ring, ring->had - ring->room);
    ring->had = ring->room;
}

/* Closes the fast path. A fast-path call that runs now becomes one of the slow path. */
static void end_short_way(event_ring *ring) {
    count_short(ring);
    ring->open_key = EVENT_RING_NO_KEY;
    if (ring->alone != 0) {
        ring->alone = ring->shown = 0;
        ring->lanes = 1;
        set_inside(ring, 1);
    } else {
        event_ring_idle(ring);
    }
}

/* Opens the fast path for further calls of this key, except for the last call, which closes the record. */
static void begin_short_way(event_ring *ring) {
    if (ring->key == 0) return;
    ring->open_key = ring->key;
    ring->room = ring->had = ring->limit - ring->newest.count - 1;
}

uint64_t event_ring_enter(event_ring *ring, const event_ring_call *call) {
    if (!event_ring_on(ring)) return 0;
    end_short_way(ring);
    uint8_t name = number_of(ring, call->name, call->name_size);
    uint32_t lane = free_lane(ring);
    if (fits(ring, call, name)) {
        count_more(ring, 1);
    } else {
        int64_t now_us = clock_now_us(ring->clock);
        if (ring->shared && ring->inside == 0) close_newest(ring, ring->slept ? ring->rested_us : now_us);
        bool submits = call->kind == EVENT_SUBMIT;    /* takes no time, however long the sleep before */
        if (ring->slept && !submits) ring->limit = 1; /* the process has time to measure this call alone */
        begin(ring, &(event){.begun_us = now_us,
                             .process = call->process,
                             .call = call->call,
                             .bytes = call->bytes,
                             .lane = lane,
                             .kind = (uint8_t)call->kind,
                             .name = name,
                             .count = 1});
        ring->key = call->key;
        ring->shared = ring->inside == 0; /* of two concurrent calls each has its own record */
    }
    ring->slept = false;
    ring->lanes |= UINT64_C(1) << lane;
    set_inside(ring, ring->inside + 1);
    return ring->newest.number * EVENT_RING_LANES + lane;
}

static void end_other(event_ring *ring, uint64_t number, mr_status outcome) {
    if (ring->next - number > ring->mask + 1) return; /* overwritten */
    uint64_t small =
        atomic_load_explicit(&ring->records[number & ring->mask].words[WORD_OF(kind)], memory_order_relaxed);
    store_word(ring, number, WORD_OF(kind), small | (uint64_t)(uint8_t)outcome << SMALL_SHIFT(outcome));
    store_word(ring, number, WORD_OF(ended_us), (uint64_t)clock_now_us(ring->clock));
}

void event_ring_leave_slowly(event_ring *ring, uint64_t entered, mr_status outcome) {
    if (!event_ring_on(ring)) return;
    end_short_way(ring);
    if (ring->inside == 0) return; /* the ring was off when the call began */
    uint64_t number = entered / EVENT_RING_LANES;
    ring->lanes &= ~(UINT64_C(1) << entered % EVENT_RING_LANES);
    set_inside(ring, ring->inside - 1);
    if (number != ring->newest.number || !ring->shared || ring->inside != 0) {
        end_other(ring, number, outcome);
        return;
    }
    if (outcome != MR_OK) {
        ring->small &= ~(UINT64_C(0xff) << SMALL_SHIFT(outcome));
        ring->small |= (uint64_t)(uint8_t)outcome << SMALL_SHIFT(outcome);
        store_word(ring, number, WORD_OF(kind), ring->small);
    }
    if (ring->newest.count >= ring->limit)
        close_newest(ring, clock_now_us(ring->clock));
    else
        begin_short_way(ring);
}

void event_ring_mark(event_ring *ring, const char *name, size_t name_size, std_stream std_stream, uint64_t printed) {
    if (!event_ring_on(ring)) return;
    uint64_t next = atomic_load_explicit(&ring->page->marks_next, memory_order_relaxed);
    uint64_t mark = printed << 9 | (uint64_t)std_stream << 8 | number_of(ring, name, name_size);
    atomic_store_explicit(&ring->page->marks[next % EVENT_RING_MARKS], mark, memory_order_relaxed);
    atomic_store_explicit(&ring->page->marks_next, next + 1, memory_order_release);
}

void event_ring_rest(event_ring *ring, int64_t now_us) {
    if (!event_ring_on(ring) || !ring->shared || ring->inside != 0 || ring->alone != 0) return;
    count_short(ring);
    ring->rested_us = now_us;
    atomic_store_explicit(&ring->page->rested_us, now_us, memory_order_relaxed);
    if (now_us - ring->newest.begun_us >= EVENT_RING_GROUP_US) close_newest(ring, now_us);
}

/* ---- Reading. */

static bool is_ring(const event_ring_page *page, size_t bytes) {
    uint32_t capacity = page->capacity;
    return capacity != 0 && capacity <= EVENT_RING_COUNT_MAX && (capacity & (capacity - 1)) == 0 &&
           capacity <= (bytes - EVENT_RING_PAGE) / sizeof(event_ring_record);
}

/* Copies the records from `first` to `next`, without those whose number is wrong: overwritten, or from a corrupt
 * writer. */
static void copy_records(const event_ring_page *page, uint64_t first, uint64_t next, event_ring_copy *out) {
    const event_ring_record *records = records_of(page);
    uint32_t capacity = page->capacity;
    for (uint64_t number = first; number != next; number++) {
        const event_ring_record *record = &records[number & (capacity - 1)];
        uint64_t words[WORDS];
        for (int i = 0; i < WORDS; i++) words[i] = atomic_load_explicit(&record->words[i], memory_order_acquire);
        if (words[WORD_OF(number)] != number) continue;
        memcpy(&out->events[out->count++], words, sizeof words);
    }
}

/* Drops records that the writer may have overwritten during the copy. */
static void drop_torn(const event_ring_page *page, event_ring_copy *out) {
    load_barrier();
    uint64_t reserved = atomic_load_explicit(&page->reserved, memory_order_relaxed);
    uint64_t whole = reserved > page->capacity ? reserved - page->capacity : 0;
    uint32_t torn = 0;
    while (torn < out->count && out->events[torn].number < whole) torn++;
    memmove(out->events, out->events + torn, (out->count - torn) * sizeof *out->events);
    out->count -= torn;
}

/* The newest record of an idle process ended when the process became idle. */
static void close_copied(const event_ring_page *page, event_ring_copy *out) {
    event *newest = out->count > 0 ? &out->events[out->count - 1] : NULL;
    int64_t rested_us = atomic_load_explicit(&page->rested_us, memory_order_relaxed);
    if (newest != NULL && newest->ended_us == 0 && rested_us >= newest->begun_us) newest->ended_us = rested_us;
}

mr_status event_ring_read(const void *memory, size_t bytes, uint32_t count_max, event_ring_copy *out) {
    const event_ring_page *page = memory;
    if (bytes < EVENT_RING_PAGE || page->magic != EVENT_RING_MAGIC)
        return error_set(MR_CORRUPT, "malformed event ring: %zu bytes, no magic number", bytes);
    if (page->version != EVENT_RING_VERSION)
        return format_reject("the event ring", page->version, EVENT_RING_VERSION, FORMAT_USE_SAME);
    if (!is_ring(page, bytes)) return error_set(MR_CORRUPT, "malformed event ring: wrong sizes in %zu bytes", bytes);
    load_barrier();
    memset(out, 0, sizeof *out);
    out->process = page->process;
    out->pid = page->pid;
    out->role = page->role;
    out->opened_us = page->opened_us;
    out->inside = atomic_load_explicit(&page->inside, memory_order_relaxed);
    uint64_t next = atomic_load_explicit(&page->next, memory_order_acquire);
    uint64_t count = next < page->capacity ? next : page->capacity;
    if (count > count_max) count = count_max;
    MR_TRY(alloc_try((count + 1) * sizeof(event), &out->events));
    out->written = next;
    copy_records(page, next - count, next, out);
    drop_torn(page, out);
    if (out->inside == 0) close_copied(page, out);
    out->names_used = atomic_load_explicit(&page->names_used, memory_order_acquire);
    if (out->names_used > EVENT_RING_NAMES_BYTES) out->names_used = EVENT_RING_NAMES_BYTES;
    mr_status status = alloc_try(out->names_used + 1, &out->names);
    if (status != MR_OK) {
        event_ring_copy_fini(out);
        return status;
    }
    memcpy(out->names, page->names, out->names_used);
    return MR_OK;
}

/* Searches the stream's marks from the newest back to the first that covers the place. A mark beyond a newer one means
 * that the file was truncated in between. */
static uint8_t marked(const event_ring_page *page, std_stream std_stream, uint64_t place, uint8_t newest) {
    uint64_t next = atomic_load_explicit(&page->marks_next, memory_order_acquire), reached = UINT64_MAX;
    uint64_t oldest = next > EVENT_RING_MARKS ? next - EVENT_RING_MARKS : 0;
    for (uint64_t at = next; at-- > oldest;) {
        uint64_t mark = atomic_load_explicit(&page->marks[at % EVENT_RING_MARKS], memory_order_relaxed);
        if ((mark >> 8 & 1) != std_stream) continue;
        if (mark >> 9 < place || mark >> 9 > reached) break;
        reached = mark >> 9;
        newest = (uint8_t)mark;
    }
    return newest;
}

/* Reads the newest record before the marks: a body that begins in between has already set its mark. */
bool event_ring_printed_by(const void *memory, size_t bytes, std_stream std_stream, uint64_t place, char *out,
                           size_t size) {
    event_ring_copy copy;
    if (event_ring_read(memory, bytes, 1, &copy) != MR_OK) {
        error_clear();
        return false;
    }
    uint8_t newest = copy.count == 0 ? EVENT_RING_NAME_NONE : copy.events[copy.count - 1].name;
    uint8_t number = marked(memory, std_stream, place, newest);
    span name = event_ring_copy_name(&copy, number);
    snprintf(out, size, "%.*s", (int)name.size, (const char *)name.data);
    event_ring_copy_fini(&copy);
    return number != EVENT_RING_NAME_NONE;
}

void event_ring_copy_fini(event_ring_copy *copy) {
    free(copy->events);
    free(copy->names);
    memset(copy, 0, sizeof *copy);
}

span event_ring_copy_name(const event_ring_copy *copy, uint8_t number) {
    size_t at = 0;
    for (uint32_t i = 0; at < copy->names_used; i++) {
        size_t size = copy->names[at];
        if (at + 1 + size > copy->names_used) break;
        if (i == number) return span_of(copy->names + at + 1, size);
        at += 1 + size;
    }
    return span_of("?", 1);
}
