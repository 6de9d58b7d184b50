/* ps_party.h — the processes of the parameter scenario: a director, servers, ranks.
 *
 * Each has mail and a coordinator of its own; a server and a rank take an incarnation from the coordinator before they
 * begin. A rank trains (ps_load.h): it is shown all slots, computes, pushes, and takes its time between two steps. */
#pragma once
#include "ps/director.h"
#include "ps/rank.h"
#include "ps/server.h"
#include "sim/ps_ledger.h"

enum { PS_SERVERS_MAX = 8, PS_PROPOSALS_MAX = 64 };

typedef struct ps_world ps_world;

typedef struct ps_seat { /* a machine */
    ps_world *world;
    sim_node *node;
    uint32_t id; /* of the server, or the rank */
} ps_seat;

struct ps_world {
    sim *sim;
    sim_node *keeper;
    ps_seat director, servers[PS_SERVERS_MAX], ranks[PS_RANKS_MAX];
    uint32_t server_count, rank_count, slot_count, steps;
    uint32_t value_slots; /* of BSP there is a ledger, too */
    double order_chance;  /* that a rank joins or leaves at the end of a step */
    double fresh_chance;  /* that a pull must be fresh */
    bool spreads;         /* pulls go to any copy */
    chart_rounds rounds;
    uint32_t pin_rounds;  /* how often slots are wanted elsewhere */
    uint32_t drop_rounds; /* and ranks given up */
    uint8_t copies;
    consistency consistency;
    int64_t pace_us; /* between two steps, on average */
    placement_pin pins[PS_SLOTS_MAX];
    size_t pin_count;
    replica_mutations mutations;
    ps_ledger ledger;
    chart newest;                      /* that anybody knows to be decided */
    chart proposals[PS_PROPOSALS_MAX]; /* that may yet be decided, or are */
    size_t proposal_count;
};

extern const sim_program ps_director_program, ps_server_program, ps_rank_program; /* the argument is a ps_seat */

const server *ps_server_of(const ps_seat *seat);   /* NULL: it is down */
director *ps_director_of(const ps_seat *seat);     /* NULL: it is down */
uint64_t ps_rank_incarnation(const ps_seat *seat); /* 0: it is down, or has none yet */
bool ps_rank_done(const ps_seat *seat);            /* it has done all steps, and everything is acknowledged */
