/* loopback.h — a transport of two ends in one process, for tests: no message moves until the test delivers it.
 *
 * Messages wait in one queue per end, in the order of their commits; the test delivers, drops, duplicates and reorders
 * them. Reserved memory is filled with random bytes, is never aligned, and moves with every reserve, so that code that
 * leaves a byte unset or keeps a pointer fails. */
#pragma once
#include "net/transport.h"

enum { LOOPBACK_LINKS_MAX = 8192 };

typedef struct loopback_message {
    uint32_t pair; /* index of the link */
    uint8_t *head; /* owned */
    size_t head_size;
    uint8_t *body; /* owned copy */
    size_t body_size;
    uint8_t *into;      /* result of on_body, between loopback_body_start and loopback_body_finish */
    body_sent_fn *sent; /* called at delivery or drop */
    void *argument;
} loopback_message;

typedef struct loopback_end {
    struct loopback *loopback;
    const transport_events *events; /* borrowed */
    void *context;
    loopback_message *queue; /* owned: messages from this end that are not delivered yet */
    size_t count, capacity;
    size_t room;       /* number of messages that may wait before MR_BUSY */
    bool wants_room;   /* MR_BUSY was returned, and on_room is due */
    uint8_t *reserved; /* owned */
    size_t reserved_size;
    uint32_t reserved_pair;
    size_t reserves; /* number of reserve calls */
    size_t discards; /* number of discard calls */
} loopback_end;

typedef struct loopback {
    loopback_end ends[2];
    uint32_t pairs;
    enum { LOOPBACK_OPEN = 1, LOOPBACK_CLOSING, LOOPBACK_GONE } state[LOOPBACK_LINKS_MAX];
} loopback;

void loopback_init(loopback *loopback);
void loopback_fini(loopback *loopback);
transport loopback_transport(loopback *loopback, int end);
void loopback_listen(loopback *loopback, int end, const transport_events *events, void *context);

uint32_t loopback_join(loopback *loopback);    /* creates a link; on_open at both ends */
link_id loopback_link(uint32_t pair, int end); /* id of the link at one end */
void loopback_break(loopback *loopback, uint32_t pair, mr_status status, const char *text); /* on_closed at both ends */

/* In the queue of messages from `from`, index 0 is the oldest message. */
void loopback_inject(loopback *loopback, int from, uint32_t pair, span head, span body);
void loopback_deliver(loopback *loopback, int from, size_t index);
void loopback_drop(loopback *loopback, int from, size_t index);
void loopback_double(loopback *loopback, int from, size_t index);     /* appends a copy to the queue */
void loopback_body_start(loopback *loopback, int from, size_t index); /* calls on_body, but not on_message yet */

/* Delivers messages in order, and reports closed links, until no message is left. */
void loopback_run(loopback *loopback);
