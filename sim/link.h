/* link.h — the links of the simulated network, seen by network.c.
 *
 *   state of an end     NONE ── open, or the other's packet arrives ──► OPENING / OPEN ── close ──► CLOSING ──► GONE
 *                                                                           └──────── anything else ───────────┘
 *
 * A link is a pair of ends. What travels between them is a packet; what an end will do later by itself (be told that it
 * is closed, have room again) is a chore. Both are events. A pair lives as long as the network: events may refer to
 * ends that are long gone.
 *
 * Invariants  on_closed is called in one place, once per end; an end that is GONE has no packet, no loan and no
 *             reservation; a packet that left after its sender's process had ended never arrives. */
#pragma once
#include "base/map.h"
#include "sim/network.h"

typedef enum link_state { LINK_NONE, LINK_OPENING, LINK_OPEN, LINK_CLOSING, LINK_GONE } link_state;
typedef enum packet_kind { PACKET_OPEN, PACKET_OPENED, PACKET_MESSAGE, PACKET_CLOSE } packet_kind;

typedef struct link_pair link_pair;
typedef struct link_packet link_packet;

typedef struct link_end {
    link_pair *pair;
    network_port *port;
    link_id id;
    uint32_t process; /* of the node, which holds this end */
    link_state state;
    bool wants_room;
    uint32_t on_way;        /* messages of this end that have not arrived */
    int64_t last_us;        /* what this end sends in order arrives at this time or later */
    int64_t ended_us;       /* when its process ended; CLOCK_NEVER_US: it did not end under it */
    link_packet *reserved;  /* owned */
    link_packet *receiving; /* owned: its body is arriving */
    void *place;            /* borrowed: where that body shall lie, or BODY_DISCARD */
    list waiting;           /* packets that arrived behind it */
    list loans;             /* bodies that this end has borrowed */
    list of_port;
} link_end;

struct link_pair {
    list of_network;
    link_end ends[2];
};

struct link_packet {
    sim_event event;
    list place; /* among the stalled, or those that wait behind a body */
    link_end *from;
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
    network_conditions conditions;
    map cuts; /* directions between two nodes that are cut: one node's index above the other's → that node */
    list ports, pairs;
    list stalled; /* packets that wait for a cut to heal, in the order in which they came there */
    uint64_t sent, delivered, lost, doubled, reordered, refused, broken;
};

link_end *link_other(link_end *end);
network *link_network(const link_end *end);
bool link_listening(const link_end *end); /* open or opening */
void link_packet_free(link_packet *packet);

/* What a process does with its end; the transport's slots, after their checks. */
link_end *link_open(network_port *port, sim_node *to);
void link_close(link_end *end);
mr_status link_reserve(link_end *end, size_t size, uint8_t **out);
void link_commit(link_end *end, size_t size);
void link_commit_body(link_end *end, size_t size, span body, body_sent_fn *sent, void *argument);
void link_discard(link_end *end);

/* What happens to it. */
void link_orphan(link_end *end, bool silent); /* its process is gone; no event for it */
void link_break(link_pair *pair);             /* both ends are told, each in its time */
void link_heal(link_pair *pair);              /* an end whose other one is gone is told soon */
