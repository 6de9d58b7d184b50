/* transport.h — transport interface: messages between two processes.
 *
 * A transport offers links. A link joins two processes and carries messages both ways, each direction in order. A
 * message has a head (small: its description, at most MESSAGE_HEAD_MAX bytes) and may have a body (any size, received
 * directly into memory that the receiver provides). Backends: shared memory (net/shm/shm_transport.h), tcp and unix
 * sockets (net/socket/socket_transport.h), the simulator (sim/sim_network.h).
 *
 * States of a link        open() or a peer's open
 *                          └─ opening ── on_open ──► open ── on_closed ──► gone
 *                                └──────────────── on_closed ──────────────┘
 * on_closed is called exactly once for every link that open() returned or on_open reported; it is the last event of the
 * link and states the cause. The id is never reused for another link of the same transport object.
 *
 * Contract of all functions: none blocks; all are called by the one thread that drives the transport; events may call
 * any function; no function calls an event before it returns (a body_sent_fn may be called that early). Reliable
 * backends deliver each message once or close the link; the simulator may also lose, duplicate and reorder.
 */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "miniray/status.h"

enum {
    MESSAGE_HEAD_MAX = 256 * 1024,
    CAUSE_TEXT_MAX = 480, /* room for the last output lines of a process that died */
    PEER_NAME_MAX = 64,
};

typedef struct link_id { /* v == 0: none */
    uint32_t v;
} link_id;

/* Why a link ended, as precisely as this machine knows. */
typedef struct cause {
    mr_status status; /* MR_CLOSED: intentional; MR_PEER_DIED, MR_TIMEOUT (silence), MR_CORRUPT, MR_DENIED, MR_IO, …
                         MR_EVICTED, MR_NOMEM: killed by its node to free memory; work is retried or not */
    int pid;          /* of the other process; 0: on another machine or unknown */
    int signal;       /* signal that ended the process; 0: none or unknown */
    int exit_code;    /* -1: none or unknown */
    char text[CAUSE_TEXT_MAX];
} cause;

void cause_set(cause *cause, mr_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
void cause_set_list(cause *cause, mr_status status, const char *format, va_list arguments);

typedef struct peer { /* the process on the other side */
    uint64_t process; /* process id, unique within a cluster and never reused */
    int pid;          /* 0: on another machine */
    char name[PEER_NAME_MAX];
} peer;

typedef struct message { /* borrowed for the duration of on_message */
    span head;
    span body; /* in on_body's memory; empty: none; data == NULL with a size: discarded */
} message;

typedef struct transport_events {
    void (*on_open)(void *context, link_id link, const peer *peer);
    void (*on_message)(void *context, link_id link, const message *message);
    /* Returns memory for the body of the message with this head: `size` bytes that stay valid until on_message, discard
       or on_closed; no other message of the link is delivered before that. BODY_DISCARD receives the body and drops it,
       so that one unwanted body does not cost the link. NULL refuses the body and closes the link with MR_TOO_LARGE. */
    void *(*on_body)(void *context, link_id link, span head, uint64_t size);
    void (*on_room)(void *context, link_id link); /* after MR_BUSY: sending is possible again */
    void (*on_closed)(void *context, link_id link, const cause *why);
} transport_events;

#define BODY_DISCARD ((void *)(intptr_t)-1) /* a return value of on_body */

/* The body of a sent message is borrowed until this function is called, exactly once: MR_OK when the body has been
 * sent, otherwise the failure. */
typedef void body_sent_fn(void *argument, mr_status status);

typedef struct transport_ops {
    const char *name;

    /* Starts a link to an address of this transport's kind; the outcome is an event. MR_INVALID: not an address. */
    mr_status (*open)(void *self, const char *address, link_id *out);

    /* Ends a link intentionally: committed messages are still sent where possible; on_closed follows on both sides. */
    void (*close)(void *self, link_id link);

    /* Reserves room for the head of one message, which is written in place and then committed; the next reserve cancels
       an uncommitted one. MR_BUSY: full, on_room follows. MR_CLOSED: the link does not exist or is still opening.
       MR_TOO_LARGE. */
    mr_status (*reserve)(void *self, link_id link, size_t size, uint8_t **out);

    /* Sends the message reserved last on this link; `size` may be smaller than the reserved one. Cannot fail. */
    void (*commit)(void *self, link_id link, size_t size);

    /* Reserve and commit in one call, for a head that lies elsewhere and is sent at once, without coalescing, with one
       copy. False: nothing was done, and the caller must reserve and commit (transport_send_now does so). NULL: always
       false. */
    bool (*send_now)(void *self, link_id link, span head);

    /* As commit, with a body. */
    void (*commit_body)(void *self, link_id link, size_t size, span body, body_sent_fn *sent, void *argument);

    /* As commit, with a body of `count` parts, at least one, which arrive as one body. The list is borrowed for the
       call, the bytes until `sent`. MR_NOMEM: nothing was sent. NULL: this transport cannot gather. */
    void (*commit_pieces)(void *self, link_id link, size_t size, const span *pieces, size_t count, body_sent_fn *sent,
                          void *argument);

    /* Declines the body that is arriving on this link (on_body returned memory for it, on_message has not been called):
       after this call the memory is not accessed again, and the rest is dropped as with BODY_DISCARD. No effect if no
       body is arriving or the link does not exist. */
    void (*discard)(void *self, link_id link);

    /* Sends messages that were held back for coalescing. The driver of the transport calls it before it waits. */
    void (*flush)(void *self);

    /* How frequent senders write small messages without reserve and commit (net/shm/lane.h). Requested in on_open,
       borrowed until on_closed. If the function or its result is NULL, the link has no lane. */
    struct lane *(*lane)(void *self, link_id link);
} transport_ops;

typedef struct transport { /* two words, passed by value */
    const transport_ops *ops;
    void *self;
} transport;

/* Copies a head and commits it. */
static inline mr_status transport_send(transport transport, link_id link, span head) {
    uint8_t *place;
    mr_status status = transport.ops->reserve(transport.self, link, head.size, &place);
    if (status != MR_OK) return status;
    __builtin_memcpy(place, head.data, head.size);
    transport.ops->commit(transport.self, link, head.size);
    return MR_OK;
}

/* As transport_send, for a head that is not coalesced with others. */
static inline mr_status transport_send_now(transport transport, link_id link, span head) {
    if (transport.ops->send_now != NULL && transport.ops->send_now(transport.self, link, head)) return MR_OK;
    return transport_send(transport, link, head);
}
