/* stream_reader.h — stream of results of a generator body, one by one: the caller's side.
 *
 *   caller                                worker (stream_writer.h)
 *   request with WIRE_STREAM ──────────►  runs
 *   WORKER_NEXT, a few at a time ──────►  queued
 *                        ◄──────────────  answered by mr_yield, in order, each with one value
 *   after each taken result: one more WORKER_NEXT
 *                        ◄──────────────  answer to the request: the end of the stream
 *
 * A *pull* is one WORKER_NEXT and the object that it fulfils; pulls that the program has not taken are queued in the
 * order of their requests. So no more results wait than were requested, and a value is sent as in any answer: in the
 * message or by its name.
 *
 *   pull:  idle ── the request was sent ──► asked ── answered ──► its object is READY
 *           ▲                                 ├── lost with the link: the request is retried, or has failed
 *           │                                 └── the worker gave the request back: another worker gets both
 *           └─────────────────────────────────┘
 *          the request has ended: the first pending pull fails with the request's failure, all others with MR_END
 *
 * The request's own result (the *whole*) represents the stream, and holds it: when the program has released its last
 * reference to the whole, the stream is abandoned, and the request cancelled. Pure over the core worker's RPCs. With
 * the lock held. */
#pragma once
#include "base/map.h"
#include "runtime/client/invocation.h"

enum { STREAM_AHEAD = 16, STREAM_AHEAD_MAX = 1024 };

typedef struct stream_reader stream_reader;

typedef struct stream_readers {
    struct core_worker *worker;
    map by_serial; /* serial of the whole → stream; owned */
} stream_readers;

void stream_readers_init(stream_readers *readers, struct core_worker *worker);
void stream_readers_fini(stream_readers *readers); /* called after the end of all calls */
void stream_readers_feed(stream_readers *readers); /* called when a link has room */

/* Makes the object a stream, before its request is sent. At most `ahead` results wait. MR_NOMEM. */
MR_MUST mr_status stream_reader_open(stream_readers *readers, object *whole, uint32_t ahead);
void stream_reader_abandon(stream_readers *readers, object *whole);
stream_reader *stream_reader_find(const stream_readers *readers, const object *whole); /* NULL: not a stream */

void stream_reader_sent(invocation *invocation, link_id link); /* called when the request was sent */
void stream_reader_unsent(const invocation *invocation); /* called when the worker gave the request back unbegun */
bool stream_reader_began(const invocation *invocation);  /* whether a result has arrived: then there is no retry */

/* The next result; borrowed until stream_reader_take. The object is pending until the result arrives, and fails with
 * MR_END after the last one. MR_NOMEM. */
MR_MUST mr_status stream_reader_head(stream_reader *stream, object **out);
/* the same; the program may use the object until it is taken */
MR_MUST mr_status stream_reader_peek(stream_reader *stream, object **out);
/* removes the head, and returns it with a reference for the program */
object *stream_reader_take(stream_reader *stream);
