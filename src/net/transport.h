/* transport.h — transport interface: messages between two processes.
 *
 * A transport offers links. A link joins two processes and carries messages both ways, each direction in order. A
 * message has a head (small: its description, at most MESSAGE_HEAD_MAX bytes) and may have a body (any size, received
 * straight into memory that the receiver names). Backends: shared memory (net/shm/shm_transport.h), tcp and unix
 * sockets (net/socket/socket_transport.h), the simulator (sim/sim_network.h).
 *
 * Life of a link        open() or a peer's open
 *                          └─ opening ── on_open ──► open ── on_closed ──► gone
 *                                └──────────────── on_closed ──────────────┘
 * on_closed comes exactly once for every link that open() returned or on_open named, is the last event of the link, and
 * says why. After it the id is never used again for another link of the same transport object.
 *
 * Contract of every slot: none blocks; all are called by the one thread that drives the transport; events may call any
 * slot; no slot calls an event before it returns (a body_sent_fn may come that early). Reliable backends deliver each
 * message once or close the link; the simulator may also lose, double and reorder.
 */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "miniray/status.h"

enum {
    MESSAGE_HEAD_MAX = 256 * 1024,
    CAUSE_TEXT_MAX = 480, /* room for the last lines of a process that died */
    PEER_NAME_MAX = 64,
};

typedef struct link_id { /* v == 0: none */
    uint32_t v;
} link_id;

/* Why a link ended, as exactly as this machine can know it. */
typedef struct cause {
    mr_status status; /* MR_CLOSED: on purpose; MR_PEER_DIED, MR_TIMEOUT (silence), MR_CORRUPT, MR_DENIED, MR_IO, … */
    int pid;          /* of the other process; 0 where it is not on this machine or not known */
    int signal;       /* that ended it; 0: none or not known */
    int exit_code;    /* -1: none or not known */
    char text[CAUSE_TEXT_MAX];
} cause;

void cause_set(cause *cause, mr_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
void cause_set_list(cause *cause, mr_status status, const char *format, va_list arguments);

typedef struct peer { /* the process on the other side */
    uint64_t process; /* its id; the same number is never given to two processes of one cluster */
    int pid;          /* 0 where it is not on this machine */
    char name[PEER_NAME_MAX];
} peer;

typedef struct message { /* borrowed for the duration of on_message */
    span head;
    span body; /* at the place of on_body; empty if there is none; data == NULL with its size if it was thrown away */
} message;

typedef struct transport_events {
    void (*on_open)(void *context, link_id link, const peer *peer);
    void (*on_message)(void *context, link_id link, const message *message);
    /* Where the body of the message with this head shall lie: `size` bytes that stay valid until on_message, discard or
     * on_closed; no other message of the link comes before that. BODY_DISCARD lets it arrive and throws it away, so
     * that one unwanted body does not cost the link. NULL refuses it and closes the link with MR_TOO_LARGE. */
    void *(*on_body)(void *context, link_id link, span head, uint64_t size);
    void (*on_room)(void *context, link_id link); /* after MR_BUSY: sending works again */
    void (*on_closed)(void *context, link_id link, const cause *why);
} transport_events;

#define BODY_DISCARD ((void *)(intptr_t)-1) /* what on_body may return; see there */

/* The body of a sent message is borrowed until this is called, exactly once: MR_OK when it has left, else why not. */
typedef void body_sent_fn(void *argument, mr_status status);

typedef struct transport_ops {
    const char *name;

    /* Starts a link to an address of this transport's kind; the rest comes as events. MR_INVALID: not an address. */
    mr_status (*open)(void *self, const char *address, link_id *out);

    /* Ends a link on purpose: committed messages are still sent where possible; on_closed follows, on both sides. */
    void (*close)(void *self, link_id link);

    /* Room for the head of one message, to be written in place and then committed or given up by the next reserve.
     * MR_BUSY: full, on_room will follow. MR_CLOSED: no such link (any more), or it is still opening. MR_TOO_LARGE. */
    mr_status (*reserve)(void *self, link_id link, size_t size, uint8_t **out);

    /* Sends the last reserved message of this link; `size` may be smaller than the reserved one. Cannot fail. */
    void (*commit)(void *self, link_id link, size_t size);

    /* Both at once, for a head that lies elsewhere and with which nothing else is to leave: it goes now, and is copied
     * once. False: nothing has happened, and it has to be reserved and committed (transport_send_now, which callers
     * use). NULL: it always is. */
    bool (*send_now)(void *self, link_id link, span head);

    /* The same with a body. */
    void (*commit_body)(void *self, link_id link, size_t size, span body, body_sent_fn *sent, void *argument);

    /* The same with a body that lies in `count` pieces, one or more, which arrive as one. The list is borrowed for the
     * call, the bytes until `sent`. MR_NOMEM: nothing was sent. NULL: this transport does not gather. */
    void (*commit_pieces)(void *self, link_id link, size_t size, const span *pieces, size_t count, body_sent_fn *sent,
                          void *argument);

    /* The body that is arriving on this link (on_body named memory for it, on_message has not come) is not wanted any
     * more: when this returns the memory is not touched again; the rest is thrown away as with BODY_DISCARD. Nothing is
     * arriving, or no such link: no-op. */
    void (*discard)(void *self, link_id link);

    /* Sends messages that were held back for coalescing. A driver calls it before it waits. */
    void (*flush)(void *self);

    /* How small messages are written without reserve and commit (net/shm/lane.h), for frequent senders; asked for in
     * on_open, borrowed until on_closed. NULL, or NULL itself: there is no such way. */
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

/* The same of one that need not wait for others to leave with. */
static inline mr_status transport_send_now(transport transport, link_id link, span head) {
    if (transport.ops->send_now != NULL && transport.ops->send_now(transport.self, link, head)) return MR_OK;
    return transport_send(transport, link, head);
}
