/* socket_internal.h — internals of the socket transport, shared by the files of net/stream. */
#pragma once
#include "base/list.h"
#include "base/timer_heap.h"
#include "net/socket/link_table.h"
#include "net/socket/socket_transport.h"

enum {
    SOCKET_BUFFER_SIZE = 64 * 1024,      /* an inbox's, while a link reads */
    SOCKET_STRANGER_SIZE = 640,          /* an inbox's before HELLO */
    SOCKET_STRANGER_GRACE_US = 250000,   /* how long a stranger is safe from those who come after it */
    SOCKET_FLUSH_SIZE = 64 * 1024,       /* bytes waiting that are written without waiting for more */
    SOCKET_BODY_COPIED_MAX = 4096,       /* bodies up to this size travel inside the outbox */
    SOCKET_SENT_MAX = 4096,              /* heads up to this size go straight into a shm pipe */
    SOCKET_ANNEXES_MAX = 32,             /* of a stream's shm pipes, those of both directions: 256 MB */
    SOCKET_LARGE_RING_REST_US = 2000000, /* an annex that was not needed for so long gives its memory back */
};

struct socket_transport {
    event_loop *loop;
    socket_transport_options options; /* with the defaults filled in; no name */
    const transport_events *events;
    void *context;
    peer self;
    link_table ids;
    list conns;     /* every conn */
    list strangers; /* those without HELLO, the oldest first; also counted in stats */
    list dirty;     /* those for which socket_link_settle has something to do */
    list pipes;     /* those whose bytes go through shared memory; changed by who drives the loop only */
    list listeners;
    timer_heap timers;
    timer_heap_item accept_again; /* listeners are paused until then */
    int64_t timer_us;             /* what the timer is set to */
    event_loop_timer *timer;
    event_loop_idle *idle;
    event_loop_lookout *lookout; /* for the shm pipes; NULL: there was none yet */
    uv_idle_t *awake;            /* runs while there is something to settle, so that the loop does not wait */
    uint8_t *spare;              /* owned: an inbox's buffer that nobody needs now */
    socket_transport_stats stats;
    bool in_event; /* the owner is being called */
    bool closing;  /* socket_transport_close is at work */
};

/* The events of links come from two places only: what a socket brought (conn_ready) and what is settled at the end of
 * an iteration (socket_link_settle). So no slot calls an event before it returns. */

void socket_transport_add_pipe(socket_transport *transport, list *of_pipes); /* of a conn that uses one from now on */
