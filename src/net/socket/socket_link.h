/* socket_link.h — one link of the socket transport: its socket, its state, its queues.
 *
 *   CONNECTING ──► HANDSHAKE ──► OPEN ──► CLOSING ──► GONE
 *       └──────────────┴──────────┴──────────┴────────►
 *
 *   CONNECTING  connect(2) is in progress, or will be retried; accepted links begin with HANDSHAKE
 *   HANDSHAKE   the connecting side has sent HELLO; both sides exchange HELLO and, on tcp, proofs of the token
 *               (handshake.h); for the accepting side the other one is a stranger
 *   OPEN        frames both ways, heartbeats
 *   CLOSING     close() was called: the queue is sent, then BYE; received bytes are discarded
 *   GONE        the socket is closed and the cause is known; socket_link_settle reports it and frees the link
 *
 * Functions of the transport only change queues and state and write to the socket; socket_link_settle calls their
 * events later. A link with work for socket_link_settle is in the transport's dirty list. */
#pragma once
#include "net/heartbeat.h"
#include "net/shm/shm_export.h"
#include "net/socket/frame_reader.h"
#include "net/socket/handshake.h"
#include "net/socket/shm_pipe.h"
#include "net/socket/socket.h"
#include "net/socket/socket_internal.h"
#include "net/socket/write_queue.h"

typedef enum socket_link_state {
    SOCKET_LINK_CONNECTING,
    SOCKET_LINK_HANDSHAKE,
    SOCKET_LINK_OPEN,
    SOCKET_LINK_CLOSING,
    SOCKET_LINK_GONE
} socket_link_state;

typedef struct socket_link {
    uv_poll_t poll; /* first field: its address is the link's */
    socket_transport *transport;
    link_id id; /* 0: a stranger */
    socket_link_state state;
    int fd;
    bool poll_open;             /* the handle is initialized and must be closed */
    int polled;                 /* the events that the handle waits for */
    bool blocked;               /* the socket is full: wait until it is writable */
    bool room_owed;             /* MR_BUSY was returned: on_room is due */
    bool ping_owed, pong_owed;  /* to send: a ping to a silent peer, a pong */
    int write_error;            /* errno; received bytes may contain a better cause */
    int64_t since_us;           /* time of its creation */
    int64_t deadline_us;        /* of connecting and HELLO, or of closing */
    address address;            /* of the listening side */
    list item, stranger, dirty; /* in the transport's lists */
    shm_pipe *pipe;             /* owned: offered or in use; NULL: none */
    bool piped;                 /* in use: bytes go through the shm pipe, and the socket only wakes */
    unsigned large_rings;       /* its large rings as counted in the transport's stats */
    int64_t grown_us;           /* last use of a large ring */
    int passed[SOCKET_FDS_MAX]; /* sent or received with HELLO: a shm pipe, an export (owned) */
    size_t passed_count;
    shm_import import; /* mapping of the other side's export */
    list of_pipes;
    timer_heap_item timer;
    frame_reader in;
    write_queue out;
    heartbeat beat;
    handshake *handshake; /* owned; NULL: not begun, or over */
    peer peer;
    cause why;
} socket_link;

/* MR_NOT_FOUND, MR_DENIED: no token for a tcp address. */
MR_MUST mr_status socket_link_connect(socket_transport *transport, const address *address, link_id *out);
/* Accepts a stranger at `fd` (moved). Its errors are not reported. */
void socket_link_accept(socket_transport *transport, int fd, const address *address);

/* The transport's functions for one link. */
void socket_link_close(socket_link *link);
MR_MUST mr_status socket_link_reserve(socket_link *link, size_t size, uint8_t **out);
void socket_link_commit(socket_link *link, size_t size);
void socket_link_commit_pieces(socket_link *link, size_t size, const span *pieces, size_t count, body_sent_fn *sent,
                               void *argument);
void socket_link_flush(socket_link *link);

void socket_link_timer(socket_link *link, int64_t now_us);
void socket_link_settle(socket_link *link); /* calls the events that are due; frees a link in state GONE */

/* ---- For socket_link_io.c. */

void socket_link_mark_dirty(socket_link *link);
void socket_link_connect_done(socket_link *link); /* the socket of a CONNECTING link is writable */
/* Handles a frame; an invalid one ends the link. link->state may have changed afterwards. */
MR_MUST mr_status socket_link_take(socket_link *link, const frame *frame);
/* Called when a frame's head has arrived and its body has not: sets the memory of the body. */
MR_MUST mr_status socket_link_place_body(socket_link *link, const frame *frame);

void socket_link_end(socket_link *link, mr_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
