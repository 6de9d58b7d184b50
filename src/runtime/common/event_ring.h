/* event_ring.h — event ring: latest calls of a process as fixed records in shared memory, always on.
 *
 * A record is a cache line: the body, its caller, its begin and its end. A reader of the memory sees the current work
 * of a process without its help, and after its death its last work.
 *
 *   offset        what                                                                   written
 *   ------------  ---------------------------------------------------------------------  ---------------------
 *   0             magic, version, capacity, process, pid, role                       once, by event_ring_open
 *   128           next, reserved, inside, names_used, rested_us, marks_next              while it runs
 *   256           marks: position in each output stream when another body began      when that happens
 *   768           names, one after the other: u8 length, bytes                           when a new one is met
 *   4096 + 64 i   record i, reused for i + capacity, i + 2 capacity, …
 *
 * One writer (the thread that holds the context's lock), any number of readers, no lock: the writer never waits. It
 * overwrites the oldest record; an overtaken reader detects it. Before the writer touches a record, `reserved` covers
 * that record; `reserved` advances by EVENT_RING_BLOCK at once, so that its barrier is rarely paid. A reader copies
 * first and loads `reserved` afterwards: records more than `capacity` behind `reserved` may be torn and are left out.
 *
 * Reading a clock costs more than the record, and a call may take no longer than a few such readings. So calls that
 * follow each other closely, of one name and one caller, share a record with a count: as many as run in about
 * EVENT_RING_GROUP_US, at most EVENT_RING_GROUP_MAX, found by measuring how long the last record took. A call that
 * takes longer than that has a record of its own, with both times; only a call that is suddenly long shares a record
 * with the few before it. The count of the newest record lags while calls follow each other, and is exact when the
 * record is closed or the process rests.
 *
 *  event_ring_enter ──► (fits the newest record: counted there │ else: that one is closed, a new one begun)
 *  event_ring_leave ──► (the record is full: closed │ else: open for the next call)
 *   event_ring_idle  no call is queued: the page shows none running
 *   event_ring_rest  the process is about to sleep, at a time that was read anyway
 *   event_ring_slept  the process slept: the next call closes the record as of the moment of rest */
#pragma once
#include <stdatomic.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "miniray/status.h"
#include "runtime/common/std_stream.h"

enum {
    EVENT_RING_VERSION = 3,
    EVENT_RING_PAGE = 4096,
    EVENT_RING_MARKS = 64,
    EVENT_RING_NAMES_BYTES = EVENT_RING_PAGE - 256 - EVENT_RING_MARKS * 8,
    EVENT_RING_NAMES_MAX = 250,
    EVENT_RING_NAME_NONE = 255, /* the name table was full */
    EVENT_RING_BLOCK = 32,
    EVENT_RING_COUNT_MIN = 4 * EVENT_RING_BLOCK,
    EVENT_RING_COUNT_MAX = 1 << 20,
    EVENT_RING_GROUP_US = 50,
    EVENT_RING_GROUP_MAX = 128,
    EVENT_RING_LANES = 64,
};
#define EVENT_RING_NO_KEY UINT64_MAX
#define EVENT_RING_MAGIC  UINT64_C(0x53544e4556454152)

typedef enum event_kind {
    EVENT_TASK = 1,
    EVENT_CREATE, /* creation of an actor */
    EVENT_METHOD,
    EVENT_WAIT,   /* a worker waited in mr_get or mr_wait and released its CPU */
    EVENT_SUBMIT, /* a driver has sent a call: `process` is the callee */
} event_kind;

typedef struct event {
    int64_t begun_us, ended_us; /* monotonic clock; ended 0: running, or the clock was not read since */
    uint64_t process, call;     /* caller (or callee), and the caller's number of the (first) call */
    uint64_t number;            /* number of this record, from 0: differs from those of earlier records at that place */
    uint32_t bytes;             /* of the (first) call's arguments */
    uint32_t lane;              /* concurrent calls have different lanes, from 0; the last lane has the rest */
    uint8_t kind, name;         /* event_kind; number of a name */
    uint8_t outcome;            /* mr_status; of several calls the last failure */
    uint8_t count;              /* calls in this record */
    uint8_t unused[12];
} event;
_Static_assert(sizeof(event) == 64, "a cache line");

typedef struct event_ring_page {
    uint64_t magic;
    uint32_t version, capacity; /* records: a power of two */
    uint64_t process;
    uint32_t pid, role;
    int64_t opened_us;
    _Alignas(128) _Atomic uint64_t next; /* records begun */
    _Atomic uint64_t reserved;           /* no record from this number on was written */
    _Atomic uint32_t inside;             /* calls that run now */
    _Atomic uint32_t names_used;         /* bytes used in `names` */
    _Atomic int64_t rested_us;           /* begin of idleness after the newest record */
    _Atomic uint64_t marks_next;         /* marks made; mark i lies at i % EVENT_RING_MARKS */
    /* bytes written << 9 | stream << 8 | number of the name that wrote them */
    _Alignas(256) _Atomic uint64_t marks[EVENT_RING_MARKS];
    uint8_t names[EVENT_RING_NAMES_BYTES];
} event_ring_page;
_Static_assert(sizeof(event_ring_page) == EVENT_RING_PAGE && offsetof(event_ring_page, next) == 128, "layout");
_Static_assert(offsetof(event_ring_page, marks) == 256 && offsetof(event_ring_page, names) == 768, "layout");

typedef struct event_ring_record { /* an event, as words that may be read while they are written */
    _Alignas(64) _Atomic uint64_t words[8];
} event_ring_record;
_Static_assert(sizeof(event_ring_record) == 64, "layout");

/* ---- Writing. */

typedef struct event_ring_known { /* place of a name in the page */
    uint16_t offset;
    uint8_t size;
} event_ring_known;

typedef struct event_ring { /* the writer's side; zeroed: off, costs a branch */
    event_ring_page *page;  /* borrowed; NULL: off */
    event_ring_record *records;
    clock_source clock;
    uint64_t mask, next, reserved;
    event newest;      /* the newest record as begun, with its present count */
    uint64_t small;    /* word of kind, name, outcome and count of the newest record, as last stored */
    uint64_t key;      /* key of the newest record's first call */
    uint64_t open_key; /* key of the calls that the fast path accepts */
    uint32_t room;     /* calls that the fast path still accepts */
    uint32_t had;      /* `room` at the last count in the record */
    uint32_t alone;    /* 1: a call of the fast path runs now */
    bool shared;       /* the newest record is open for further calls */
    bool slept;
    uint64_t lanes;    /* a bit for each taken lane */
    uint32_t shown;    /* 1: the page shows such a call as running. Apart from `alone`, or one load would read both */
    uint32_t inside;   /* calls of the slow path that run now */
    uint32_t limit;    /* calls that one record may count */
    int64_t rested_us; /* begin of idleness; 0: busy */
    uint32_t names_count, names_used;
    event_ring_known names[EVENT_RING_NAMES_MAX];
    uint8_t recent[64]; /* a name's number + 1 by a cheap hash of its text */
} event_ring;

typedef struct event_ring_identity {
    uint64_t process;
    uint32_t pid, role;
} event_ring_identity;

size_t event_ring_bytes(uint32_t count);    /* memory for that many records, rounded up to a power of two */
uint32_t event_ring_capacity(size_t bytes); /* how many records such memory has; 0: too small */

/* `memory` is aligned to 64 bytes and borrowed until event_ring_close, which ends all access to it. */
void event_ring_open(event_ring *ring, void *memory, size_t bytes, clock_source clock, const event_ring_identity *who);
void event_ring_close(event_ring *ring);
static inline bool event_ring_on(const event_ring *ring) { return ring->page != NULL; }

typedef struct event_ring_call { /* a call that begins; the name is borrowed */
    event_kind kind;
    const char *name;
    size_t name_size;
    uint64_t process, call;
    uint32_t bytes;
    uint64_t key; /* equal for calls of one kind, name and caller; 0: unknown */
} event_ring_call;

/* Begin and end of a call; enter returns the argument of leave. */
uint64_t event_ring_enter(event_ring *ring, const event_ring_call *call);
__attribute__((noinline)) void event_ring_leave_slowly(event_ring *ring, uint64_t entered, mr_status outcome);

/* Fast path for an instantaneous call equal to the previous one: true, begin and end are recorded. The call is counted
 * here, and in its record with the next call of the slow path or when the process rests. */
static inline bool event_ring_count(event_ring *ring, uint64_t key) {
    if (key != ring->open_key || ring->room == 0) return false;
    ring->room--;
    return true;
}

/* Fast path of enter; event_ring_again returns the argument of leave. The page shows a running call until
 * event_ring_idle, which is right while calls follow each other. */
static inline bool event_ring_repeat(event_ring *ring, uint64_t key) {
    if (ring->alone != 0 || !event_ring_count(ring, key)) return false;
    ring->alone = 1;
    if (ring->shown == 0) {
        ring->shown = 1;
        atomic_store_explicit(&ring->page->inside, 1, memory_order_relaxed);
    }
    return true;
}
static inline uint64_t event_ring_again(const event_ring *ring) { return ring->newest.number * EVENT_RING_LANES; }

/* Fast path of leave, for a call of the fast path: its record has room for more. */
static inline void event_ring_leave(event_ring *ring, uint64_t entered, mr_status outcome) {
    if (ring->alone == 0 || outcome != MR_OK)
        event_ring_leave_slowly(ring, entered, outcome);
    else
        ring->alone = 0;
}

/* Call when the process has no queued calls. */
static inline void event_ring_idle(event_ring *ring) {
    if (ring->shown == 0 || ring->alone != 0) return;
    ring->shown = 0;
    atomic_store_explicit(&ring->page->inside, 0, memory_order_relaxed);
}
/* Output of that stream up to that place, since its last mark, was written by bodies of this name. */
void event_ring_mark(event_ring *ring, const char *name, size_t name_size, std_stream std_stream, uint64_t printed);
void event_ring_rest(event_ring *ring, int64_t now_us);
static inline void event_ring_slept(event_ring *ring) {
    ring->slept = true;
    ring->open_key = EVENT_RING_NO_KEY;
}

/* ---- Reading: by any process that maps the memory, also when the writer is dead, corrupt or writing. */

typedef struct event_ring_copy { /* owned: event_ring_copy_fini */
    uint64_t process;
    uint32_t pid, role;
    int64_t opened_us;
    uint32_t inside;  /* calls that run now */
    uint64_t written; /* records begun since the ring was opened */
    event *events;    /* oldest first; earlier records were overwritten */
    uint32_t count;
    uint8_t *names; /* as in the page */
    uint32_t names_used;
} event_ring_copy;

/* MR_CORRUPT: no ring. MR_NOMEM. At most `count_max` records, the newest ones. */
MR_MUST mr_status event_ring_read(const void *memory, size_t bytes, uint32_t count_max, event_ring_copy *out);
/* Name of the body that wrote the byte before this place of that stream: the marked name, else the newest one. At most
 * `size` bytes with a zero; false: none. */
bool event_ring_printed_by(const void *memory, size_t bytes, std_stream std_stream, uint64_t place, char *out,
                           size_t size);
void event_ring_copy_fini(event_ring_copy *copy);
span event_ring_copy_name(const event_ring_copy *copy, uint8_t number); /* "?" if there is none */
