/* network.c — see network.h.
 *
 *   state of an end     NONE ── open, or the other's packet arrives ──► OPENING / OPEN ── close ──► CLOSING ──► GONE
 *                                                                           └──────── anything else ───────────┘
 *
 * What travels between the ends is a packet; what an end will do later by itself (be told that it is closed, have room
 * again) is a chore. Both are events. A connection, and with it both ends, lives as long as the network: events may
 * refer to ends that are long gone.
 *
 * Invariants  on_closed is called in close_end and nowhere else, once per end; an end that is GONE has no packet, no
 *             loan and no reservation; a packet that left after its sender's process had ended never arrives. */
#include "sim/network.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/map.h"

enum { STREAM_NETWORK = 3 };

#define OPEN_TIMEOUT_US INT64_C(3000000)
#define BUSY_MAX_US     INT64_C(5000)
#define BODY_MAX_US     INT64_C(20000)
#define HEAL_MAX_US     INT64_C(200000)

const network_conditions network_calm = {.delay_min_us = 50, .delay_max_us = 500, .window = 1000};

typedef enum end_state { END_NONE, END_OPENING, END_OPEN, END_CLOSING, END_GONE } end_state;
typedef enum packet_kind { PACKET_OPEN, PACKET_OPENED, PACKET_MESSAGE, PACKET_CLOSE } packet_kind;
typedef enum chore_kind { CHORE_CLOSE, CHORE_ROOM, CHORE_OPEN_TIMEOUT, CHORE_GIVE_UP } chore_kind;

typedef struct connection connection;
typedef struct packet packet;

typedef struct end {
    connection *connection;
    network_port *port;
    link_id id;
    uint32_t process; /* of the node, which holds this end */
    end_state state;
    bool wants_room;
    uint32_t on_way;   /* messages of this end that have not arrived */
    int64_t last_us;   /* what this end sends in order arrives at this time or later */
    int64_t ended_us;  /* when its process ended; CLOCK_NEVER_US: it did not end under it */
    packet *reserved;  /* owned */
    packet *receiving; /* owned: its body is arriving */
    void *place;       /* borrowed: where that body shall lie, or BODY_DISCARD */
    list waiting;      /* packets that arrived behind it */
    list loans;        /* bodies that this end has borrowed */
    list of_port;
} end;

struct connection {
    list of_network;
    end ends[2];
};

struct packet {
    sim_event event;
    list place; /* among the stalled, or those that wait behind a body */
    end *from;
    packet_kind kind;
    int64_t departs_us;
    bool counted; /* in from->on_way */
    bool machine; /* sent by the machine, not by the process on it */
    mr_status status;
    uint8_t *body; /* owned */
    size_t body_size, size;
    uint8_t head[];
};

typedef struct chore {
    sim_event event;
    end *end;
    chore_kind kind;
    cause cause;
} chore;

typedef struct loan { /* a body that the sender must not touch yet */
    sim_event event;
    end *end;
    list of_end;
    span body; /* borrowed from the sender */
    uint64_t hash;
    body_sent_fn *sent;
    void *argument;
} loan;

struct network_port {
    network *network;
    sim_node *node;
    bool silent; /* the machine is off: nothing answers */
    uint32_t next_id;
    map links; /* id → end */
    list ends;
};

struct network {
    sim *sim;
    rng rng;
    network_conditions conditions;
    network_port *ports[SIM_NODES_MAX];
    size_t port_count;
    bool cut[SIM_NODES_MAX][SIM_NODES_MAX];
    list connections;
    list stalled; /* packets that wait for a cut to heal, in the order in which they came there */
    uint64_t sent, delivered, lost, doubled, reordered, refused, broken;
};

static end *other(end *end) { return &end->connection->ends[end == &end->connection->ends[0] ? 1 : 0]; }
static network *network_of(const end *end) { return end->port->network; }
static bool listening(const end *end) { return end->state == END_OPENING || end->state == END_OPEN; }

static void record(const end *end, journal_kind kind, uint64_t b) {
    sim *sim = network_of(end)->sim;
    journal_record(sim_journal(sim), sim_now_us(sim), (uint32_t)sim_node_index(end->port->node), kind, end->id.v, b);
}

static void tell(end *end, const char *what, span head) {
    sim *sim = network_of(end)->sim;
    if (!sim_listens(sim)) return;
    char text[200];
    sim_describe_head(sim, head, text, sizeof text);
    journal_tell(sim_journal(sim), sim_now_us(sim), sim_node_name(end->port->node), "%s %s: %s", what,
                 sim_node_name(other(end)->port->node), text);
}

/* ---- Packets leave. */

static int64_t draw_delay(network *network) {
    const network_conditions *now = &network->conditions;
    int64_t delay_us = rng_between(&network->rng, now->delay_min_us, now->delay_max_us);
    if (now->slow > 0 && rng_chance(&network->rng, now->slow))
        delay_us += rng_between(&network->rng, 0, now->slow_max_us);
    return delay_us;
}

static packet *packet_create(end *from, packet_kind kind, size_t size) {
    packet *packet = xmalloc(sizeof *packet + size);
    memset(packet, 0, sizeof *packet);
    packet->from = from;
    packet->kind = kind;
    packet->size = size;
    return packet;
}

static void packet_free(packet *packet) {
    if (packet == NULL) return;
    free(packet->body);
    free(packet);
}

static void packet_drop(sim_event *event) { packet_free(container_of(event, packet, event)); }
static void packet_arrives(sim_event *event);

static void post(packet *packet, int64_t extra_us, bool ordered) {
    end *from = packet->from, *to = other(from);
    network *network = network_of(from);
    packet->event = (sim_event){.node = to->port->node, .run = packet_arrives, .drop = packet_drop};
    packet->departs_us = packet->machine ? sim_now_us(network->sim) : sim_node_free_at_us(from->port->node);
    int64_t at_us = packet->departs_us + draw_delay(network) + extra_us;
    if (ordered) {
        if (at_us < from->last_us) at_us = from->last_us;
        from->last_us = at_us;
    }
    sim_schedule(network->sim, &packet->event, at_us);
}

static void post_close(end *from, mr_status status, bool ordered) {
    packet *packet = packet_create(from, PACKET_CLOSE, 0);
    packet->status = status;
    packet->machine = !sim_node_up(from->port->node) || from->state == END_GONE || from->state == END_NONE;
    post(packet, 0, ordered);
}

/* ---- Chores. */

static void chore_run(sim_event *event);
static void chore_drop(sim_event *event) { free(container_of(event, chore, event)); }

static chore *chore_add(end *end, chore_kind kind, int64_t delay_us) {
    chore *chore = xcalloc(1, sizeof *chore);
    chore->event = (sim_event){.node = end->port->node, .run = chore_run, .drop = chore_drop};
    chore->end = end;
    chore->kind = kind;
    sim *sim = network_of(end)->sim;
    sim_schedule(sim, &chore->event, sim_now_us(sim) + delay_us);
    return chore;
}

/* Whatever becomes of the packets between them: an end does not outlive the other for ever. */
static void give_up_later(end *gone) {
    end *left = other(gone);
    if (left->state == END_NONE || left->state == END_GONE) return;
    chore *chore = chore_add(left, CHORE_GIVE_UP, rng_between(&network_of(gone)->rng, 5000000, LINK_GIVE_UP_US));
    cause_set(&chore->cause, MR_TIMEOUT, "nothing was heard of it for too long");
}

/* ---- An end ends. */

static void loan_end(loan *loan, mr_status status) {
    sim *sim = network_of(loan->end)->sim;
    sim_cancel(sim, &loan->event);
    if (XXH3_64bits(loan->body.data, loan->body.size) != loan->hash)
        sim_violation(sim, "%s changed a body before it was told that it had been sent",
                      sim_node_name(loan->end->port->node));
    list_remove(&loan->of_end);
    loan->sent(loan->argument, status);
    free(loan);
}

/* Frees what the end holds. Loans are given back here in every case: nobody else can give their memory back. */
static void release(end *end, mr_status status) {
    end->state = END_GONE;
    end->wants_room = false;
    packet_free(end->reserved);
    end->reserved = NULL;
    if (end->receiving != NULL) {
        sim_cancel(network_of(end)->sim, &end->receiving->event);
        packet_free(end->receiving);
        end->receiving = NULL;
    }
    for (list *item; (item = list_pop_front(&end->waiting)) != NULL;) packet_free(container_of(item, packet, place));
    map_remove(&end->port->links, end->id.v);
    list_remove(&end->of_port);
    while (!list_empty(&end->loans)) loan_end(container_of(end->loans.next, loan, of_end), status);
}

static void close_end(end *end, const cause *why) {
    MR_ASSERT(end->state != END_NONE && end->state != END_GONE);
    sim_node *node = end->port->node;
    record(end, JOURNAL_CLOSED, (uint64_t)why->status);
    journal_tell(sim_journal(network_of(end)->sim), sim_now_us(network_of(end)->sim), sim_node_name(node),
                 "link %" PRIu32 " to %s closed: %s, %s", end->id.v, sim_node_name(other(end)->port->node),
                 mr_status_name(why->status), why->text);
    give_up_later(end);
    void *context;
    const transport_events *events = sim_node_events(node, &context);
    sim_enter(node);
    release(end, why->status);
    events->on_closed(context, end->id, why);
    sim_leave(node);
}

static void close_by_packet(end *end, mr_status status) {
    cause cause;
    const char *name = sim_node_name(other(end)->port->node);
    switch (status) {
    case MR_PEER_DIED: cause_set(&cause, status, "the process on %s is gone", name); break;
    case MR_CLOSED: cause_set(&cause, status, "%s closed the link", name); break;
    default: cause_set(&cause, status, "%s ended the link: %s", name, mr_status_text(status)); break;
    }
    close_end(end, &cause);
}

static void chore_run(sim_event *event) {
    chore *chore = container_of(event, struct chore, event);
    end *end = chore->end;
    void *context;
    const transport_events *events = sim_node_events(end->port->node, &context);
    bool alive = end->state != END_NONE && end->state != END_GONE;
    switch (chore->kind) {
    case CHORE_CLOSE:
    case CHORE_GIVE_UP:
        if (alive) close_end(end, &chore->cause);
        break;
    case CHORE_OPEN_TIMEOUT:
        if (end->state != END_OPENING) break;
        post_close(end, MR_TIMEOUT, true);
        cause_set(&chore->cause, MR_TIMEOUT, "no answer from %s", sim_node_name(other(end)->port->node));
        close_end(end, &chore->cause);
        break;
    case CHORE_ROOM:
        if (end->state != END_OPEN || !end->wants_room) break;
        end->wants_room = false;
        if (events->on_room == NULL) break;
        record(end, JOURNAL_ROOM, 0);
        sim_enter(end->port->node);
        events->on_room(context, end->id);
        sim_leave(end->port->node);
        break;
    }
    free(chore);
}

/* ---- Packets arrive. */

static void end_init(end *end, end_state state) {
    end->state = state;
    end->process = sim_node_process(end->port->node);
    end->id.v = ++end->port->next_id;
    map_put(&end->port->links, end->id.v, end);
    list_push_back(&end->port->ends, &end->of_port);
}

static void open_end(end *end) {
    end->state = END_OPEN;
    sim_node *node = end->port->node, *peer_node = other(end)->port->node;
    peer peer = {.process = ((uint64_t)sim_node_index(peer_node) + 1) << 32 | other(end)->process};
    snprintf(peer.name, sizeof peer.name, "%s", sim_node_name(peer_node));
    record(end, JOURNAL_OPENED, peer.process);
    void *context;
    const transport_events *events = sim_node_events(node, &context);
    sim_enter(node);
    events->on_open(context, end->id, &peer);
    sim_leave(node);
}

static void hand_over(end *to, packet *packet) {
    network *network = network_of(to);
    sim_node *node = to->port->node;
    span head = span_of(packet->head, packet->size), body = {0};
    record(to, JOURNAL_RECEIVE, packet->size);
    journal_bytes(sim_journal(network->sim), head);
    if (packet->body_size != 0) {
        journal_bytes(sim_journal(network->sim), span_of(packet->body, packet->body_size));
        bool wanted = to->place != BODY_DISCARD;
        if (wanted) memcpy(to->place, packet->body, packet->body_size);
        body = span_of(wanted ? to->place : NULL, packet->body_size);
    }
    tell(to, "receives from", head);
    network->delivered++;
    void *context;
    const transport_events *events = sim_node_events(node, &context);
    sim_enter(node);
    events->on_message(context, to->id, &(message){.head = head, .body = body});
    sim_leave(node);
    packet_free(packet);
}

static void *ask_for_place(end *to, const packet *packet) {
    void *context, *place = NULL;
    const transport_events *events = sim_node_events(to->port->node, &context);
    record(to, JOURNAL_BODY, packet->body_size);
    sim_enter(to->port->node);
    if (events->on_body != NULL)
        place = events->on_body(context, to->id, span_of(packet->head, packet->size), packet->body_size);
    sim_leave(to->port->node);
    return place;
}

static void receive(end *to, packet *packet);

static void body_arrived(sim_event *event) {
    packet *packet = container_of(event, struct packet, event);
    end *to = other(packet->from);
    to->receiving = NULL;
    hand_over(to, packet);
    while (listening(to) && to->receiving == NULL && !list_empty(&to->waiting))
        receive(to, container_of(list_pop_front(&to->waiting), struct packet, place));
}

static void receive(end *to, packet *packet) {
    network *network = network_of(to);
    if (packet->body_size == 0) {
        hand_over(to, packet);
        return;
    }
    to->place = ask_for_place(to, packet);
    if (!listening(to)) { /* closed or crashed by what on_body did */
        packet_free(packet);
    } else if (to->place == NULL) {
        cause cause;
        cause_set(&cause, MR_TOO_LARGE, "a body of %zu bytes was refused", packet->body_size);
        post_close(to, MR_TOO_LARGE, true);
        close_end(to, &cause);
        packet_free(packet);
    } else if (rng_chance(&network->rng, network->conditions.pause_body)) {
        to->receiving = packet;
        packet->event.run = body_arrived;
        sim_schedule(network->sim, &packet->event,
                     sim_now_us(network->sim) + rng_between(&network->rng, 0, BODY_MAX_US));
    } else {
        hand_over(to, packet);
    }
}

/* A packet for an end that is not there (any more). A machine that runs answers so that the sender learns it. */
static void bounce(end *to, const packet *packet) {
    if (packet->kind == PACKET_CLOSE) return;
    bool died = packet->kind == PACKET_OPEN || to->ended_us != CLOCK_NEVER_US;
    post_close(to, died ? MR_PEER_DIED : MR_IO, false);
}

static void message_arrives(end *to, packet *packet) {
    if (to->state == END_OPENING) open_end(to);
    if (to->state == END_CLOSING || to->state == END_GONE)
        packet_free(packet);
    else if (to->receiving != NULL)
        list_push_back(&to->waiting, &packet->place);
    else
        receive(to, packet);
}

static void open_arrives(end *to, packet *packet) {
    void *context;
    if (!sim_node_up(to->port->node) || sim_node_events(to->port->node, &context) == NULL) {
        bounce(to, packet);
        return;
    }
    end_init(to, END_OPENING);
    open_end(to);
    if (to->state == END_OPEN) post(packet_create(to, PACKET_OPENED, 0), 0, true);
}

static void count_arrival(end *from) {
    from->on_way--;
    if (from->wants_room && from->on_way <= network_of(from)->conditions.window / 2) chore_add(from, CHORE_ROOM, 0);
}

static void lose(packet *packet) {
    network *network = network_of(packet->from);
    network->lost++;
    record(packet->from, JOURNAL_LOST, packet->size);
    tell(packet->from, "loses what it sent to", span_of(packet->head, packet->size));
    if (packet->counted) count_arrival(packet->from);
    packet_free(packet);
}

static void packet_arrives(sim_event *event) {
    packet *packet = container_of(event, struct packet, event);
    end *from = packet->from, *to = other(from);
    network *network = network_of(from);
    if (network_is_cut(network, from->port->node, to->port->node)) {
        if (rng_chance(&network->rng, network->conditions.hold))
            list_push_back(&network->stalled, &packet->place);
        else
            lose(packet);
        return;
    }
    bool never_left = !packet->machine && packet->departs_us > from->ended_us;
    if (never_left || to->port->silent) {
        lose(packet);
        return;
    }
    if (packet->counted) count_arrival(from);
    packet->counted = false;
    if (packet->kind == PACKET_OPEN && to->state == END_NONE) {
        open_arrives(to, packet);
    } else if (!listening(to)) {
        if (to->state != END_CLOSING) bounce(to, packet);
    } else if (packet->kind == PACKET_MESSAGE) {
        message_arrives(to, packet);
        return;
    } else if (packet->kind == PACKET_OPENED) {
        if (to->state == END_OPENING) open_end(to);
    } else if (packet->kind == PACKET_CLOSE) {
        close_by_packet(to, packet->status);
    }
    packet_free(packet);
}

/* ---- The transport of a node. */

/* The end, if the process may use it now. */
static end *find_end(network_port *port, link_id link) {
    if (!sim_node_up(port->node) || sim_node_dying(port->node)) return NULL;
    return map_get(&port->links, link.v);
}

static sim_node *find_node(const sim *sim, const char *name) {
    for (size_t i = 0; i < sim_node_count(sim); i++)
        if (strcmp(sim_node_name(sim_node_at(sim, i)), name) == 0) return sim_node_at(sim, i);
    return NULL;
}

static void connect_end(connection *connection, size_t index, sim_node *node) {
    end *end = &connection->ends[index];
    end->connection = connection;
    end->port = sim_node_port(node);
    end->ended_us = CLOCK_NEVER_US;
    list_init(&end->waiting);
    list_init(&end->loans);
    list_init(&end->of_port);
}

static mr_status port_open(void *self, const char *address, link_id *out) {
    network_port *port = self;
    network *network = port->network;
    void *context;
    MR_ASSERT(sim_node_events(port->node, &context) != NULL);
    sim_node *node = find_node(network->sim, address);
    if (node == NULL) return error_set(MR_INVALID, "'%s' is no node of the simulation", address);
    if (!sim_node_up(port->node) || sim_node_dying(port->node)) return error_set(MR_CLOSED, "the node is down");
    connection *connection = xcalloc(1, sizeof *connection);
    connect_end(connection, 0, port->node);
    connect_end(connection, 1, node);
    list_push_back(&network->connections, &connection->of_network);
    end *end = &connection->ends[0];
    end_init(end, END_OPENING);
    record(end, JOURNAL_OPEN, sim_node_index(node));
    post(packet_create(end, PACKET_OPEN, 0), 0, true);
    chore_add(end, CHORE_OPEN_TIMEOUT, rng_between(&network->rng, OPEN_TIMEOUT_US / 3, OPEN_TIMEOUT_US));
    *out = end->id;
    return MR_OK;
}

static void port_close(void *self, link_id link) {
    end *end = find_end(self, link);
    if (end == NULL || !listening(end)) return;
    end->state = END_CLOSING;
    post_close(end, MR_CLOSED, true);
    cause_set(&chore_add(end, CHORE_CLOSE, 0)->cause, MR_CLOSED, "closed here");
}

static mr_status port_reserve(void *self, link_id link, size_t size, uint8_t **out) {
    end *end = find_end(self, link);
    if (end == NULL || end->state != END_OPEN) return error_set(MR_CLOSED, "link %" PRIu32 " is not open", link.v);
    if (size > MESSAGE_HEAD_MAX) return error_set(MR_TOO_LARGE, "a head of %zu bytes is over the limit", size);
    network *network = network_of(end);
    bool refused = rng_chance(&network->rng, network->conditions.busy);
    if (refused) chore_add(end, CHORE_ROOM, rng_between(&network->rng, 0, BUSY_MAX_US));
    if (refused || end->on_way >= network->conditions.window) {
        end->wants_room = true;
        network->refused++;
        return error_set(MR_BUSY, "link %" PRIu32 " is full", link.v);
    }
    packet_free(end->reserved);
    end->reserved = packet_create(end, PACKET_MESSAGE, size);
    *out = end->reserved->head;
    return MR_OK;
}

static void break_connection(connection *connection) {
    network *network = network_of(&connection->ends[0]);
    network->broken++;
    for (size_t i = 0; i < 2; i++) {
        end *end = &connection->ends[i];
        if (!listening(end)) continue;
        chore *chore = chore_add(end, CHORE_CLOSE, draw_delay(network));
        cause_set(&chore->cause, MR_IO, "the link to %s was reset", sim_node_name(other(end)->port->node));
    }
}

static packet *packet_copy(const packet *packet) {
    struct packet *copy = packet_create(packet->from, PACKET_MESSAGE, packet->size);
    memcpy(copy->head, packet->head, packet->size);
    copy->body_size = packet->body_size;
    if (copy->body_size != 0) copy->body = memcpy(xmalloc(copy->body_size), packet->body, copy->body_size);
    return copy;
}

/* Decides what becomes of one message. */
static void send_packet(end *end, packet *packet) {
    network *network = network_of(end);
    const network_conditions *now = &network->conditions;
    network->sent++;
    record(end, JOURNAL_SEND, packet->size);
    tell(end, "sends to", span_of(packet->head, packet->size));
    if (rng_chance(&network->rng, now->reset)) break_connection(end->connection);
    if (rng_chance(&network->rng, now->duplicate)) {
        network->doubled++;
        post(packet_copy(packet), rng_between(&network->rng, 0, now->reorder_max_us), false);
    }
    if (rng_chance(&network->rng, now->loss)) {
        lose(packet);
        return;
    }
    packet->counted = true;
    end->on_way++;
    bool overtaken = rng_chance(&network->rng, now->reorder);
    if (overtaken) network->reordered++;
    post(packet, overtaken ? rng_between(&network->rng, 0, now->reorder_max_us) : 0, !overtaken);
}

static packet *take_reserved(end *end, size_t size) {
    packet *packet = end->reserved;
    MR_ASSERT(packet != NULL && size <= packet->size);
    end->reserved = NULL;
    packet->size = size;
    return packet;
}

/* A process that has crashed in this very callback may still commit: it goes nowhere. */
static void port_commit(void *self, link_id link, size_t size) {
    end *end = find_end(self, link);
    if (end != NULL && end->state == END_OPEN) send_packet(end, take_reserved(end, size));
}

static void loan_run(sim_event *event) {
    loan *loan = container_of(event, struct loan, event);
    sim_node *node = loan->end->port->node;
    sim_enter(node);
    loan_end(loan, MR_OK);
    sim_leave(node);
}

static void port_commit_body(void *self, link_id link, size_t size, span body, body_sent_fn *sent, void *argument) {
    end *end = find_end(self, link);
    if (end == NULL || end->state != END_OPEN) {
        sent(argument, MR_CLOSED);
        return;
    }
    network *network = network_of(end);
    packet *packet = take_reserved(end, size);
    packet->body_size = body.size;
    if (body.size != 0) packet->body = memcpy(xmalloc(body.size), body.data, body.size);
    loan *loan = xcalloc(1, sizeof *loan);
    loan->event = (sim_event){.node = end->port->node, .run = loan_run};
    loan->end = end;
    loan->body = body;
    loan->hash = XXH3_64bits(body.data, body.size);
    loan->sent = sent;
    loan->argument = argument;
    list_push_back(&end->loans, &loan->of_end);
    sim_schedule(
        network->sim, &loan->event,
        sim_node_free_at_us(end->port->node) + rng_between(&network->rng, 0, network->conditions.delay_max_us));
    send_packet(end, packet);
}

static void port_discard(void *self, link_id link) {
    end *end = find_end(self, link);
    if (end != NULL && end->receiving != NULL) end->place = BODY_DISCARD;
}

static void port_flush(void *self) {}

static const transport_ops port_ops = {
    .name = "simulated",
    .open = port_open,
    .close = port_close,
    .reserve = port_reserve,
    .commit = port_commit,
    .commit_body = port_commit_body,
    .discard = port_discard,
    .flush = port_flush,
};

/* ---- Ports. */

network_port *network_port_create(network *network, sim_node *node) {
    network_port *port = xcalloc(1, sizeof *port);
    port->network = network;
    port->node = node;
    list_init(&port->ends);
    MR_ASSERT(network->port_count == sim_node_index(node));
    network->ports[network->port_count++] = port;
    return port;
}

transport network_port_up(network_port *port) {
    port->silent = false;
    return (transport){&port_ops, port};
}

void network_port_down(network_port *port, bool silent) {
    port->silent = silent;
    while (!list_empty(&port->ends)) {
        end *end = container_of(port->ends.next, struct end, of_port);
        end->ended_us = sim_now_us(port->network->sim);
        if (!silent && listening(end)) post_close(end, MR_PEER_DIED, rng_chance(&port->network->rng, 0.5));
        give_up_later(end);
        release(end, MR_CLOSED);
    }
}

/* ---- The whole. */

network *network_create(sim *sim) {
    network *network = xcalloc(1, sizeof *network);
    network->sim = sim;
    network->rng = sim_fork_rng(sim, STREAM_NETWORK);
    network->conditions = network_calm;
    list_init(&network->connections);
    list_init(&network->stalled);
    return network;
}

void network_destroy(network *network) {
    for (list *item; (item = list_pop_front(&network->stalled)) != NULL;)
        packet_free(container_of(item, packet, place));
    for (list *item; (item = list_pop_front(&network->connections)) != NULL;)
        free(container_of(item, connection, of_network));
    for (size_t i = 0; i < network->port_count; i++) {
        map_fini(&network->ports[i]->links);
        free(network->ports[i]);
    }
    free(network);
}

void network_report(const network *network) {
    sim_count(network->sim, "messages", network->sent);
    sim_count(network->sim, "delivered", network->delivered);
    sim_count(network->sim, "lost", network->lost);
    sim_count(network->sim, "doubled", network->doubled);
    sim_count(network->sim, "reordered", network->reordered);
    sim_count(network->sim, "refused", network->refused);
    sim_count(network->sim, "links broken", network->broken);
}

void network_set(network *network, const network_conditions *conditions) { network->conditions = *conditions; }
const network_conditions *network_now(const network *network) { return &network->conditions; }

bool network_is_cut(const network *network, const sim_node *from, const sim_node *to) {
    return network->cut[sim_node_index(from)][sim_node_index(to)];
}

/* What waited arrives at once, and in order: before whatever is still on its way. */
static void release_stalled(network *network) {
    list_for_each (item, &network->stalled) {
        packet *packet = container_of(item, struct packet, place);
        if (network_is_cut(network, packet->from->port->node, other(packet->from)->port->node)) continue;
        list_remove(item);
        sim_schedule(network->sim, &packet->event, sim_now_us(network->sim));
    }
}

void network_cut(network *network, sim_node *from, sim_node *to, bool cut) {
    network->cut[sim_node_index(from)][sim_node_index(to)] = cut;
    if (!cut) release_stalled(network);
}

static bool joins(const connection *connection, const sim_node *a, const sim_node *b) {
    const sim_node *x = connection->ends[0].port->node, *y = connection->ends[1].port->node;
    return (x == a && y == b) || (x == b && y == a);
}

void network_break_links(network *network, sim_node *a, sim_node *b) {
    list_for_each (item, &network->connections) {
        connection *connection = container_of(item, struct connection, of_network);
        if (joins(connection, a, b)) break_connection(connection);
    }
}

void network_heal(network *network) {
    memset(network->cut, 0, sizeof network->cut);
    release_stalled(network);
    list_for_each (item, &network->connections) {
        connection *connection = container_of(item, struct connection, of_network);
        for (size_t i = 0; i < 2; i++) {
            end *end = &connection->ends[i];
            if (!listening(end) || other(end)->state != END_GONE) continue;
            chore *chore = chore_add(end, CHORE_CLOSE, rng_between(&network->rng, 0, HEAL_MAX_US));
            cause_set(&chore->cause, MR_PEER_DIED, "the process on %s is gone", sim_node_name(other(end)->port->node));
        }
    }
}

size_t network_link_count(const network *network) {
    size_t count = 0;
    for (size_t i = 0; i < network->port_count; i++) count += network->ports[i]->links.count;
    return count;
}
