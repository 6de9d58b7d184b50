/* call_peer.c — see call_peer.h. */
#include "tests/support/call_peer.h"

#include <string.h>

static mr_status open_stream(call_peer *peer, const char *name) {
    MR_TRY(loop_create(&peer->loop));
    stream_options options = {.name = name};
    MR_TRY(stream_open(peer->loop, &options, &calls_events, peer->calls, &peer->stream));
    peer->env.transport = stream_transport(peer->stream);
    return MR_OK;
}

static mr_status open_port(call_peer *peer, const char *hub, const char *name) {
    MR_TRY(port_open(&(port_options){.hub = hub, .name = name}, &calls_events, peer->calls, &peer->port));
    peer->env.transport = port_transport(peer->port);
    return MR_OK;
}

mr_status call_peer_open(call_peer *peer, call_wire wire, const char *hub, const char *name,
                         const call_handlers *handlers, void *context) {
    memset(peer, 0, sizeof *peer);
    peer->env.clock = clock_real();
    peer->calls = calls_create(&peer->env, handlers, context);
    return wire == WIRE_SHM ? open_port(peer, hub, name) : open_stream(peer, name);
}

void call_peer_close(call_peer *peer) {
    if (peer->stream != NULL) stream_close(peer->stream);
    if (peer->port != NULL) port_close(peer->port);
    calls_destroy(peer->calls);
    if (peer->loop != NULL) loop_destroy(peer->loop);
}

void call_peer_turn(call_peer *peer, int64_t timeout_us) {
    int64_t next_us = calls_next_us(peer->calls);
    if (next_us != CLOCK_NEVER_US) {
        int64_t left_us = next_us - clock_now_us(peer->env.clock);
        if (left_us < timeout_us) timeout_us = left_us > 0 ? left_us : 0;
    }
    peer->env.transport.ops->flush(peer->env.transport.self);
    if (peer->loop != NULL)
        loop_run_once(peer->loop, timeout_us);
    else if (port_poll(peer->port) == 0 && timeout_us > 0)
        port_wait(peer->port, NULL, timeout_us);
    if (next_us != CLOCK_NEVER_US) calls_tick(peer->calls, clock_now_us(peer->env.clock));
}
