/* call_peer.h — a process that calls and answers over a real transport, for tests. */
#pragma once
#include "net/call.h"
#include "net/shm/port.h"
#include "net/stream/stream.h"

typedef enum call_wire { WIRE_UNIX, WIRE_TCP, WIRE_SHM, WIRE_COUNT } call_wire;

typedef struct call_peer {
    env env;
    calls *calls;
    loop *loop;     /* of the stream; NULL with a port */
    stream *stream; /* one of the two */
    port *port;
} call_peer;

/* `hub` is needed for WIRE_SHM only, and `name` is what others find it by there. */
MR_MUST mr_status call_peer_open(call_peer *peer, call_wire wire, const char *hub, const char *name,
                                 const call_handlers *handlers, void *context);
void call_peer_close(call_peer *peer);

/* Lets things happen for at most timeout_us: events, deadlines. Returns early when something did. */
void call_peer_turn(call_peer *peer, int64_t timeout_us);
