/* group_party.h — the processes of the group scenario: a marshal, servers and workers.
 *
 * Each has mail and a coordinator of its own; members take an incarnation before they begin, and another one when they
 * find that they were taken out. A worker plays the rank of its number: it claims pieces of the data for a few steps at
 * a time, does them one after the other, and says that they are over. Servers only are there. All that a process does
 * follows from the newest roster that it knows. What they do, and what is decided, is told to the ledger. */
#pragma once
#include "sim/cluster/group_ledger.h"
#include "sim/cluster/marshal_node.h"

typedef struct group_world group_world;

typedef struct group_seat { /* a machine */
    group_world *world;
    sim_node *node;
    uint32_t id;
    uint8_t role;
} group_seat;

struct group_world {
    sim *sim;
    marshal_seat marshal;
    group_seat seats[GROUP_SEATS_MAX];
    uint32_t seat_count, part_count;
    uint64_t sizes[GROUP_PARTS_MAX];
    uint64_t epochs; /* that are to be done */
    group_ledger ledger;
    witness_book book; /* what was asked of the coordinator */
};

extern const sim_program group_member_program;                                 /* the argument is a group_seat */
void group_decided(void *context, const sim_node *node, const roster *roster); /* the context is the world */
bool group_done(const group_seat *seat);                                       /* it knows that all epochs are over */
