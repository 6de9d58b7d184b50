/* event_ring.h — event ring: latest calls of a process as fixed records in shared memory, always on.
 *
 * A record is a cache line: the body, its caller, its begin and its end. A reader of the memory sees the current work
 * of a process without its help, and after its death its last work.
 *
 *   offset        what                                                                   written
 *   ------------  ---------------------------------------------------------------------  ---------------------
 *   0             magic, version, capacity, process, pid, role                       once, by event_ring_open
 *   128           next, reserved, inside, names_used, rested_us, marks_next              while it runs
 *   256           marks: how far it had printed, and where, when another body began      when that happens
 *   768           names, one after the other: u8 length, bytes                           when a new one is met
 *   4096 + 64 i   record i, reused for i + capacity, i + 2 capacity, …
 *
 * One writer (the thread that holds the context's lock), any number of readers, no lock: the writer never waits. It
 * overwrites the oldest record; a reader that is overtaken notices it. Before the writer touches a record it has said
 * so in `reserved`, which it moves by EVENT_RING_BLOCK at once, so that the barrier that this takes is paid once in a
 * while. A reader copies first and looks at `reserved` afterwards: what lies more than `capacity` behind it may be torn
 * and is left out.
 *
 * Reading a clock costs more than the record, and a call may take no longer than a few such readings. So calls that
 * follow each other closely, of one name and one caller, share a record with a count: as many as run in about
 * EVENT_RING_GROUP_US, at most EVENT_RING_GROUP_MAX, found by measuring how long the last record took. A call that
 * takes longer than that has a record of its own, with both times; only one that is suddenly long hides among the few
 * before it. The count of the newest record is behind while calls come in a row, and right when it is closed or the
 * process rests.
 *
 *  event_ring_enter ──► (fits the newest record: counted there │ else: that one is closed, a new one begun)
 *  event_ring_leave ──► (the record is full: closed │ else: open for the next call)
 *   event_ring_idle  no call is there: the page says that none runs
 *   event_ring_rest  the process is about to sleep, known by a clock that was read anyway
 *   event_ring_slept  it slept since: the record is closed as of that moment when the next call comes */
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
    EVENT_RING_NAME_NONE = 255, /* the table of names was full */
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
    EVENT_CREATE, /* of an actor */
    EVENT_METHOD,
    EVENT_WAIT,   /* a worker waited in mr_get or mr_wait and lent its slot */
    EVENT_SUBMIT, /* a program has sent a call: `process` is whom it asks */
} event_kind;

typedef struct event {
    int64_t begun_us, ended_us; /* on the monotonic clock; ended 0: not over, or nobody has looked at the clock since */
    uint64_t process, call;     /* who asked (or is asked), and the number that the asker gave the (first) call */
    uint64_t number;            /* of this record, from 0: tells it from the one that lay there before */
    uint32_t bytes;             /* of the (first) call's arguments */
    uint32_t lane;              /* calls that run at once are in different ones, from 0; the last has the rest */
    uint8_t kind, name;         /* event_kind; number of a name */
    uint8_t outcome;            /* mr_status; of several the last that failed */
    uint8_t count;              /* calls that it stands for */
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
    _Atomic uint64_t reserved;           /* no record from this number on was touched */
    _Atomic uint32_t inside;             /* calls that run now */
    _Atomic uint32_t names_used;         /* bytes */
    _Atomic int64_t rested_us;           /* when it had nothing to do any more, after the newest record */
    _Atomic uint64_t marks_next;         /* marks made; mark i lies at i % EVENT_RING_MARKS */
    /* bytes printed << 9 | to which outlet << 8 | number of the name that printed them */
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

typedef struct event_ring_known { /* a name that was met */
    uint16_t offset;
    uint8_t size;
} event_ring_known;

typedef struct event_ring { /* the writer's side; zeroed it is off and costs a branch */
    event_ring_page *page;  /* borrowed; NULL: off */
    event_ring_record *records;
    clock_source clock;
    uint64_t mask, next, reserved;
    event newest;      /* as it was begun, and its count */
    uint64_t small;    /* its word of kind, name, outcome and count, as it was last stored */
    uint64_t key;      /* of the call that it was begun with */
    uint64_t open_key; /* it is open for calls of this key, by the short way, one after the other: */
    uint32_t room;     /* so many more, */
    uint32_t had;      /* of so many when they were last counted in it */
    uint32_t alone;    /* 1: one that came by the short way runs now */
    bool shared;       /* the newest record is open for further calls */
    bool slept;
    uint64_t lanes;    /* a bit for each that is taken */
    uint32_t shown;    /* 1: such a one is on the page as running. Not beside it: both would be loaded as one */
    uint32_t inside;   /* calls that run now, and came the long way */
    uint32_t limit;    /* calls that a record may stand for */
    int64_t rested_us; /* when the process had nothing to do any more; 0: it has */
    uint32_t names_count, names_used;
    event_ring_known names[EVENT_RING_NAMES_MAX];
    uint8_t recent[64]; /* a name's number + 1 by a cheap hash of its text */
} event_ring;

typedef struct event_ring_identity {
    uint64_t process;
    uint32_t pid, role;
} event_ring_identity;

size_t event_ring_bytes(uint32_t count);    /* of memory for that many records, rounded up to a power of two */
uint32_t event_ring_capacity(size_t bytes); /* how many records such memory has; 0: not enough for any */

/* `memory` is aligned to 64 and borrowed until event_ring_close, after which nothing of it is touched. */
void event_ring_open(event_ring *ring, void *memory, size_t bytes, clock_source clock, const event_ring_identity *who);
void event_ring_close(event_ring *ring);
static inline bool event_ring_on(const event_ring *ring) { return ring->page != NULL; }

typedef struct event_ring_call { /* what begins; the name is borrowed for the call */
    event_kind kind;
    const char *name;
    size_t name_size;
    uint64_t process, call;
    uint32_t bytes;
    uint64_t key; /* the same for calls of one kind, name and caller, as far as the caller knows; 0: it does not */
} event_ring_call;

/* A call begins and ends; enter gives what leave wants. */
uint64_t event_ring_enter(event_ring *ring, const event_ring_call *call);
__attribute__((noinline)) void event_ring_leave_slowly(event_ring *ring, uint64_t entered, mr_status outcome);

/* The short way, for a call like the one before, of something that takes no time: true, and it has come and gone. It
 * is counted here, and in its record with the next that comes the long way or when the process rests. */
static inline bool event_ring_count(event_ring *ring, uint64_t key) {
    if (key != ring->open_key || ring->room == 0) return false;
    ring->room--;
    return true;
}

/* The short way in; what event_ring_enter would have given is event_ring_again's. The page goes on saying that one runs
 * until event_ring_idle: where one call follows the other it does. */
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

/* The short way out, for one that came in by it: its record has room for more. */
static inline void event_ring_leave(event_ring *ring, uint64_t entered, mr_status outcome) {
    if (ring->alone == 0 || outcome != MR_OK)
        event_ring_leave_slowly(ring, entered, outcome);
    else
        ring->alone = 0;
}

/* Nothing is there to be done at the moment. */
static inline void event_ring_idle(event_ring *ring) {
    if (ring->shown == 0 || ring->alone != 0) return;
    ring->shown = 0;
    atomic_store_explicit(&ring->page->inside, 0, memory_order_relaxed);
}
/* What was printed to that outlet up to there, since its last mark, was by bodies of this name. */
void event_ring_mark(event_ring *ring, const char *name, size_t name_size, std_stream std_stream, uint64_t printed);
void event_ring_rest(event_ring *ring, int64_t now_us);
static inline void event_ring_slept(event_ring *ring) {
    ring->slept = true;
    ring->open_key = EVENT_RING_NO_KEY;
}

/* ---- Reading: by any process that has the memory, also when the writer is dead, mad or in the middle of it. */

typedef struct event_ring_copy { /* owned: event_ring_copy_fini */
    uint64_t process;
    uint32_t pid, role;
    int64_t opened_us;
    uint32_t inside;  /* calls that run now */
    uint64_t written; /* records begun since it was opened */
    event *events;    /* oldest first; what is missing before the first was overwritten */
    uint32_t count;
    uint8_t *names; /* as on the page */
    uint32_t names_used;
} event_ring_copy;

/* MR_CORRUPT: no ring. MR_NOMEM. At most `count_max` records, the newest ones. */
MR_MUST mr_status event_ring_read(const void *memory, size_t bytes, uint32_t count_max, event_ring_copy *out);
/* Whose body printed the byte before this place of that outlet: the name that is marked for it, else the newest one. At
 * most `size` bytes of it with a zero; false: nobody's. */
bool event_ring_printed_by(const void *memory, size_t bytes, std_stream std_stream, uint64_t place, char *out,
                           size_t size);
void event_ring_copy_fini(event_ring_copy *copy);
span event_ring_copy_name(const event_ring_copy *copy, uint8_t number); /* "?" if there is none */
