/* replica_fixture.h — replicas of one slot on four servers, driven by hand: the test decides which slot messages are
 * delivered.
 *
 * Messages of a replica wait in a queue. replica_fixture_settle delivers those for other servers; messages for ranks,
 * the controller, other slots and the checkpoint store stay in the queue, for the test to check. */
#pragma once
#include "ps/replica.h"
#include "ps/replica_internal.h"
#include "ps/round_state.h"
#include "sim/ps/float_machine.h"

enum { REPLICA_FIXTURE_SERVERS = 4, REPLICA_FIXTURE_RANKS = 2, REPLICA_FIXTURE_QUEUE = 200 };

typedef struct envelope {
    /* number of a server; REPLICA_FIXTURE_SERVERS + rank; 100: the controller; 200 + slot: head of the slot; 300: the
     * checkpoint store */
    uint32_t from, to;
    slot_message message;
    shared_bytes *bytes;
} envelope;

typedef struct replica_fixture replica_fixture;

typedef struct site {
    replica_fixture *world;
    uint32_t id;
    replica_host host;
    replica *replica;
} site;

struct replica_fixture {
    site site[REPLICA_FIXTURE_SERVERS];
    cluster_map map;
    envelope queue[REPLICA_FIXTURE_QUEUE];
    size_t first, count;
    uint64_t number;
    round_state_terms terms; /* terms of contributions */
};

#define ON_SITES(test) cmocka_unit_test_setup_teardown(test, replica_fixture_setup, replica_fixture_teardown)
int replica_fixture_setup(void **state); /* *state is a replica_fixture */
int replica_fixture_teardown(void **state);

/* Gives a slot this chain in the next cluster map; replicas that stay keep their `since`. */
void replica_fixture_chain(replica_fixture *world, uint32_t index, const uint32_t *servers, uint8_t count);
void replica_fixture_enter(replica_fixture *world, uint32_t server); /* the server receives the cluster map */
void replica_fixture_enter_all(replica_fixture *world);
void replica_fixture_start(replica_fixture *world, uint8_t count); /* a chain of `count` replicas; the first serves */
void replica_fixture_start_rounds(replica_fixture *world, uint64_t members, bool waits);
void replica_fixture_settle(replica_fixture *world, int deaf); /* delivers messages, except those to `deaf`; -1: all */

/* sends a slot message to a server; a push gets values and terms */
void replica_fixture_ask(replica_fixture *world, uint32_t server, slot_message message);
void replica_fixture_push(replica_fixture *world, uint32_t server, uint32_t rank, uint64_t name, uint64_t prev);
/* sends an end-of-step, which has no values */
void replica_fixture_tick_of(replica_fixture *world, uint32_t server, uint32_t rank, uint64_t name, uint64_t prev);
/* Sends a message of the round state to slot 0. */
void replica_fixture_say(replica_fixture *world, slot_message_kind kind, uint32_t rank, uint64_t round, uint64_t set);

/* Number of times that a rank has received this message. */
size_t replica_fixture_told(const replica_fixture *world, uint32_t rank, slot_message_kind kind,
                            slot_message_status status, uint64_t name);
replica_look replica_fixture_look(const replica_fixture *world, uint32_t server);
