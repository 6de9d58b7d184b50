/* socket_internal.h — internals of the socket transport, shared by the files of net/socket. */
#pragma once
#include "base/list.h"
#include "base/timer_heap.h"
#include "net/socket/hmac.h"
#include "net/socket/link_table.h"
#include "net/socket/socket_transport.h"

enum {
    SOCKET_BUFFER_SIZE = 64 * 1024,      /* receive buffer while a link reads */
    SOCKET_STRANGER_SIZE = 640,          /* receive buffer before HELLO */
    SOCKET_STRANGER_GRACE_US = 250000,   /* how long a stranger is not closed for later ones */
    SOCKET_FLUSH_SIZE = 64 * 1024,       /* pending bytes that are written without waiting for more */
    SOCKET_BODY_COPIED_MAX = 4096,       /* bodies up to this size are copied into the write queue */
    SOCKET_SENT_MAX = 4096,              /* heads up to this size are written directly into a shm pipe */
    SOCKET_LARGE_RINGS_MAX = 32,         /* large rings of a transport, both directions: 256 MB */
    SOCKET_LARGE_RING_REST_US = 2000000, /* time without use after which a large ring's pages are freed */
};

struct socket_transport {
    event_loop *loop;
    socket_transport_options options; /* with the defaults filled in; no name */
    const transport_events *events;
    void *context;
    peer self;
    link_table ids;
    list links;     /* every link */
    list strangers; /* links without HELLO, oldest first; also counted in stats */
    list dirty;     /* links with work for socket_link_settle */
    list pipes;     /* links that use shared memory; changed by the loop's driver only */
    list listeners;
    timer_heap timers;
    timer_heap_item accept_again; /* listeners are paused until then */
    int64_t timer_us;             /* when the timer fires */
    event_loop_timer *timer;
    event_loop_idle *idle;
    event_loop_lookout *lookout; /* for the shm pipes; NULL: no shm pipe yet */
    uv_idle_t *awake;            /* active while a link is dirty, so that the loop does not wait */
    uint8_t *spare;              /* owned: an unused receive buffer */
    hmac *hmac;                  /* owned; NULL: no tcp yet */
    socket_transport_stats stats;
    bool in_event; /* an event of the owner is running */
    bool closing;  /* socket_transport_close is running */
};

/* Only socket input (socket_link_io.c) and the end of an iteration (socket_link_settle) call events of links, so no
 * function of the transport calls an event before it returns. */

/* Sets transport->hmac. MR_INVALID: the transport has no find_token; MR_NOT_FOUND as hmac_open. */
MR_MUST mr_status socket_transport_load_hmac(socket_transport *transport);
void socket_transport_add_pipe(socket_transport *transport, list *of_pipes); /* of a link that begins to use one */
