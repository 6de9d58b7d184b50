/* socket_internal.h — internals of the socket transport, shared by the files of net/socket. */
#pragma once
#include "base/list.h"
#include "base/timer_heap.h"
#include "net/socket/link_table.h"
#include "net/socket/socket_transport.h"

enum {
    SOCKET_BUFFER_SIZE = 64 * 1024,      /* an inbox's, while a link reads */
    SOCKET_STRANGER_SIZE = 640,          /* an inbox's before HELLO */
    SOCKET_STRANGER_GRACE_US = 250000,   /* how long a stranger is safe from later ones */
    SOCKET_FLUSH_SIZE = 64 * 1024,       /* bytes waiting that are written without waiting for more */
    SOCKET_BODY_COPIED_MAX = 4096,       /* bodies up to this size travel inside the write queue */
    SOCKET_SENT_MAX = 4096,              /* heads up to this size go straight into a shm pipe */
    SOCKET_LARGE_RINGS_MAX = 32,         /* large rings of a transport, both directions: 256 MB */
    SOCKET_LARGE_RING_REST_US = 2000000, /* a large ring that was not needed for so long gives its memory back */
};

struct socket_transport {
    event_loop *loop;
    socket_transport_options options; /* with the defaults filled in; no name */
    const transport_events *events;
    void *context;
    peer self;
    link_table ids;
    list links;     /* every link */
    list strangers; /* those without HELLO, the oldest first; also counted in stats */
    list dirty;     /* those for which socket_link_settle has something to do */
    list pipes;     /* those whose bytes go through shared memory; changed by the loop's driver only */
    list listeners;
    timer_heap timers;
    timer_heap_item accept_again; /* listeners are paused until then */
    int64_t timer_us;             /* when the timer is due */
    event_loop_timer *timer;
    event_loop_idle *idle;
    event_loop_lookout *lookout; /* for the shm pipes; NULL: there was none yet */
    uv_idle_t *awake;            /* runs while there is something to settle, so that the loop does not wait */
    uint8_t *spare;              /* owned: an inbox's buffer that is not in use */
    socket_transport_stats stats;
    bool in_event; /* the owner is being called */
    bool closing;  /* socket_transport_close is at work */
};

/* The events of links come from two places only: socket input (conn_ready) and the end of an iteration
 * (socket_link_settle). So no slot calls an event before it returns. */

void socket_transport_add_pipe(socket_transport *transport, list *of_pipes); /* of a link that uses one from now on */
