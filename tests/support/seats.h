/* seats.h — copies of one slot on four servers, driven by hand: parts go where a test lets them go.
 *
 * Whatever a copy says lies in a queue. seats_settle delivers what is for other servers; what is for ranks, the
 * director, other slots and the depot stays there, for the test to look at. */
#pragma once
#include "ps/ledger.h"
#include "ps/replica.h"
#include "ps/replica_core.h"
#include "sim/ps/float_machine.h"

enum { SEATS_SERVERS = 4, SEATS_RANKS = 2, SEATS_QUEUE = 200 };

typedef struct envelope {
    uint32_t from, to; /* a server; SEATS_SERVERS + rank; 100: the director; 200 + slot: its head; 300: the depot */
    part part;
    bale *bale;
} envelope;

typedef struct seats seats;

typedef struct seat {
    seats *world;
    uint32_t id;
    replica_host host;
    replica *replica;
} seat;

struct seats {
    seat seat[SEATS_SERVERS];
    chart chart;
    envelope queue[SEATS_QUEUE];
    size_t first, count;
    uint64_t number;
    ledger_terms terms; /* of contributions */
};

#define ON_SEATS(test) cmocka_unit_test_setup_teardown(test, seats_setup, seats_teardown)
int seats_setup(void **state); /* the state is a seats */
int seats_teardown(void **state);

/* The next chart has this chain of a slot; `since` of whoever stays is kept. */
void seats_chain(seats *world, uint32_t index, const uint32_t *servers, uint8_t count);
void seats_enter(seats *world, uint32_t server); /* it learns of the chart */
void seats_enter_all(seats *world);
void seats_start(seats *world, uint8_t count); /* a chain of so many, the first of which serves */
void seats_start_rounds(seats *world, uint64_t members, bool waits);
void seats_settle(seats *world, int deaf); /* delivers, but nothing to `deaf`; -1: to all */

void seats_ask(seats *world, uint32_t server, part part); /* a push gets values and terms */
void seats_push(seats *world, uint32_t server, uint32_t rank, uint64_t name, uint64_t prev);
void seats_tick_of(seats *world, uint32_t server, uint32_t rank, uint64_t name, uint64_t prev); /* no values */
/* What the ledger says to slot 0. */
void seats_say(seats *world, part_kind kind, uint32_t rank, uint64_t round, uint64_t set);

/* How often a rank was told so. */
size_t seats_told(const seats *world, uint32_t rank, part_kind kind, part_status status, uint64_t name);
replica_look seats_look(const seats *world, uint32_t server);
