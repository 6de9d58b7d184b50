/* event_writer.h — recorder of a process's event ring (event_ring.h), in memory that the node allocates; without
 * memory, nothing is recorded. A worker records the calls that it runs, a driver those that it submits.
 *
 *  event_writer_join ──► asked (NODE_EVENTS) ──► open: calls are recorded ──► event_writer_close
 *                      └── refused: nothing is recorded
 *
 * With the context's lock held. */
#pragma once
#include "base/map.h"
#include "net/shm/arena.h"
#include "runtime/common/event_ring.h"
#include "runtime/refs/wire.h"

typedef struct event_writer {
    event_ring ring;
    const arena *arena; /* borrowed; NULL: a process without shared memory (in the simulator) */
    clock_source clock;
    event_ring_identity who;
    wire_call asking;
    bool asked, closed;
    bool submits;      /* whether the ring is open, in a driver */
    map callers;       /* link → process, as a pointer's value; numbers of processes are not 0 */
    link_id last_link; /* cache: link of the last caller */
    uint64_t last_caller;
} event_writer;

void event_writer_init(event_writer *writer, const arena *arena, clock_source clock, const event_ring_identity *who);
void event_writer_fini(event_writer *writer); /* called after the end of all calls */

/* requests the ring's memory; repeated by the next call if there was no room */
void event_writer_join(event_writer *writer, rpc *rpc, link_id node);
/* requested, not answered yet */
static inline bool event_writer_is_asked(const event_writer *writer) { return writer->asking.id.number != 0; }
void event_writer_close(event_writer *writer); /* called before the arena is closed */

void event_writer_link(event_writer *writer, link_id link,
                       uint64_t process); /* registers the process of a link that opened */
void event_writer_unlink(event_writer *writer, link_id link);

__attribute__((noinline)) uint64_t event_writer_begin_slowly(event_writer *writer, event_kind kind,
                                                             rpc_call_token token, const char *name, size_t name_size,
                                                             uint64_t key);

static inline uint64_t event_writer_key(event_kind kind, link_id link, uint32_t number) { /* event_ring_call.key */
    return number == 0 ? 0 : (uint64_t)number << 35 | (uint64_t)kind << 32 | link.v;
}

/* Records the begin of a call; returns the argument of event_ring_leave. `number` is the name's (name_table.h), 0:
 * none. */
static inline uint64_t event_writer_begin(event_writer *writer, event_kind kind, rpc_call_token token, const char *name,
                                          size_t name_size, uint32_t number) {
    uint64_t key = event_writer_key(kind, token.link, number);
    if (event_ring_repeat(&writer->ring, key)) return event_ring_again(&writer->ring);
    return event_writer_begin_slowly(writer, kind, token, name, name_size, key);
}
/* Records that a call with that number was sent. A driver runs no bodies: all its records are of this kind. */
__attribute__((noinline)) void event_writer_submit_slowly(event_writer *writer, rpc_call_id call, const char *name,
                                                          size_t name_size, uint32_t number);
static inline void event_writer_submit(event_writer *writer, rpc_call_id call, const char *name, size_t name_size,
                                       uint32_t number) {
    if (!writer->submits || event_ring_count(&writer->ring, event_writer_key(EVENT_SUBMIT, call.link, number))) return;
    event_writer_submit_slowly(writer, call, name, name_size, number);
}
