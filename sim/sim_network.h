/* sim_network.h — simulated network: a transport backend (net/transport.h) per node.
 *
 * A link has two ends. A message travels as a packet that arrives later, or not at all. Without faults the network
 * keeps each direction of a link in order and loses nothing, as a real backend does. Faults:
 *
 *   loss, duplicate, reorder   of single messages inside a link that stays open
 *   slow                       a message takes up to slow_max_us
 *   cut                        of one direction between two nodes: packets are lost, or wait for the cut to heal
 *                              (`hold`), and then come in order, late
 *   reset                      a link breaks: each side learns it for itself, if it can be reached
 *   busy, window               back-pressure: MR_BUSY and later on_room
 *   crash                      the other side's links close with MR_PEER_DIED after a delay; behind a cut, or when the
 *                              crash was silent, not before it sends something that arrives, the network heals, or its
 *                              machine gives up (MR_TIMEOUT, after LINK_GIVE_UP_US at most)
 *
 * Opening, closing and resets are never lost by chance, only by cuts. A body is copied when it is committed, and is
 * compared with the sender's memory when `sent` is called: a sender that changes it too early is a violation. While a
 * body arrives (it may take a while after on_body), nothing else arrives on that link. */
#pragma once
#include "net/transport.h"
#include "sim/sim.h"

#define LINK_OPEN_US    INT64_C(3000000)  /* opening has succeeded or failed by then */
#define LINK_GIVE_UP_US INT64_C(15000000) /* a link whose peer is gone is closed by then, whatever packets were lost */

typedef struct network network;
typedef struct network_port network_port;

typedef struct sim_network_conditions {
    int64_t delay_min_us, delay_max_us;
    int64_t slow_max_us, reorder_max_us;   /* maximal extra delay of a slow or reordered message */
    double slow, loss, duplicate, reorder; /* shares of messages */
    double hold;                           /* share of packets that wait for a cut to heal; the others are lost */
    double reset;                          /* share of messages that break their link */
    double busy;                           /* share of reservations that return MR_BUSY without cause */
    double pause_body;                     /* share of bodies that take a while after on_body */
    uint32_t window;                       /* messages of one direction in flight, before MR_BUSY */
} sim_network_conditions;

extern const sim_network_conditions sim_network_calm; /* 50 to 500 µs, a wide window, nothing else */

void sim_network_set(network *network, const sim_network_conditions *conditions);
const sim_network_conditions *sim_network_now(const network *network);

void sim_network_cut(network *network, sim_node *from, sim_node *to, bool cut); /* one direction */
bool sim_network_is_cut(const network *network, const sim_node *from, const sim_node *to);
void sim_network_break_links(network *network, sim_node *a, sim_node *b); /* resets all links between the two */

/* Ends all cuts; links whose peer is gone close soon. The conditions stay. */
void sim_network_heal(network *network);

size_t sim_network_link_count(const network *network); /* ends that are open or opening */

/* ---- For sim.c. */
network *sim_network_create(sim *sim);
void sim_network_report(const network *network); /* adds its counters by sim_count */
void sim_network_destroy(network *network);
network_port *sim_network_port_create(network *network, sim_node *node);
transport sim_network_port_up(network_port *port);           /* a process begins */
void sim_network_port_down(network_port *port, bool silent); /* process and links are gone, without events */
