/* conn.h — one link of the socket transport: its socket, its state, its queues.
 *
 *   CONNECTING ──► GREETING ──► OPEN ──► CLOSING ──► GONE
 *       └─────────────┴──────────┴──────────┴────────►
 *
 *   CONNECTING  connect(2) is under way, or to be tried again; accepted ones begin with GREETING
 *   GREETING    who connected has said HELLO and waits for the other's; who accepted waits for the stranger's
 *   OPEN        frames both ways, heartbeats
 *   CLOSING     close() was called: what is left goes out, then BYE; what comes is thrown away
 *   GONE        the socket is closed and the cause is known; conn_settle tells it and frees the conn
 *
 * Slots of the transport only change queues and state and write to the socket; whatever they cause is told later, by
 * conn_settle. A conn that has something to settle is in the stream's dirty list. */
#pragma once
#include "net/heartbeat.h"
#include "net/shm/glass.h"
#include "net/stream/core.h"
#include "net/stream/duct.h"
#include "net/stream/inbox.h"
#include "net/stream/outbox.h"
#include "net/stream/socket.h"

typedef enum conn_state { CONN_CONNECTING, CONN_GREETING, CONN_OPEN, CONN_CLOSING, CONN_GONE } conn_state;

typedef struct conn {
    uv_poll_t poll; /* first: its address is the conn's */
    stream *stream;
    link_id id; /* 0: a stranger */
    conn_state state;
    int fd;
    bool poll_open;             /* the handle was initialized and must be closed */
    int polled;                 /* the events that it waits for */
    bool blocked;               /* the socket takes no more: wait until it is writable */
    bool room_owed;             /* MR_BUSY was answered */
    bool ping_owed, pong_owed;  /* it was silent; it pinged */
    int write_error;            /* errno; the reading side may still know a better cause */
    int64_t since_us;           /* it exists */
    int64_t deadline_us;        /* of connecting and HELLO, or of closing */
    address address;            /* of the listening side */
    list item, stranger, dirty; /* in the stream's lists */
    duct *duct;                 /* owned: offered, or in use; NULL: none */
    bool ducted;                /* in use: bytes go through it, and the socket only wakes */
    unsigned annexes;           /* of it, as they are counted in the stream's stats */
    int64_t grown_us;           /* one of them was needed, the last time */
    int passed[SOCKET_FDS_MAX]; /* with HELLO, to be sent or that came: a duct, a glass (owned) */
    size_t passed_count;
    glass_view sight; /* what is seen of the other side's memory */
    list of_ducts;
    heap_item timer;
    inbox in;
    outbox out;
    heartbeat beat;
    peer peer;
    cause why;
} conn;

MR_MUST mr_status conn_connect(stream *stream, const address *address, link_id *out);
/* A stranger at `fd` (moved). What is wrong with it is its own problem: nobody is told. */
void conn_accept(stream *stream, int fd, const address *address);

/* The slots of the transport, for one link. */
void conn_close(conn *conn);
MR_MUST mr_status conn_reserve(conn *conn, size_t size, uint8_t **out);
void conn_commit(conn *conn, size_t size);
void conn_commit_pieces(conn *conn, size_t size, const span *pieces, size_t count, body_sent_fn *sent, void *argument);
void conn_flush(conn *conn);

void conn_timer(conn *conn, int64_t now_us);
void conn_settle(conn *conn); /* tells what is to be told; frees it if it is gone */

/* ---- For conn_io.c. */

void conn_mark_dirty(conn *conn);
void conn_connect_done(conn *conn); /* the socket of a CONNECTING one is writable */
/* A frame came; what is wrong with it ends the link. conn->state may be another one afterwards. */
MR_MUST mr_status conn_take(conn *conn, const frame *frame);
MR_MUST mr_status conn_place_body(conn *conn, const frame *frame); /* its head came, and its body is still to come */

void conn_end(conn *conn, mr_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
