/* diary.h — recorder of a process's event ring (events.h), in memory that the node allocates; without memory, nothing
 * is recorded. A worker records the calls that it runs, a driver those that it submits.
 *
 *   diary_join ──► asked (NODE_EVENTS) ──► open: calls are written down ──► diary_close
 *                      └── refused: none
 *
 * With the context's lock held. */
#pragma once
#include "base/map.h"
#include "net/shm/arena.h"
#include "runtime/look/events.h"
#include "runtime/wire.h"

typedef struct diary {
    events events;
    const arena *arena; /* borrowed; NULL: a process without shared memory (in the simulator) */
    clock_source clock;
    events_identity who;
    wire_call asking;
    bool asked, closed;
    bool submits;      /* it is a driver's, and open */
    map callers;       /* link → process, as a pointer's value; numbers of processes are not 0 */
    link_id last_link; /* who called last, close at hand */
    uint64_t last_caller;
} diary;

void diary_init(diary *diary, const arena *arena, clock_source clock, const events_identity *who);
void diary_fini(diary *diary); /* after the end of all calls */

void diary_join(diary *diary, calls *calls, link_id node); /* asks for memory; again if there was no room for it */
static inline bool diary_is_asked(const diary *diary) { return diary->asking.id.number != 0; } /* not answered yet */
void diary_close(diary *diary); /* before the arena goes */

void diary_link(diary *diary, link_id link, uint64_t process); /* it may call from now on */
void diary_unlink(diary *diary, link_id link);

__attribute__((noinline)) uint64_t diary_begin_slowly(diary *diary, event_kind kind, call_token token, const char *name,
                                                      size_t name_size, uint64_t key);

static inline uint64_t diary_key(event_kind kind, link_id link, uint32_t number) { /* events_call.key */
    return number == 0 ? 0 : (uint64_t)number << 35 | (uint64_t)kind << 32 | link.v;
}

/* A call begins; gives what events_leave wants. `number` is the name's (names.h), 0: it has none. */
static inline uint64_t diary_begin(diary *diary, event_kind kind, call_token token, const char *name, size_t name_size,
                                   uint32_t number) {
    uint64_t key = diary_key(kind, token.link, number);
    if (events_repeat(&diary->events, key)) return events_again(&diary->events);
    return diary_begin_slowly(diary, kind, token, name, name_size, key);
}
/* A call with that number was sent. A driver runs nothing: its records are all of this kind. */
__attribute__((noinline)) void diary_submit_slowly(diary *diary, call_id call, const char *name, size_t name_size,
                                                   uint32_t number);
static inline void diary_submit(diary *diary, call_id call, const char *name, size_t name_size, uint32_t number) {
    if (!diary->submits || events_count(&diary->events, diary_key(EVENT_SUBMIT, call.link, number))) return;
    diary_submit_slowly(diary, call, name, name_size, number);
}
