/* events.c — see events.h. */
#include "runtime/look/events.h"

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

/* What was stored before is seen by whoever sees what is stored after it. On x86 stores are seen in their order: only
 * the compiler has to be told. */
static inline void store_barrier(void) {
#if defined(__x86_64__)
    __asm__ volatile("" ::: "memory");
#else
    cpu_fence();
#endif
}

/* The same for loads. */
static inline void load_barrier(void) { store_barrier(); }

size_t events_bytes(uint32_t count) {
    MR_ASSERT(count <= EVENTS_COUNT_MAX);
    uint32_t capacity = EVENTS_COUNT_MIN;
    while (capacity < count) capacity *= 2;
    return EVENTS_PAGE + (size_t)capacity * sizeof(events_record);
}

uint32_t events_capacity(size_t bytes) {
    if (bytes < EVENTS_PAGE + EVENTS_COUNT_MIN * sizeof(events_record)) return 0;
    size_t room = (bytes - EVENTS_PAGE) / sizeof(events_record);
    uint32_t capacity = EVENTS_COUNT_MIN;
    while (capacity * 2 <= room && capacity < EVENTS_COUNT_MAX) capacity *= 2;
    return capacity;
}

static events_record *records_of(const void *memory) { return (events_record *)((uintptr_t)memory + EVENTS_PAGE); }

/* ---- Writing. */

void events_open(events *events, void *memory, size_t bytes, clock_source clock, const events_identity *who) {
    uint32_t capacity = events_capacity(bytes);
    MR_ASSERT(capacity > 0 && (uintptr_t)memory % 64 == 0);
    events_page *page = memory;
    memset(page, 0, sizeof *page);
    memset(events, 0, sizeof *events);
    page->version = EVENTS_VERSION;
    page->capacity = capacity;
    page->process = who->process;
    page->pid = who->pid;
    page->role = who->role;
    page->opened_us = clock_now_us(clock);
    store_barrier();
    page->magic = EVENTS_MAGIC;
    events->page = page;
    events->records = records_of(memory);
    events->mask = capacity - 1;
    events->clock = clock;
    events->limit = 1;
}

void events_close(events *events) { memset(events, 0, sizeof *events); }

static inline uint32_t slot_of(const char *name, size_t size) {
    return ((uint32_t)size * 37 + (uint8_t)name[0] * 5 + (uint8_t)name[size - 1]) % 64;
}

static bool is_known(const events *events, uint32_t number, const char *name, size_t size) {
    const events_known *known = &events->names[number];
    return known->size == size && memcmp(events->page->names + known->offset, name, size) == 0;
}

/* Looks through all of them, and adds it if it is new. */
static uint8_t learn(events *events, const char *name, size_t size) {
    for (uint32_t i = 0; i < events->names_count; i++)
        if (is_known(events, i, name, size)) return (uint8_t)i;
    if (events->names_count == EVENTS_NAMES_MAX || events->names_used + 1 + size > EVENTS_NAMES_BYTES)
        return EVENTS_NAME_NONE;
    events_page *page = events->page;
    uint32_t number = events->names_count++, at = events->names_used;
    page->names[at] = (uint8_t)size;
    memcpy(page->names + at + 1, name, size);
    events->names[number] = (events_known){.offset = (uint16_t)(at + 1), .size = (uint8_t)size};
    events->names_used += 1 + (uint32_t)size;
    atomic_store_explicit(&page->names_used, events->names_used, memory_order_release);
    return (uint8_t)number;
}

/* Only what is met first is copied. */
static uint8_t number_of(events *events, const char *name, size_t size) {
    if (size == 0 || size > 255) return EVENTS_NAME_NONE;
    uint8_t *recent = &events->recent[slot_of(name, size)];
    if (*recent != 0 && is_known(events, *recent - 1u, name, size)) return (uint8_t)(*recent - 1);
    uint8_t number = learn(events, name, size);
    if (number != EVENTS_NAME_NONE) *recent = (uint8_t)(number + 1);
    return number;
}

static inline void store_word(events *events, uint64_t number, size_t word, uint64_t value) {
    atomic_store_explicit(&events->records[number & events->mask].words[word], value, memory_order_relaxed);
}

static void begin(events *events, const event *event) {
    uint64_t number = events->next;
    if (number == events->reserved) {
        events->reserved += EVENTS_BLOCK;
        atomic_store_explicit(&events->page->reserved, events->reserved, memory_order_relaxed);
        store_barrier();
    }
    uint64_t words[WORDS];
    events->newest = *event;
    events->newest.number = number;
    memcpy(words, &events->newest, sizeof words);
    for (size_t i = 0; i < WORDS; i++) store_word(events, number, i, words[i]);
    events->small = words[WORD_OF(kind)];
    events->next = number + 1;
    atomic_store_explicit(&events->page->next, number + 1, memory_order_release);
}

/* How many calls the next record may stand for, after one that took so long. */
static uint32_t next_limit(uint32_t limit, int64_t took_us) {
    if (took_us > 4 * EVENTS_GROUP_US) return 1;
    if (took_us > EVENTS_GROUP_US) return limit > 1 ? limit / 2 : 1;
    return took_us < EVENTS_GROUP_US / 2 && limit < EVENTS_GROUP_MAX ? limit * 2 : limit;
}

static void close_newest(events *events, int64_t now_us) {
    events->shared = false;
    events->open_key = EVENTS_NO_KEY;
    store_word(events, events->newest.number, WORD_OF(ended_us), (uint64_t)now_us);
    events->limit = next_limit(events->limit, now_us - events->newest.begun_us);
}

static void set_inside(events *events, uint32_t inside) {
    events->inside = inside;
    atomic_store_explicit(&events->page->inside, inside, memory_order_relaxed);
}

/* Whether the newest record can stand for this call too. */
static bool fits(const events *events, const events_call *call, uint8_t name) {
    const event *newest = &events->newest;
    return events->shared && events->inside == 0 && !events->slept && newest->kind == call->kind &&
           newest->name == name && newest->process == call->process;
}

static uint32_t free_lane(const events *events) {
    return ~events->lanes == 0 ? EVENTS_LANES - 1 : (uint32_t)__builtin_ctzll(~events->lanes);
}

static void count_more(events *events, uint32_t more) {
    events->newest.count = (uint8_t)(events->newest.count + more);
    events->small += (uint64_t)more << SMALL_SHIFT(count);
    store_word(events, events->newest.number, WORD_OF(kind), events->small);
}

/* What came by the short way, into the record. */
static void count_short(events *events) {
    if (events->room == events->had) return;
    count_more(events, events->had - events->room);
    events->had = events->room;
}

/* What came by the short way, and runs, is as if it had come by the long one. */
static void end_short_way(events *events) {
    count_short(events);
    events->open_key = EVENTS_NO_KEY;
    if (events->alone != 0) {
        events->alone = events->shown = 0;
        events->lanes = 1;
        set_inside(events, 1);
    } else {
        events_idle(events);
    }
}

/* Of the next calls of this key, but for the last, which closes the record. */
static void begin_short_way(events *events) {
    if (events->key == 0) return;
    events->open_key = events->key;
    events->room = events->had = events->limit - events->newest.count - 1;
}

uint64_t events_enter(events *events, const events_call *call) {
    if (!events_on(events)) return 0;
    end_short_way(events);
    uint8_t name = number_of(events, call->name, call->name_size);
    uint32_t lane = free_lane(events);
    if (fits(events, call, name)) {
        count_more(events, 1);
    } else {
        int64_t now_us = clock_now_us(events->clock);
        if (events->shared && events->inside == 0) close_newest(events, events->slept ? events->rested_us : now_us);
        bool submits = call->kind == EVENT_SUBMIT;        /* which takes no time, however long it slept before */
        if (events->slept && !submits) events->limit = 1; /* it has time: this one is measured by itself */
        begin(events, &(event){.begun_us = now_us,
                               .process = call->process,
                               .call = call->call,
                               .bytes = call->bytes,
                               .lane = lane,
                               .kind = (uint8_t)call->kind,
                               .name = name,
                               .count = 1});
        events->key = call->key;
        events->shared = events->inside == 0; /* of two that run at once each has its own */
    }
    events->slept = false;
    events->lanes |= UINT64_C(1) << lane;
    set_inside(events, events->inside + 1);
    return events->newest.number * EVENTS_LANES + lane;
}

static void end_other(events *events, uint64_t number, mr_status outcome) {
    if (events->next - number > events->mask + 1) return; /* overwritten */
    uint64_t small =
        atomic_load_explicit(&events->records[number & events->mask].words[WORD_OF(kind)], memory_order_relaxed);
    store_word(events, number, WORD_OF(kind), small | (uint64_t)(uint8_t)outcome << SMALL_SHIFT(outcome));
    store_word(events, number, WORD_OF(ended_us), (uint64_t)clock_now_us(events->clock));
}

void events_leave_slowly(events *events, uint64_t entered, mr_status outcome) {
    if (!events_on(events)) return;
    end_short_way(events);
    if (events->inside == 0) return; /* it was off when it began */
    uint64_t number = entered / EVENTS_LANES;
    events->lanes &= ~(UINT64_C(1) << entered % EVENTS_LANES);
    set_inside(events, events->inside - 1);
    if (number != events->newest.number || !events->shared || events->inside != 0) {
        end_other(events, number, outcome);
        return;
    }
    if (outcome != MR_OK) {
        events->small &= ~(UINT64_C(0xff) << SMALL_SHIFT(outcome));
        events->small |= (uint64_t)(uint8_t)outcome << SMALL_SHIFT(outcome);
        store_word(events, number, WORD_OF(kind), events->small);
    }
    if (events->newest.count >= events->limit)
        close_newest(events, clock_now_us(events->clock));
    else
        begin_short_way(events);
}

void events_mark(events *events, const char *name, size_t name_size, outlet outlet, uint64_t printed) {
    if (!events_on(events)) return;
    uint64_t next = atomic_load_explicit(&events->page->marks_next, memory_order_relaxed);
    uint64_t mark = printed << 9 | (uint64_t)outlet << 8 | number_of(events, name, name_size);
    atomic_store_explicit(&events->page->marks[next % EVENTS_MARKS], mark, memory_order_relaxed);
    atomic_store_explicit(&events->page->marks_next, next + 1, memory_order_release);
}

void events_rest(events *events, int64_t now_us) {
    if (!events_on(events) || !events->shared || events->inside != 0 || events->alone != 0) return;
    count_short(events);
    events->rested_us = now_us;
    atomic_store_explicit(&events->page->rested_us, now_us, memory_order_relaxed);
    if (now_us - events->newest.begun_us >= EVENTS_GROUP_US) close_newest(events, now_us);
}

/* ---- Reading. */

static bool is_ring(const events_page *page, size_t bytes) {
    uint32_t capacity = page->capacity;
    return capacity != 0 && capacity <= EVENTS_COUNT_MAX && (capacity & (capacity - 1)) == 0 &&
           capacity <= (bytes - EVENTS_PAGE) / sizeof(events_record);
}

/* Copies the records from `first` to `next`, without those that are not what their place says: of a mad writer, or
 * overwritten already. */
static void copy_records(const events_page *page, uint64_t first, uint64_t next, events_copy *out) {
    const events_record *records = records_of(page);
    uint32_t capacity = page->capacity;
    for (uint64_t number = first; number != next; number++) {
        const events_record *record = &records[number & (capacity - 1)];
        uint64_t words[WORDS];
        for (int i = 0; i < WORDS; i++) words[i] = atomic_load_explicit(&record->words[i], memory_order_acquire);
        if (words[WORD_OF(number)] != number) continue;
        memcpy(&out->events[out->count++], words, sizeof words);
    }
}

/* Drops what the writer may have been overwriting meanwhile. */
static void drop_torn(const events_page *page, events_copy *out) {
    load_barrier();
    uint64_t reserved = atomic_load_explicit(&page->reserved, memory_order_relaxed);
    uint64_t whole = reserved > page->capacity ? reserved - page->capacity : 0;
    uint32_t torn = 0;
    while (torn < out->count && out->events[torn].number < whole) torn++;
    memmove(out->events, out->events + torn, (out->count - torn) * sizeof *out->events);
    out->count -= torn;
}

/* The newest record of a process that has nothing to do: it ended when that began. */
static void close_copied(const events_page *page, events_copy *out) {
    event *newest = out->count > 0 ? &out->events[out->count - 1] : NULL;
    int64_t rested_us = atomic_load_explicit(&page->rested_us, memory_order_relaxed);
    if (newest != NULL && newest->ended_us == 0 && rested_us >= newest->begun_us) newest->ended_us = rested_us;
}

mr_status events_read(const void *memory, size_t bytes, uint32_t count_max, events_copy *out) {
    const events_page *page = memory;
    if (bytes < EVENTS_PAGE || page->magic != EVENTS_MAGIC)
        return error_set(MR_CORRUPT, "malformed event ring: %zu bytes, no magic number", bytes);
    if (page->version != EVENTS_VERSION)
        return format_reject("the event ring", page->version, EVENTS_VERSION, FORMAT_USE_SAME);
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
    if (out->names_used > EVENTS_NAMES_BYTES) out->names_used = EVENTS_NAMES_BYTES;
    mr_status status = alloc_try(out->names_used + 1, &out->names);
    if (status != MR_OK) {
        events_copy_fini(out);
        return status;
    }
    memcpy(out->names, page->names, out->names_used);
    return MR_OK;
}

/* Back from the outlet's newest mark to the first that reaches the place. Where one lies behind an older one, the file
 * was begun anew in between. */
static uint8_t marked(const events_page *page, outlet outlet, uint64_t place, uint8_t newest) {
    uint64_t next = atomic_load_explicit(&page->marks_next, memory_order_acquire), reached = UINT64_MAX;
    uint64_t oldest = next > EVENTS_MARKS ? next - EVENTS_MARKS : 0;
    for (uint64_t at = next; at-- > oldest;) {
        uint64_t mark = atomic_load_explicit(&page->marks[at % EVENTS_MARKS], memory_order_relaxed);
        if ((mark >> 8 & 1) != outlet) continue;
        if (mark >> 9 < place || mark >> 9 > reached) break;
        reached = mark >> 9;
        newest = (uint8_t)mark;
    }
    return newest;
}

/* The newest record is looked at before the marks: a body that has begun since has made its mark already. */
bool events_printed_by(const void *memory, size_t bytes, outlet outlet, uint64_t place, char *out, size_t size) {
    events_copy copy;
    if (events_read(memory, bytes, 1, &copy) != MR_OK) {
        error_clear();
        return false;
    }
    uint8_t newest = copy.count == 0 ? EVENTS_NAME_NONE : copy.events[copy.count - 1].name;
    uint8_t number = marked(memory, outlet, place, newest);
    span name = events_copy_name(&copy, number);
    snprintf(out, size, "%.*s", (int)name.size, (const char *)name.data);
    events_copy_fini(&copy);
    return number != EVENTS_NAME_NONE;
}

void events_copy_fini(events_copy *copy) {
    free(copy->events);
    free(copy->names);
    memset(copy, 0, sizeof *copy);
}

span events_copy_name(const events_copy *copy, uint8_t number) {
    size_t at = 0;
    for (uint32_t i = 0; at < copy->names_used; i++) {
        size_t size = copy->names[at];
        if (at + 1 + size > copy->names_used) break;
        if (i == number) return span_of(copy->names + at + 1, size);
        at += 1 + size;
    }
    return span_of("?", 1);
}
