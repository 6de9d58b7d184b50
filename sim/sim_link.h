/* sim_link.h — links of the simulated network, used by sim_network.c.
 *
 *   state of an end     NONE ── open, or the other's packet arrives ──► OPENING / OPEN ── close ──► CLOSING ──► GONE
 *                                                                           └──────── anything else ───────────┘
 *
 * A link is a pair of ends. A packet travels between them; a chore is a later event of one end alone (its on_closed,
 * its on_room). Both are events. A pair lives as long as the network: events may refer to ends that are GONE.
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
    uint32_t process; /* process of the node that holds this end */
    sim_link_state state;
    bool wants_room;
    uint32_t on_way;            /* messages of this end in flight */
    int64_t last_us;            /* ordered packets of this end arrive at this time or later */
    int64_t ended_us;           /* end of its process; CLOCK_NEVER_US: the process did not end before the link */
    sim_link_packet *reserved;  /* owned: a reserved message */
    sim_link_packet *receiving; /* owned: the packet whose body is arriving */
    void *place;                /* borrowed: target of that body, or BODY_DISCARD */
    list waiting;               /* packets that arrived after `receiving` */
    list loans;                 /* bodies that this end has borrowed */
    list of_port;
} sim_link_end;

struct sim_link_pair {
    list of_network;
    sim_link_end ends[2];
};

struct sim_link_packet {
    sim_event event;
    list place; /* in `stalled`, or in `waiting` of an end */
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
    bool silent; /* the machine is off and answers nothing */
    uint32_t next_id;
    map links; /* id → end */
    list ends;
    list of_network;
};

struct network {
    sim *sim;
    rng rng;
    sim_network_conditions conditions;
    map cuts; /* cut directions between two nodes: one node's index above the other's → that node */
    list ports, pairs;
    list stalled; /* packets that wait for a cut to heal, in order of arrival */
    uint64_t sent, delivered, lost, doubled, reordered, refused, broken;
};

sim_link_end *sim_link_other(sim_link_end *end);
network *sim_link_network(const sim_link_end *end);
bool sim_link_listening(const sim_link_end *end); /* open or opening */
void sim_link_packet_free(sim_link_packet *packet);

/* Operations of a process on its end: operations of the transport, after their checks. */
sim_link_end *sim_link_open(network_port *port, sim_node *to);
void sim_link_close(sim_link_end *end);
mr_status sim_link_reserve(sim_link_end *end, size_t size, uint8_t **out);
void sim_link_commit(sim_link_end *end, size_t size);
void sim_link_commit_body(sim_link_end *end, size_t size, span body, body_sent_fn *sent, void *argument);
void sim_link_discard(sim_link_end *end);

/* Events from outside. */
void sim_link_orphan(sim_link_end *end, bool silent); /* its process is gone; the end gets no event */
void sim_link_break(sim_link_pair *pair);             /* both ends get on_closed, each after its own delay */
void sim_link_heal(sim_link_pair *pair);              /* an end whose peer is gone gets on_closed soon */
