/* rpc_peer.h — a process that calls and answers over a real transport, for tests. */
#pragma once
#include "net/rpc/rpc.h"
#include "net/shm/shm_transport.h"
#include "net/socket/socket_transport.h"

typedef enum rpc_peer_wire { WIRE_UNIX, WIRE_TCP, WIRE_SHM, WIRE_COUNT } rpc_peer_wire;

typedef struct rpc_peer {
    env env;
    rpc *rpc;
    event_loop *loop;            /* loop of the socket transport; NULL with shm */
    socket_transport *transport; /* exactly one of the two is used */
    shm_transport *shm_transport;
} rpc_peer;

/* `broker` is needed for WIRE_SHM only; `name` is the peer's name at the broker. */
MR_MUST mr_status rpc_peer_open(rpc_peer *peer, rpc_peer_wire wire, const char *broker, const char *name,
                                const rpc_call_handlers *handlers, void *context);
void rpc_peer_close(rpc_peer *peer);

/* Handles events and deadlines for at most timeout_us. Returns after the first event. */
void rpc_peer_turn(rpc_peer *peer, int64_t timeout_us);
