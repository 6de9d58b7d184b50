/* rpc_peer.c — see rpc_peer.h. */
#include "tests/support/rpc_peer.h"

#include <string.h>

static mr_status find_token(void *context, token *out) {
    *out = (token){{1}};
    return MR_OK;
}

static mr_status open_stream(rpc_peer *peer, const char *name) {
    MR_TRY(event_loop_create(&peer->loop));
    socket_transport_options options = {.name = name, .find_token = find_token};
    MR_TRY(socket_transport_open(peer->loop, &options, &rpc_events, peer->rpc, &peer->transport));
    peer->env.transport = socket_transport_transport(peer->transport);
    return MR_OK;
}

static mr_status open_port(rpc_peer *peer, const char *broker, const char *name) {
    MR_TRY(shm_transport_open(&(shm_transport_options){.broker = broker, .name = name}, &rpc_events, peer->rpc,
                              &peer->shm_transport));
    peer->env.transport = shm_transport_transport(peer->shm_transport);
    return MR_OK;
}

mr_status rpc_peer_open(rpc_peer *peer, rpc_peer_wire wire, const char *broker, const char *name,
                        const rpc_call_handlers *handlers, void *context) {
    memset(peer, 0, sizeof *peer);
    peer->env.clock = clock_real();
    peer->rpc = rpc_create(&peer->env, handlers, context);
    return wire == WIRE_SHM ? open_port(peer, broker, name) : open_stream(peer, name);
}

void rpc_peer_close(rpc_peer *peer) {
    if (peer->transport != NULL) socket_transport_close(peer->transport);
    if (peer->shm_transport != NULL) shm_transport_close(peer->shm_transport);
    rpc_destroy(peer->rpc);
    if (peer->loop != NULL) event_loop_destroy(peer->loop);
}

void rpc_peer_turn(rpc_peer *peer, int64_t timeout_us) {
    int64_t next_us = rpc_next_us(peer->rpc);
    if (next_us != CLOCK_NEVER_US) {
        int64_t left_us = next_us - clock_now_us(peer->env.clock);
        if (left_us < timeout_us) timeout_us = left_us > 0 ? left_us : 0;
    }
    peer->env.transport.ops->flush(peer->env.transport.self);
    if (peer->loop != NULL)
        event_loop_run_once(peer->loop, timeout_us);
    else if (shm_transport_poll(peer->shm_transport) == 0 && timeout_us > 0)
        shm_transport_wait(peer->shm_transport, NULL, timeout_us);
    if (next_us != CLOCK_NEVER_US) rpc_tick(peer->rpc, clock_now_us(peer->env.clock));
}
