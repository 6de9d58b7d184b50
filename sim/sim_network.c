/* sim_network.c — see sim_network.h. Transports of the nodes, conditions and cuts; sim_link.c implements links. */
#include "sim/sim_network.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "sim/sim_link.h"

enum { STREAM_NETWORK = 3 };

const sim_network_conditions sim_network_calm = {.delay_min_us = 50, .delay_max_us = 500, .window = 1000};

/* ---- The transport of a node. */

/* Whether the process is dead. A process that crashes inside a callback runs until the callback returns: its operations
 * have no effect. */
static bool dead(const network_port *port) { return !sim_node_up(port->node) || sim_node_dying(port->node); }

static sim_link_end *find_end(const network_port *port, link_id link) {
    return dead(port) ? NULL : map_get(&port->links, link.v);
}

static sim_link_end *find_open(const network_port *port, link_id link) {
    sim_link_end *end = find_end(port, link);
    return end != NULL && end->state == SIM_LINK_OPEN ? end : NULL;
}

static sim_node *find_node(const sim *sim, const char *name) {
    for (size_t i = 0; i < sim_node_count(sim); i++)
        if (strcmp(sim_node_name(sim_node_at(sim, i)), name) == 0) return sim_node_at(sim, i);
    return NULL;
}

static mr_status port_open(void *self, const char *address, link_id *out) {
    network_port *port = self;
    void *context;
    MR_ASSERT(sim_node_events(port->node, &context) != NULL);
    sim_node *node = find_node(port->network->sim, address);
    if (node == NULL) return error_set(MR_INVALID, "'%s' is no node of the simulation", address);
    if (dead(port)) return error_set(MR_CLOSED, "the node is down");
    *out = sim_link_open(port, node)->id;
    return MR_OK;
}

static void port_close(void *self, link_id link) {
    sim_link_end *end = find_end(self, link);
    if (end != NULL) sim_link_close(end);
}

static mr_status port_reserve(void *self, link_id link, size_t size, uint8_t **out) {
    sim_link_end *end = find_open(self, link);
    if (end == NULL) return error_set(MR_CLOSED, "link %" PRIu32 " is not open", link.v);
    if (size > MESSAGE_HEAD_MAX) return error_set(MR_TOO_LARGE, "a head of %zu bytes is over the limit", size);
    return sim_link_reserve(end, size, out);
}

static void port_commit(void *self, link_id link, size_t size) {
    sim_link_end *end = find_open(self, link);
    if (end != NULL) sim_link_commit(end, size);
}

static void port_commit_body(void *self, link_id link, size_t size, span body, body_sent_fn *sent, void *argument) {
    sim_link_end *end = find_open(self, link);
    if (end != NULL)
        sim_link_commit_body(end, size, body, sent, argument);
    else
        sent(argument, MR_CLOSED);
}

typedef struct joined { /* several pieces in one body */
    body_sent_fn *sent;
    void *argument;
    uint8_t bytes[];
} joined;

static void joined_sent(void *argument, mr_status status) {
    joined *joined = argument;
    joined->sent(joined->argument, status);
    free(joined);
}

static void port_commit_pieces(void *self, link_id link, size_t size, const span *pieces, size_t count,
                               body_sent_fn *sent, void *argument) {
    if (count == 1) {
        port_commit_body(self, link, size, pieces[0], sent, argument);
        return;
    }
    size_t total = 0, at = 0;
    for (size_t i = 0; i < count; i++) total += pieces[i].size;
    void *memory;
    if (alloc_try_aligned(sizeof(void *), sizeof(joined) + total, &memory) != MR_OK) {
        sent(argument, MR_NOMEM);
        return;
    }
    joined *joined = memory;
    joined->sent = sent;
    joined->argument = argument;
    for (size_t i = 0; i < count; at += pieces[i++].size)
        if (pieces[i].size != 0) memcpy(joined->bytes + at, pieces[i].data, pieces[i].size);
    port_commit_body(self, link, size, span_of(joined->bytes, total), joined_sent, joined);
}

static void port_discard(void *self, link_id link) {
    sim_link_end *end = find_end(self, link);
    if (end != NULL) sim_link_discard(end);
}

static void port_flush(void *self) {}

static const transport_ops port_ops = {
    .name = "simulated",
    .open = port_open,
    .close = port_close,
    .reserve = port_reserve,
    .commit = port_commit,
    .commit_body = port_commit_body,
    .commit_pieces = port_commit_pieces,
    .discard = port_discard,
    .flush = port_flush,
};

/* ---- Ports. */

network_port *sim_network_port_create(network *network, sim_node *node) {
    network_port *port = xcalloc(1, sizeof *port);
    port->network = network;
    port->node = node;
    list_init(&port->ends);
    list_push_back(&network->ports, &port->of_network);
    return port;
}

transport sim_network_port_up(network_port *port) {
    port->silent = false;
    return (transport){&port_ops, port};
}

void sim_network_port_down(network_port *port, bool silent) {
    port->silent = silent;
    while (!list_empty(&port->ends)) sim_link_orphan(container_of(port->ends.next, sim_link_end, of_port), silent);
}

/* ---- The network. */

network *sim_network_create(sim *sim) {
    network *network = xcalloc(1, sizeof *network);
    network->sim = sim;
    network->rng = sim_fork_rng(sim, STREAM_NETWORK);
    network->conditions = sim_network_calm;
    list_init(&network->ports);
    list_init(&network->pairs);
    list_init(&network->stalled);
    return network;
}

void sim_network_destroy(network *network) {
    for (list *item; (item = list_pop_front(&network->stalled)) != NULL;)
        sim_link_packet_free(container_of(item, sim_link_packet, place));
    for (list *item; (item = list_pop_front(&network->pairs)) != NULL;)
        free(container_of(item, sim_link_pair, of_network));
    for (list *item; (item = list_pop_front(&network->ports)) != NULL;) {
        network_port *port = container_of(item, struct network_port, of_network);
        map_fini(&port->links);
        free(port);
    }
    map_fini(&network->cuts);
    free(network);
}

void sim_network_report(const network *network) {
    sim_count(network->sim, "messages", network->sent);
    sim_count(network->sim, "delivered", network->delivered);
    sim_count(network->sim, "lost", network->lost);
    sim_count(network->sim, "doubled", network->doubled);
    sim_count(network->sim, "reordered", network->reordered);
    sim_count(network->sim, "refused", network->refused);
    sim_count(network->sim, "links broken", network->broken);
}

void sim_network_set(network *network, const sim_network_conditions *conditions) { network->conditions = *conditions; }
const sim_network_conditions *sim_network_now(const network *network) { return &network->conditions; }

static uint64_t direction(const sim_node *from, const sim_node *to) {
    return (uint64_t)sim_node_index(from) << 32 | sim_node_index(to);
}

bool sim_network_is_cut(const network *network, const sim_node *from, const sim_node *to) {
    return network->cuts.count != 0 && map_get(&network->cuts, direction(from, to)) != NULL;
}

/* Stalled packets arrive at once and in order, before all packets that are still in flight. */
static void release_stalled(network *network) {
    list_for_each (item, &network->stalled) {
        sim_link_packet *packet = container_of(item, struct sim_link_packet, place);
        if (sim_network_is_cut(network, packet->from->port->node, sim_link_other(packet->from)->port->node)) continue;
        list_remove(item);
        sim_schedule(network->sim, &packet->event, sim_now_us(network->sim));
    }
}

void sim_network_cut(network *network, sim_node *from, sim_node *to, bool cut) {
    if (cut)
        (void)map_put(&network->cuts, direction(from, to), to);
    else
        (void)map_remove(&network->cuts, direction(from, to));
    if (!cut) release_stalled(network);
}

static bool joins(const sim_link_pair *pair, const sim_node *a, const sim_node *b) {
    const sim_node *x = pair->ends[0].port->node, *y = pair->ends[1].port->node;
    return (x == a && y == b) || (x == b && y == a);
}

void sim_network_break_links(network *network, sim_node *a, sim_node *b) {
    list_for_each (item, &network->pairs) {
        sim_link_pair *pair = container_of(item, struct sim_link_pair, of_network);
        if (joins(pair, a, b)) sim_link_break(pair);
    }
}

void sim_network_heal(network *network) {
    map_fini(&network->cuts);
    release_stalled(network);
    list_for_each (item, &network->pairs) sim_link_heal(container_of(item, sim_link_pair, of_network));
}

size_t sim_network_link_count(const network *network) {
    size_t count = 0;
    list_for_each (item, &network->ports) count += container_of(item, struct network_port, of_network)->links.count;
    return count;
}
