/* shm_pair.h — two ports of one broker in this process, which count what happens to them. */
#pragma once
#include "base/clock.h"
#include "net/shm/shm_transport.h"
#include "tests/support/broker_process.h"

enum { SHM_PATIENCE_US = 10 * 1000 * 1000 };

/* One end: a port and what happened to it. */
typedef struct shm_end {
    shm_transport *shm_transport;
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
} shm_end;

typedef struct shm_pair {
    broker_process process;
    shm_end a, b;
} shm_pair;

MR_MUST mr_status shm_end_open(shm_end *end, const broker_process *process, const char *name);
/* Sends one numbered message with a head of `size` bytes. */
MR_MUST mr_status shm_end_send(shm_end *end, uint64_t number, size_t size);

/* With both ends open, "alice" and "bob": set-up and tear-down of a test. */
int shm_pair_set_up(void **state);
int shm_pair_tear_down(void **state);

bool shm_pair_until(shm_pair *pair, const unsigned *counter, unsigned value);   /* polls both; false: out of patience */
void shm_pair_join(shm_pair *pair);                                             /* a link from a to b */
void shm_pair_await_room(shm_pair *pair, const shm_end *end);                   /* that has just been refused some */
void shm_pair_send(shm_pair *pair, shm_end *end, uint64_t number, size_t size); /* shm_end_send, with patience */
