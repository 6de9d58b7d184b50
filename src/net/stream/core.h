/* core.h — internals of the socket transport, shared by the files of net/stream. */
#pragma once
#include "base/heap.h"
#include "base/list.h"
#include "net/stream/registry.h"
#include "net/stream/stream.h"

enum {
    CORE_BUFFER_SIZE = 64 * 1024,    /* an inbox's, while a link reads */
    CORE_STRANGER_SIZE = 640,        /* an inbox's before HELLO */
    CORE_STRANGER_GRACE_US = 250000, /* how long a stranger is safe from those who come after it */
    CORE_FLUSH_SIZE = 64 * 1024,     /* bytes waiting that are written without waiting for more */
    CORE_BODY_COPIED_MAX = 4096,     /* bodies up to this size travel inside the outbox */
    CORE_SENT_MAX = 4096,            /* heads up to this size go straight into a duct */
    CORE_ANNEXES_MAX = 32,           /* of a stream's ducts, those of both directions: 256 MB */
    CORE_ANNEX_REST_US = 2000000,    /* an annex that was not needed for so long gives its memory back */
};

struct stream {
    loop *loop;
    stream_options options; /* with the defaults filled in; no name */
    const transport_events *events;
    void *context;
    peer self;
    registry ids;
    list conns;     /* every conn */
    list strangers; /* those without HELLO, the oldest first; also counted in stats */
    list dirty;     /* those for which conn_settle has something to do */
    list ducts;     /* those whose bytes go through shared memory; changed by who drives the loop only */
    list listeners;
    heap timers;
    heap_item accept_again; /* listeners are paused until then */
    int64_t timer_us;       /* what the timer is set to */
    loop_timer *timer;
    loop_idle *idle;
    loop_lookout *lookout; /* for the ducts; NULL: there was none yet */
    uv_idle_t *awake;      /* runs while there is something to settle, so that the loop does not wait */
    uint8_t *spare;        /* owned: an inbox's buffer that nobody needs now */
    stream_stats stats;
    bool in_event; /* the owner is being called */
    bool closing;  /* stream_close is at work */
};

/* The events of links come from two places only: what a socket brought (conn_ready) and what is settled at the end of
 * an iteration (conn_settle). So no slot calls an event before it returns. */

void stream_add_duct(stream *stream, list *of_ducts); /* of a conn that uses one from now on */
