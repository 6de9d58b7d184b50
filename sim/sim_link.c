/* sim_link.c — see sim_link.h. */
#include "sim/sim_link.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

#define BUSY_MAX_US INT64_C(5000)
#define BODY_MAX_US INT64_C(20000)
#define HEAL_MAX_US INT64_C(200000)

typedef enum chore_kind { CHORE_CLOSE, CHORE_ROOM, CHORE_OPEN_TIMEOUT, CHORE_GIVE_UP } chore_kind;

typedef struct sim_link_chore { /* a later action of an end */
    sim_event event;
    sim_link_end *end;
    chore_kind kind;
    cause cause;
} sim_link_chore;

typedef struct sim_link_loan { /* a body that the sender must not change yet */
    sim_event event;
    sim_link_end *end;
    list of_end;
    span body; /* borrowed from the sender */
    uint64_t hash;
    body_sent_fn *sent;
    void *argument;
} sim_link_loan;

sim_link_end *sim_link_other(sim_link_end *end) { return &end->pair->ends[end == &end->pair->ends[0] ? 1 : 0]; }
network *sim_link_network(const sim_link_end *end) { return end->port->network; }
bool sim_link_listening(const sim_link_end *end) {
    return end->state == SIM_LINK_OPENING || end->state == SIM_LINK_OPEN;
}

static void record(const sim_link_end *end, sim_trace_kind kind, uint64_t b) {
    sim *sim = sim_link_network(end)->sim;
    sim_trace_record(sim_get_trace(sim), sim_now_us(sim), (uint32_t)sim_node_index(end->port->node), kind, end->id.v,
                     b);
}

static void tell(sim_link_end *end, const char *what, span head) {
    sim *sim = sim_link_network(end)->sim;
    if (!sim_listens(sim)) return;
    char text[200];
    sim_describe_head(sim, head, text, sizeof text);
    sim_trace_tell(sim_get_trace(sim), sim_now_us(sim), sim_node_name(end->port->node), "%s %s: %s", what,
                   sim_node_name(sim_link_other(end)->port->node), text);
}

/* ---- Packets leave. */

static int64_t draw_delay(network *network) {
    const sim_network_conditions *now = &network->conditions;
    int64_t delay_us = rng_between(&network->rng, now->delay_min_us, now->delay_max_us);
    if (now->slow > 0 && rng_chance(&network->rng, now->slow))
        delay_us += rng_between(&network->rng, 0, now->slow_max_us);
    return delay_us;
}

static sim_link_packet *packet_create(sim_link_end *from, packet_kind kind, size_t size) {
    sim_link_packet *packet = xmalloc(sizeof *packet + size);
    memset(packet, 0, sizeof *packet);
    packet->from = from;
    packet->kind = kind;
    packet->size = size;
    return packet;
}

void sim_link_packet_free(sim_link_packet *packet) {
    if (packet == NULL) return;
    free(packet->body);
    free(packet);
}

static void packet_drop(sim_event *event) { sim_link_packet_free(container_of(event, sim_link_packet, event)); }
static void packet_arrives(sim_event *event);

static void post(sim_link_packet *packet, int64_t extra_us, bool ordered) {
    sim_link_end *from = packet->from, *to = sim_link_other(from);
    network *network = sim_link_network(from);
    packet->event = (sim_event){.node = to->port->node, .run = packet_arrives, .drop = packet_drop};
    packet->departs_us = packet->machine ? sim_now_us(network->sim) : sim_node_free_at_us(from->port->node);
    int64_t at_us = packet->departs_us + draw_delay(network) + extra_us;
    if (ordered) {
        if (at_us < from->last_us) at_us = from->last_us;
        from->last_us = at_us;
    }
    sim_schedule(network->sim, &packet->event, at_us);
}

static void post_close(sim_link_end *from, mr_status status, bool ordered) {
    sim_link_packet *packet = packet_create(from, PACKET_CLOSE, 0);
    packet->status = status;
    packet->machine = !sim_node_up(from->port->node) || from->state == SIM_LINK_GONE || from->state == SIM_LINK_NONE;
    post(packet, 0, ordered);
}

/* ---- Chores. */

static void chore_run(sim_event *event);
static void chore_drop(sim_event *event) { free(container_of(event, sim_link_chore, event)); }

static sim_link_chore *chore_add(sim_link_end *end, chore_kind kind, int64_t delay_us) {
    sim_link_chore *chore = xcalloc(1, sizeof *chore);
    chore->event = (sim_event){.node = end->port->node, .run = chore_run, .drop = chore_drop};
    chore->end = end;
    chore->kind = kind;
    sim *sim = sim_link_network(end)->sim;
    sim_schedule(sim, &chore->event, sim_now_us(sim) + delay_us);
    return chore;
}

/* Bounds the time by which an end outlives its peer, independent of the packets between them. */
static void give_up_later(sim_link_end *gone) {
    sim_link_end *left = sim_link_other(gone);
    if (left->state == SIM_LINK_NONE || left->state == SIM_LINK_GONE) return;
    sim_link_chore *chore =
        chore_add(left, CHORE_GIVE_UP, rng_between(&sim_link_network(gone)->rng, 5000000, LINK_GIVE_UP_US));
    cause_set(&chore->cause, MR_TIMEOUT, "nothing was heard of it for too long");
}

/* ---- An end ends. */

static void loan_end(sim_link_loan *loan, mr_status status) {
    sim *sim = sim_link_network(loan->end)->sim;
    sim_cancel(sim, &loan->event);
    if (XXH3_64bits(loan->body.data, loan->body.size) != loan->hash)
        sim_violation(sim, "%s changed a body before it was told that it had been sent",
                      sim_node_name(loan->end->port->node));
    list_remove(&loan->of_end);
    loan->sent(loan->argument, status);
    free(loan);
}

/* Frees the resources of the end. Borrowed bodies are returned here in every case: no other code returns their
 * memory. */
static void release(sim_link_end *end, mr_status status) {
    end->state = SIM_LINK_GONE;
    end->wants_room = false;
    sim_link_packet_free(end->reserved);
    end->reserved = NULL;
    if (end->receiving != NULL) {
        sim_cancel(sim_link_network(end)->sim, &end->receiving->event);
        sim_link_packet_free(end->receiving);
        end->receiving = NULL;
    }
    for (list *item; (item = list_pop_front(&end->waiting)) != NULL;)
        sim_link_packet_free(container_of(item, sim_link_packet, place));
    map_remove(&end->port->links, end->id.v);
    list_remove(&end->of_port);
    while (!list_empty(&end->loans)) loan_end(container_of(end->loans.next, sim_link_loan, of_end), status);
}

static void close_end(sim_link_end *end, const cause *why) {
    MR_ASSERT(end->state != SIM_LINK_NONE && end->state != SIM_LINK_GONE);
    sim_node *node = end->port->node;
    record(end, SIM_TRACE_CLOSED, (uint64_t)why->status);
    sim_trace_tell(sim_get_trace(sim_link_network(end)->sim), sim_now_us(sim_link_network(end)->sim),
                   sim_node_name(node), "link %" PRIu32 " to %s closed: %s, %s", end->id.v,
                   sim_node_name(sim_link_other(end)->port->node), mr_status_name(why->status), why->text);
    give_up_later(end);
    void *context;
    const transport_events *events = sim_node_events(node, &context);
    sim_enter(node);
    release(end, why->status);
    events->on_closed(context, end->id, why);
    sim_leave(node);
}

/* The process at the other end is dead. */
static void set_death(cause *cause, sim_link_end *end) {
    const sim_node *node = sim_link_other(end)->port->node;
    mr_status status = sim_node_doomed(node);
    cause_set(cause, status, "the process on %s is gone", sim_node_name(node));
    if (status != MR_PEER_DIED) cause->signal = SIGKILL;
}

static void close_by_packet(sim_link_end *end, mr_status status) {
    cause cause;
    const char *name = sim_node_name(sim_link_other(end)->port->node);
    switch (status) {
    case MR_PEER_DIED: set_death(&cause, end); break;
    case MR_CLOSED: cause_set(&cause, status, "%s closed the link", name); break;
    default: cause_set(&cause, status, "%s ended the link: %s", name, mr_status_text(status)); break;
    }
    close_end(end, &cause);
}

static void chore_run(sim_event *event) {
    sim_link_chore *chore = container_of(event, struct sim_link_chore, event);
    sim_link_end *end = chore->end;
    void *context;
    const transport_events *events = sim_node_events(end->port->node, &context);
    bool alive = end->state != SIM_LINK_NONE && end->state != SIM_LINK_GONE;
    switch (chore->kind) {
    case CHORE_CLOSE:
    case CHORE_GIVE_UP:
        if (alive) close_end(end, &chore->cause);
        break;
    case CHORE_OPEN_TIMEOUT:
        if (end->state != SIM_LINK_OPENING) break;
        post_close(end, MR_TIMEOUT, true);
        cause_set(&chore->cause, MR_TIMEOUT, "no answer from %s", sim_node_name(sim_link_other(end)->port->node));
        close_end(end, &chore->cause);
        break;
    case CHORE_ROOM:
        if (end->state != SIM_LINK_OPEN || !end->wants_room) break;
        end->wants_room = false;
        if (events->on_room == NULL) break;
        record(end, SIM_TRACE_ROOM, 0);
        sim_enter(end->port->node);
        events->on_room(context, end->id);
        sim_leave(end->port->node);
        break;
    }
    free(chore);
}

/* ---- Packets arrive. */

static void end_init(sim_link_end *end, sim_link_state state) {
    end->state = state;
    end->process = sim_node_process(end->port->node);
    end->id.v = ++end->port->next_id;
    map_put(&end->port->links, end->id.v, end);
    list_push_back(&end->port->ends, &end->of_port);
}

static void open_end(sim_link_end *end) {
    end->state = SIM_LINK_OPEN;
    sim_node *node = end->port->node, *peer_node = sim_link_other(end)->port->node;
    peer peer = {.process = ((uint64_t)sim_node_index(peer_node) + 1) << 32 | sim_link_other(end)->process};
    snprintf(peer.name, sizeof peer.name, "%s", sim_node_name(peer_node));
    record(end, SIM_TRACE_OPENED, peer.process);
    void *context;
    const transport_events *events = sim_node_events(node, &context);
    sim_enter(node);
    events->on_open(context, end->id, &peer);
    sim_leave(node);
}

static void hand_over(sim_link_end *to, sim_link_packet *packet) {
    network *network = sim_link_network(to);
    sim_node *node = to->port->node;
    span head = span_of(packet->head, packet->size), body = {0};
    record(to, SIM_TRACE_RECEIVE, packet->size);
    sim_trace_bytes(sim_get_trace(network->sim), head);
    if (packet->body_size != 0) {
        sim_trace_bytes(sim_get_trace(network->sim), span_of(packet->body, packet->body_size));
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
    sim_link_packet_free(packet);
}

static void *ask_for_place(sim_link_end *to, const sim_link_packet *packet) {
    void *context, *place = NULL;
    const transport_events *events = sim_node_events(to->port->node, &context);
    record(to, SIM_TRACE_BODY, packet->body_size);
    sim_enter(to->port->node);
    if (events->on_body != NULL)
        place = events->on_body(context, to->id, span_of(packet->head, packet->size), packet->body_size);
    sim_leave(to->port->node);
    return place;
}

static void receive(sim_link_end *to, sim_link_packet *packet);

static void body_arrived(sim_event *event) {
    sim_link_packet *packet = container_of(event, struct sim_link_packet, event);
    sim_link_end *to = sim_link_other(packet->from);
    to->receiving = NULL;
    if (to->state != SIM_LINK_OPEN) { /* the process closes the link */
        sim_link_packet_free(packet);
        return;
    }
    hand_over(to, packet);
    while (sim_link_listening(to) && to->receiving == NULL && !list_empty(&to->waiting))
        receive(to, container_of(list_pop_front(&to->waiting), struct sim_link_packet, place));
}

static void receive(sim_link_end *to, sim_link_packet *packet) {
    network *network = sim_link_network(to);
    if (packet->body_size == 0) {
        hand_over(to, packet);
        return;
    }
    to->place = ask_for_place(to, packet);
    if (!sim_link_listening(to)) { /* closed or crashed inside on_body */
        sim_link_packet_free(packet);
    } else if (to->place == NULL) {
        cause cause;
        cause_set(&cause, MR_TOO_LARGE, "a body of %zu bytes was refused", packet->body_size);
        post_close(to, MR_TOO_LARGE, true);
        close_end(to, &cause);
        sim_link_packet_free(packet);
    } else if (rng_chance(&network->rng, network->conditions.pause_body)) {
        to->receiving = packet;
        packet->event.run = body_arrived;
        sim_schedule(network->sim, &packet->event,
                     sim_now_us(network->sim) + rng_between(&network->rng, 0, BODY_MAX_US));
    } else {
        hand_over(to, packet);
    }
}

/* Answers a packet for an end that does not exist (any more): a running machine closes the sender's end. */
static void bounce(sim_link_end *to, const sim_link_packet *packet) {
    if (packet->kind == PACKET_CLOSE) return;
    bool died = packet->kind == PACKET_OPEN || to->ended_us != CLOCK_NEVER_US;
    post_close(to, died ? MR_PEER_DIED : MR_IO, false);
}

static void message_arrives(sim_link_end *to, sim_link_packet *packet) {
    if (to->state == SIM_LINK_OPENING) open_end(to);
    if (to->state == SIM_LINK_CLOSING || to->state == SIM_LINK_GONE)
        sim_link_packet_free(packet);
    else if (to->receiving != NULL)
        list_push_back(&to->waiting, &packet->place);
    else
        receive(to, packet);
}

static void open_arrives(sim_link_end *to, sim_link_packet *packet) {
    void *context;
    if (!sim_node_up(to->port->node) || sim_node_events(to->port->node, &context) == NULL) {
        bounce(to, packet);
        return;
    }
    end_init(to, SIM_LINK_OPENING);
    open_end(to);
    if (to->state == SIM_LINK_OPEN) post(packet_create(to, PACKET_OPENED, 0), 0, true);
}

static void count_arrival(sim_link_end *from) {
    from->on_way--;
    if (from->wants_room && from->on_way <= sim_link_network(from)->conditions.window / 2)
        chore_add(from, CHORE_ROOM, 0);
}

static void lose(sim_link_packet *packet) {
    network *network = sim_link_network(packet->from);
    network->lost++;
    record(packet->from, SIM_TRACE_LOST, packet->size);
    tell(packet->from, "loses what it sent to", span_of(packet->head, packet->size));
    if (packet->counted) count_arrival(packet->from);
    sim_link_packet_free(packet);
}

static void packet_arrives(sim_event *event) {
    sim_link_packet *packet = container_of(event, struct sim_link_packet, event);
    sim_link_end *from = packet->from, *to = sim_link_other(from);
    network *network = sim_link_network(from);
    if (sim_network_is_cut(network, from->port->node, to->port->node)) {
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
    if (packet->kind == PACKET_OPEN && to->state == SIM_LINK_NONE) {
        open_arrives(to, packet);
    } else if (!sim_link_listening(to)) {
        if (to->state != SIM_LINK_CLOSING) bounce(to, packet);
    } else if (packet->kind == PACKET_MESSAGE) {
        message_arrives(to, packet);
        return;
    } else if (packet->kind == PACKET_OPENED) {
        if (to->state == SIM_LINK_OPENING) open_end(to);
    } else if (packet->kind == PACKET_CLOSE) {
        close_by_packet(to, packet->status);
    }
    sim_link_packet_free(packet);
}

/* ---- Operations of a process on its end. */

static void connect_end(sim_link_pair *pair, size_t index, sim_node *node) {
    sim_link_end *end = &pair->ends[index];
    end->pair = pair;
    end->port = sim_node_port(node);
    end->ended_us = CLOCK_NEVER_US;
    list_init(&end->waiting);
    list_init(&end->loans);
    list_init(&end->of_port);
}

sim_link_end *sim_link_open(network_port *port, sim_node *to) {
    network *network = port->network;
    sim_link_pair *pair = xcalloc(1, sizeof *pair);
    connect_end(pair, 0, port->node);
    connect_end(pair, 1, to);
    list_push_back(&network->pairs, &pair->of_network);
    sim_link_end *end = &pair->ends[0];
    end_init(end, SIM_LINK_OPENING);
    record(end, SIM_TRACE_OPEN, sim_node_index(to));
    post(packet_create(end, PACKET_OPEN, 0), 0, true);
    chore_add(end, CHORE_OPEN_TIMEOUT, rng_between(&network->rng, LINK_OPEN_US / 3, LINK_OPEN_US));
    return end;
}

void sim_link_close(sim_link_end *end) {
    if (!sim_link_listening(end)) return;
    end->state = SIM_LINK_CLOSING;
    post_close(end, MR_CLOSED, true);
    cause_set(&chore_add(end, CHORE_CLOSE, 0)->cause, MR_CLOSED, "closed here");
}

mr_status sim_link_reserve(sim_link_end *end, size_t size, uint8_t **out) {
    network *network = sim_link_network(end);
    bool refused = rng_chance(&network->rng, network->conditions.busy);
    if (refused) chore_add(end, CHORE_ROOM, rng_between(&network->rng, 0, BUSY_MAX_US));
    if (refused || end->on_way >= network->conditions.window) {
        end->wants_room = true;
        network->refused++;
        return error_set(MR_BUSY, "link %" PRIu32 " is full", end->id.v);
    }
    sim_link_packet_free(end->reserved);
    end->reserved = packet_create(end, PACKET_MESSAGE, size);
    *out = end->reserved->head;
    return MR_OK;
}

static sim_link_packet *packet_copy(const sim_link_packet *packet) {
    struct sim_link_packet *copy = packet_create(packet->from, PACKET_MESSAGE, packet->size);
    memcpy(copy->head, packet->head, packet->size);
    copy->body_size = packet->body_size;
    if (copy->body_size != 0) copy->body = memcpy(xmalloc(copy->body_size), packet->body, copy->body_size);
    return copy;
}

/* Decides the fate of one message. */
static void send_packet(sim_link_end *end, sim_link_packet *packet) {
    network *network = sim_link_network(end);
    const sim_network_conditions *now = &network->conditions;
    network->sent++;
    record(end, SIM_TRACE_SEND, packet->size);
    tell(end, "sends to", span_of(packet->head, packet->size));
    if (rng_chance(&network->rng, now->reset)) sim_link_break(end->pair);
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

static sim_link_packet *take_reserved(sim_link_end *end, size_t size) {
    sim_link_packet *packet = end->reserved;
    MR_ASSERT(packet != NULL && size <= packet->size);
    end->reserved = NULL;
    packet->size = size;
    return packet;
}

void sim_link_commit(sim_link_end *end, size_t size) { send_packet(end, take_reserved(end, size)); }

static void loan_run(sim_event *event) {
    sim_link_loan *loan = container_of(event, struct sim_link_loan, event);
    sim_node *node = loan->end->port->node;
    sim_enter(node);
    loan_end(loan, MR_OK);
    sim_leave(node);
}

void sim_link_commit_body(sim_link_end *end, size_t size, span body, body_sent_fn *sent, void *argument) {
    network *network = sim_link_network(end);
    sim_link_packet *packet = take_reserved(end, size);
    packet->body_size = body.size;
    if (body.size != 0) packet->body = memcpy(xmalloc(body.size), body.data, body.size);
    sim_link_loan *loan = xcalloc(1, sizeof *loan);
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

void sim_link_discard(sim_link_end *end) {
    if (end->receiving != NULL) end->place = BODY_DISCARD;
}

/* ---- Events from outside: crash, reset, heal. */

void sim_link_orphan(sim_link_end *end, bool silent) {
    network *network = sim_link_network(end);
    end->ended_us = sim_now_us(network->sim);
    if (!silent && sim_link_listening(end)) post_close(end, MR_PEER_DIED, rng_chance(&network->rng, 0.5));
    give_up_later(end);
    release(end, MR_CLOSED);
}

void sim_link_break(sim_link_pair *pair) {
    network *network = sim_link_network(&pair->ends[0]);
    network->broken++;
    for (size_t i = 0; i < 2; i++) {
        sim_link_end *end = &pair->ends[i];
        if (!sim_link_listening(end)) continue;
        sim_link_chore *chore = chore_add(end, CHORE_CLOSE, draw_delay(network));
        cause_set(&chore->cause, MR_IO, "the link to %s was reset", sim_node_name(sim_link_other(end)->port->node));
    }
}

void sim_link_heal(sim_link_pair *pair) {
    for (size_t i = 0; i < 2; i++) {
        sim_link_end *end = &pair->ends[i];
        if (!sim_link_listening(end) || sim_link_other(end)->state != SIM_LINK_GONE) continue;
        sim_link_chore *chore = chore_add(end, CHORE_CLOSE, rng_between(&sim_link_network(end)->rng, 0, HEAL_MAX_US));
        set_death(&chore->cause, end);
    }
}
