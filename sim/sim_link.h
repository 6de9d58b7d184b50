/* sim_link.h — the links of the simulated network, seen by sim_network.c.
 *
 *   state of an end     NONE ── open, or the other's packet arrives ──► OPENING / OPEN ── close ──► CLOSING ──► GONE
 *                                                                           └──────── anything else ───────────┘
 *
 * A link is a pair of ends. A packet travels between them; a chore is a later event of one end by itself (to be told
 * that it is closed, to have room again). Both are events. A pair lives as long as the network: events may refer to
 * ends that are long gone.
 *
 * Invariants  on_closed is called in one place, once per end; an end that is GONE has no packet, no loan and no
 *             reservation; a packet that left after its sender's process had ended never arrives. */
#pragma once
#include "base/map.h"
#include "sim/sim_network.h"

typedef enum sim_link_state {
    SIM_LINK_NONE,
    SIM_LINK_OPENING,
    SIM_LINK_OPEN,
    SIM_LINK_CLOSING,
    SIM_LINK_GONE
} sim_link_state;
typedef enum packet_kind { PACKET_OPEN, PACKET_OPENED, PACKET_MESSAGE, PACKET_CLOSE } packet_kind;

typedef struct sim_link_pair sim_link_pair;
typedef struct sim_link_packet sim_link_packet;

typedef struct sim_link_end {
    sim_link_pair *pair;
    network_port *port;
    link_id id;
    uint32_t process; /* of the node, which holds this end */
    sim_link_state state;
    bool wants_room;
    uint32_t on_way;            /* messages of this end that have not arrived */
    int64_t last_us;            /* what this end sends in order arrives at this time or later */
    int64_t ended_us;           /* when its process ended; CLOCK_NEVER_US: it did not end under it */
    sim_link_packet *reserved;  /* owned */
    sim_link_packet *receiving; /* owned: its body is arriving */
    void *place;                /* borrowed: where that body shall lie, or BODY_DISCARD */
    list waiting;               /* packets that arrived behind it */
    list loans;                 /* bodies that this end has borrowed */
    list of_port;
} sim_link_end;

struct sim_link_pair {
    list of_network;
    sim_link_end ends[2];
};

struct sim_link_packet {
    sim_event event;
    list place; /* among the stalled, or those that wait behind a body */
    sim_link_end *from;
    packet_kind kind;
    int64_t departs_us;
    bool counted; /* in from->on_way */
    bool machine; /* sent by the machine, not by the process on it */
    mr_status status;
    uint8_t *body; /* owned */
    size_t body_size, size;
    uint8_t head[];
};

struct network_port {
    network *network;
    sim_node *node;
    bool silent; /* the machine is off: nothing answers */
    uint32_t next_id;
    map links; /* id → end */
    list ends;
    list of_network;
};

struct network {
    sim *sim;
    rng rng;
    sim_network_conditions conditions;
    map cuts; /* directions between two nodes that are cut: one node's index above the other's → that node */
    list ports, pairs;
    list stalled; /* packets that wait for a cut to heal, in the order in which they came there */
    uint64_t sent, delivered, lost, doubled, reordered, refused, broken;
};

sim_link_end *sim_link_other(sim_link_end *end);
network *sim_link_network(const sim_link_end *end);
bool sim_link_listening(const sim_link_end *end); /* open or opening */
void sim_link_packet_free(sim_link_packet *packet);

/* What a process does with its end; the transport's slots, after their checks. */
sim_link_end *sim_link_open(network_port *port, sim_node *to);
void sim_link_close(sim_link_end *end);
mr_status sim_link_reserve(sim_link_end *end, size_t size, uint8_t **out);
void sim_link_commit(sim_link_end *end, size_t size);
void sim_link_commit_body(sim_link_end *end, size_t size, span body, body_sent_fn *sent, void *argument);
void sim_link_discard(sim_link_end *end);

/* What happens to it. */
void sim_link_orphan(sim_link_end *end, bool silent); /* its process is gone; no event for it */
void sim_link_break(sim_link_pair *pair);             /* both ends are told, each in its time */
void sim_link_heal(sim_link_pair *pair);              /* an end whose other one is gone is told soon */
