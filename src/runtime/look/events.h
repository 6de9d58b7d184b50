/* events.h — event ring: latest calls of a process as fixed records in shared memory, always on.
 *
 * A record is a cache line: the body, its caller, its begin and its end. A reader of the memory sees the current work
 * of a process without its help, and after its death its last work.
 *
 *   offset        what                                                                   written
 *   ------------  ---------------------------------------------------------------------  ---------------------
 *   0             magic, version, capacity, process, pid, role                           once, by events_open
 *   128           next, reserved, inside, names_used, rested_us, marks_next              while it runs
 *   256           marks: how far it had printed, and where, when another body began      when that happens
 *   768           names, one after the other: u8 length, bytes                           when a new one is met
 *   4096 + 64 i   record i, reused for i + capacity, i + 2 capacity, …
 *
 * One writer (the thread that holds the context's lock), any number of readers, no lock: the writer never waits. It
 * overwrites the oldest record; a reader that is overtaken notices it. Before the writer touches a record it has said
 * so in `reserved`, which it moves by EVENTS_BLOCK at once, so that the barrier that this takes is paid once in a
 * while. A reader copies first and looks at `reserved` afterwards: what lies more than `capacity` behind it may be torn
 * and is left out.
 *
 * Reading a clock costs more than the record, and a call may take no longer than a few such readings. So calls that
 * follow each other closely, of one name and one caller, share a record with a count: as many as run in about
 * EVENTS_GROUP_US, at most EVENTS_GROUP_MAX, found by measuring how long the last record took. A call that takes longer
 * than that has a record of its own, with both times; only one that is suddenly long hides among the few before it. The
 * count of the newest record is behind while calls come in a row, and right when it is closed or the process rests.
 *
 *   events_enter ──► (fits the newest record: counted there │ else: that one is closed, a new one begun)
 *   events_leave ──► (the record is full: closed │ else: open for the next call)
 *   events_idle      no call is there: the page says that none runs
 *   events_rest      the process is about to sleep, known by a clock that was read anyway
 *   events_slept     it slept since: the record is closed as of that moment when the next call comes */
#pragma once
#include <stdatomic.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "miniray/status.h"
#include "runtime/outlet.h"

enum {
    EVENTS_VERSION = 3,
    EVENTS_PAGE = 4096,
    EVENTS_MARKS = 64,
    EVENTS_NAMES_BYTES = EVENTS_PAGE - 256 - EVENTS_MARKS * 8,
    EVENTS_NAMES_MAX = 250,
    EVENTS_NAME_NONE = 255, /* the table of names was full */
    EVENTS_BLOCK = 32,
    EVENTS_COUNT_MIN = 4 * EVENTS_BLOCK,
    EVENTS_COUNT_MAX = 1 << 20,
    EVENTS_GROUP_US = 50,
    EVENTS_GROUP_MAX = 128,
    EVENTS_LANES = 64,
};
#define EVENTS_NO_KEY UINT64_MAX
#define EVENTS_MAGIC  UINT64_C(0x53544e4556454152)

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

typedef struct events_page {
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
    _Atomic uint64_t marks_next;         /* marks made; mark i lies at i % EVENTS_MARKS */
    /* bytes printed << 9 | to which outlet << 8 | number of the name that printed them */
    _Alignas(256) _Atomic uint64_t marks[EVENTS_MARKS];
    uint8_t names[EVENTS_NAMES_BYTES];
} events_page;
_Static_assert(sizeof(events_page) == EVENTS_PAGE && offsetof(events_page, next) == 128, "layout");
_Static_assert(offsetof(events_page, marks) == 256 && offsetof(events_page, names) == 768, "layout");

typedef struct events_record { /* an event, as words that may be read while they are written */
    _Alignas(64) _Atomic uint64_t words[8];
} events_record;
_Static_assert(sizeof(events_record) == 64, "layout");

/* ---- Writing. */

typedef struct events_known { /* a name that was met */
    uint16_t offset;
    uint8_t size;
} events_known;

typedef struct events { /* the writer's side; zeroed it is off and costs a branch */
    events_page *page;  /* borrowed; NULL: off */
    events_record *records;
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
    events_known names[EVENTS_NAMES_MAX];
    uint8_t recent[64]; /* a name's number + 1 by a cheap hash of its text */
} events;

typedef struct events_identity {
    uint64_t process;
    uint32_t pid, role;
} events_identity;

size_t events_bytes(uint32_t count);    /* of memory for that many records, rounded up to a power of two */
uint32_t events_capacity(size_t bytes); /* how many records such memory has; 0: not enough for any */

/* `memory` is aligned to 64 and borrowed until events_close, after which nothing of it is touched. */
void events_open(events *events, void *memory, size_t bytes, clock_source clock, const events_identity *who);
void events_close(events *events);
static inline bool events_on(const events *events) { return events->page != NULL; }

typedef struct events_call { /* what begins; the name is borrowed for the call */
    event_kind kind;
    const char *name;
    size_t name_size;
    uint64_t process, call;
    uint32_t bytes;
    uint64_t key; /* the same for calls of one kind, name and caller, as far as the caller knows; 0: it does not */
} events_call;

/* A call begins and ends; enter gives what leave wants. */
uint64_t events_enter(events *events, const events_call *call);
__attribute__((noinline)) void events_leave_slowly(events *events, uint64_t entered, mr_status outcome);

/* The short way, for a call like the one before, of something that takes no time: true, and it has come and gone. It
 * is counted here, and in its record with the next that comes the long way or when the process rests. */
static inline bool events_count(events *events, uint64_t key) {
    if (key != events->open_key || events->room == 0) return false;
    events->room--;
    return true;
}

/* The short way in; what events_enter would have given is events_again's. The page goes on saying that one runs until
 * events_idle: where one call follows the other it does. */
static inline bool events_repeat(events *events, uint64_t key) {
    if (events->alone != 0 || !events_count(events, key)) return false;
    events->alone = 1;
    if (events->shown == 0) {
        events->shown = 1;
        atomic_store_explicit(&events->page->inside, 1, memory_order_relaxed);
    }
    return true;
}
static inline uint64_t events_again(const events *events) { return events->newest.number * EVENTS_LANES; }

/* The short way out, for one that came in by it: its record has room for more. */
static inline void events_leave(events *events, uint64_t entered, mr_status outcome) {
    if (events->alone == 0 || outcome != MR_OK)
        events_leave_slowly(events, entered, outcome);
    else
        events->alone = 0;
}

/* Nothing is there to be done at the moment. */
static inline void events_idle(events *events) {
    if (events->shown == 0 || events->alone != 0) return;
    events->shown = 0;
    atomic_store_explicit(&events->page->inside, 0, memory_order_relaxed);
}
/* What was printed to that outlet up to there, since its last mark, was by bodies of this name. */
void events_mark(events *events, const char *name, size_t name_size, outlet outlet, uint64_t printed);
void events_rest(events *events, int64_t now_us);
static inline void events_slept(events *events) {
    events->slept = true;
    events->open_key = EVENTS_NO_KEY;
}

/* ---- Reading: by any process that has the memory, also when the writer is dead, mad or in the middle of it. */

typedef struct events_copy { /* owned: events_copy_fini */
    uint64_t process;
    uint32_t pid, role;
    int64_t opened_us;
    uint32_t inside;  /* calls that run now */
    uint64_t written; /* records begun since it was opened */
    event *events;    /* oldest first; what is missing before the first was overwritten */
    uint32_t count;
    uint8_t *names; /* as on the page */
    uint32_t names_used;
} events_copy;

/* MR_CORRUPT: no ring. MR_NOMEM. At most `count_max` records, the newest ones. */
MR_MUST mr_status events_read(const void *memory, size_t bytes, uint32_t count_max, events_copy *out);
/* Whose body printed the byte before this place of that outlet: the name that is marked for it, else the newest one. At
 * most `size` bytes of it with a zero; false: nobody's. */
bool events_printed_by(const void *memory, size_t bytes, outlet outlet, uint64_t place, char *out, size_t size);
void events_copy_fini(events_copy *copy);
span events_copy_name(const events_copy *copy, uint8_t number); /* "?" if there is none */
