/* shm_pair.h — two shm transports of one broker in this process, which count their events. */
#pragma once
#include "base/clock.h"
#include "net/shm/shm_transport.h"
#include "tests/support/broker_process.h"

enum { SHM_PATIENCE_US = 10 * 1000 * 1000 };

/* One end: a transport and its events. */
typedef struct shm_end {
    shm_transport *shm_transport;
    transport transport;
    link_id link; /* the latest link, opened by either side */
    peer peer;
    unsigned opened, closed, rooms, messages, wrong;
    cause cause;
    uint64_t next_number; /* messages carry ascending numbers */
    uint8_t *body;        /* target of the next body; NULL refuses; BODY_DISCARD */
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

/* Set-up and tear-down of a test: opens both ends, as "alice" and "bob". */
int shm_pair_set_up(void **state);
int shm_pair_tear_down(void **state);

bool shm_pair_until(shm_pair *pair, const unsigned *counter, unsigned value); /* polls both ends; false: timed out */
void shm_pair_join(shm_pair *pair);                                           /* opens a link from a to b */
void shm_pair_await_room(shm_pair *pair, const shm_end *end); /* waits for room after `end` got MR_BUSY */
/* Waits for room, then calls shm_end_send. */
void shm_pair_send(shm_pair *pair, shm_end *end, uint64_t number, size_t size);
