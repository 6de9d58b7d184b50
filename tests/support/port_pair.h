/* port_pair.h — two ports of one hub in this process, which count what happens to them. */
#pragma once
#include "base/clock.h"
#include "net/shm/port.h"
#include "tests/support/hub_host.h"

enum { PORT_PATIENCE_US = 10 * 1000 * 1000 };

/* One end: a port and what happened to it. */
typedef struct port_end {
    port *port;
    transport transport;
    link_id link; /* the last one opened, by either side */
    peer peer;
    unsigned opened, closed, rooms, messages, wrong;
    cause cause;
    uint64_t next_number; /* messages carry ascending numbers */
    uint8_t *body;        /* where the next body goes; NULL refuses; BODY_DISCARD */
    uint64_t body_size, bodies;
    const uint8_t *expected_body;
    bool echo, close_on_message;
} port_end;

typedef struct port_pair {
    hub_host host;
    port_end a, b;
} port_pair;

MR_MUST mr_status port_end_open(port_end *end, const hub_host *host, const char *name);
/* Sends one numbered message with a head of `size` bytes. */
MR_MUST mr_status port_end_send(port_end *end, uint64_t number, size_t size);

/* With both ends open, "alice" and "bob": set-up and tear-down of a test. */
int port_pair_set_up(void **state);
int port_pair_tear_down(void **state);

bool port_pair_until(port_pair *pair, const unsigned *counter, unsigned value); /* polls both; false: out of patience */
void port_pair_join(port_pair *pair);                                           /* a link from a to b */
void port_pair_await_room(port_pair *pair, const port_end *end);                /* that has just been refused some */
void port_pair_send(port_pair *pair, port_end *end, uint64_t number, size_t size); /* port_end_send, with patience */
