/* stream_reader.h — streams: the results of a body that gives several, one after another, as its caller sees them.
 *
 *   caller                                worker (stream_writer.h)
 *   the request, flagged ──────────────►  runs
 *   WORKER_NEXT, a few at a time ──────►  kept
 *                        ◄──────────────  answered by mr_yield, in order, each with one value
 *   one was taken: one more WORKER_NEXT
 *                        ◄──────────────  the answer to the request: the end
 *
 * A *pull* is one WORKER_NEXT and the object that it will give; those that were not taken stand in line in the order in
 * which they were asked. So no more results wait than were asked for, and a value travels as any answer does: in the
 * message or by its name.
 *
 *   pull:  idle ── the request was sent ──► asked ── answered ──► its object is READY
 *           ▲                                 ├── lost with its link: the request is tried again, or has failed
 *           │                                 └── the worker gave the request back: another one is asked
 *           └─────────────────────────────────┘
 *          the request has ended: the first that is pending fails with its failure, all others with MR_END
 *
 * The request's own result (the *whole*) stands for the stream, and holds it: when the program has no reference to it
 * any more, the stream is abandoned, and the request cancelled. Pure over the client's calls. With the lock held. */
#pragma once
#include "base/map.h"
#include "runtime/client/invocation.h"

enum { STREAM_AHEAD = 16, STREAM_AHEAD_MAX = 1024 };

typedef struct stream_reader stream_reader;

typedef struct stream_readers {
    struct core_worker *worker;
    map by_serial; /* of the whole; owned */
} stream_readers;

void stream_readers_init(stream_readers *readers, struct core_worker *worker);
void stream_readers_fini(stream_readers *readers); /* after the end of all calls */
void stream_readers_feed(stream_readers *readers); /* there may be room again */

/* Makes the object a stream: before its request is begun. At most so many results wait. MR_NOMEM. */
MR_MUST mr_status stream_reader_open(stream_readers *readers, object *whole, uint32_t ahead);
void stream_reader_abandon(stream_readers *readers, object *whole);
stream_reader *stream_reader_find(const stream_readers *readers, const object *whole); /* NULL: it is none */

void stream_reader_sent(invocation *invocation, link_id link); /* its request was */
void stream_reader_unsent(const invocation *invocation);       /* its worker has not begun it, and will not */
bool stream_reader_began(const invocation *invocation);        /* something has come: it is not tried again */

/* The result that is next; borrowed until stream_reader_take. One that is not there yet is pending, one that will never
 * be fails with MR_END. MR_NOMEM. */
MR_MUST mr_status stream_reader_head(stream_reader *stream, object **out);
/* the same; the program may use it until it is taken */
MR_MUST mr_status stream_reader_peek(stream_reader *stream, object **out);
/* hands the head out: a reference of the program */
object *stream_reader_take(stream_reader *stream);
