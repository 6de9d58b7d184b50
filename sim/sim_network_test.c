/* sim_network_test.c — the simulated transport: its contract without faults, its faults at the requested rates, and the
 * contract again, link by link, under all faults at once. */
#include "sim/sim_network.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/map.h"
#include "sim/faults.h"

enum { NUMBERS_MAX = 20000, BODY_SIZE = 1000 };

/* Events that one node has seen. The record outlives the node's processes. */
typedef struct seen {
    sim_node *node;
    link_id link; /* the link opened last, by either side */
    uint32_t opened, closed, rooms, bodies, sent_ok, sent_failed;
    cause why;
    uint32_t numbers[NUMBERS_MAX], count;
    bool refuses_bodies, discards_bodies;
    size_t thrown_away; /* bytes */
    uint8_t place[BODY_SIZE];
} seen;

static void on_open(void *context, link_id link, const peer *peer) {
    seen *seen = context;
    seen->link = link;
    seen->opened++;
}

static void on_message(void *context, link_id link, const message *message) {
    seen *seen = context;
    reader reader = reader_of(message->head.data, message->head.size);
    uint32_t number = reader_u32(&reader);
    assert_false(reader.failed);
    assert_true(seen->count < NUMBERS_MAX);
    seen->numbers[seen->count++] = number;
    if (message->body.size != 0 && message->body.data == NULL) {
        seen->thrown_away += message->body.size;
        return;
    }
    for (size_t i = 0; i < message->body.size; i++) assert_int_equal(message->body.data[i], (uint8_t)(number + i));
}

static void *on_body(void *context, link_id link, span head, uint64_t size) {
    seen *seen = context;
    seen->bodies++;
    if (seen->discards_bodies) return BODY_DISCARD;
    return seen->refuses_bodies || size > sizeof seen->place ? NULL : seen->place;
}

static void on_room(void *context, link_id link) { ((seen *)context)->rooms++; }

static void on_closed(void *context, link_id link, const cause *why) {
    seen *seen = context;
    seen->closed++;
    seen->why = *why;
}

static const transport_events events = {on_open, on_message, on_body, on_room, on_closed};

static void *start(sim_node *node, const env *env, void *argument) {
    sim_node_serve(node, &events, argument);
    return argument;
}
static void stop(void *state) {}
static const sim_program program = {.name = "sink", .start = start, .stop = stop};

typedef struct pair { /* two nodes and a link from a to b */
    scenario_options options;
    sim *sim;
    seen a, b;
} pair;

static pair *pair_open(uint64_t seed) {
    pair *pair = xcalloc(1, sizeof *pair);
    pair->options = scenario_options_of(seed, NULL);
    pair->sim = sim_create(&pair->options);
    pair->a.node = sim_node_add(pair->sim, "a", &program, &pair->a);
    pair->b.node = sim_node_add(pair->sim, "b", &program, &pair->b);
    sim_node_start(pair->a.node);
    sim_node_start(pair->b.node);
    transport transport = sim_node_env(pair->a.node)->transport;
    assert_int_equal(transport.ops->open(transport.self, "b", &pair->a.link), MR_OK);
    assert_true(sim_run(pair->sim, 10000));
    assert_int_equal(pair->a.opened, 1);
    assert_int_equal(pair->b.opened, 1);
    return pair;
}

static scenario_result pair_close(pair *pair) {
    scenario_result result;
    sim_finish(pair->sim, &result);
    free(pair);
    return result;
}

static uint64_t counter(const scenario_result *result, const char *name) {
    for (size_t i = 0; i < result->counter_count; i++)
        if (strcmp(result->counters[i].name, name) == 0) return result->counters[i].value;
    return 0;
}

static mr_status send_number(seen *seen, uint32_t number) {
    uint8_t head[4];
    writer writer = writer_of(head, sizeof head);
    writer_u32(&writer, number);
    return transport_send(sim_node_env(seen->node)->transport, seen->link, span_of(head, sizeof head));
}

static void count_sent(void *argument, mr_status status) {
    seen *seen = argument;
    if (status == MR_OK)
        seen->sent_ok++;
    else
        seen->sent_failed++;
}

static mr_status send_body(seen *seen, uint32_t number, const uint8_t *body, size_t size) {
    transport transport = sim_node_env(seen->node)->transport;
    uint8_t *head;
    MR_TRY(transport.ops->reserve(transport.self, seen->link, 4, &head));
    writer writer = writer_of(head, 4);
    writer_u32(&writer, number);
    transport.ops->commit_body(transport.self, seen->link, 4, span_of(body, size), count_sent, seen);
    return MR_OK;
}

static void later(pair *pair, int64_t us) { assert_true(sim_run(pair->sim, sim_now_us(pair->sim) + us)); }

/* Sends `count` numbers, a few at a time, so that no window fills. */
static void send_many(pair *pair, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(send_number(&pair->a, i), MR_OK);
        later(pair, 1000);
    }
    later(pair, 2000000);
}

static void calm_links_keep_order_and_lose_nothing(void **state) {
    pair *pair = pair_open(1);
    uint8_t body[BODY_SIZE];
    for (uint32_t i = 0; i < 900; i++) {
        if (i % 7 == 0) {
            for (size_t j = 0; j < sizeof body; j++) body[j] = (uint8_t)(i + j);
            assert_int_equal(send_body(&pair->a, i, body, 1 + i % BODY_SIZE), MR_OK);
            later(pair, 1000);
        } else {
            assert_int_equal(send_number(&pair->a, i), MR_OK);
        }
    }
    later(pair, 100000);
    assert_int_equal(pair->b.count, 900);
    for (uint32_t i = 0; i < 900; i++) assert_int_equal(pair->b.numbers[i], i);
    assert_int_equal(pair->a.sent_ok, 129);
    assert_int_equal(pair->b.bodies, 129);
    assert_int_equal(pair->b.closed, 0);
    assert_string_equal(pair_close(pair).violation, "");
}

static void pieces_arrive_as_one_body(void **state) {
    pair *pair = pair_open(2);
    transport transport = sim_node_env(pair->a.node)->transport;
    const uint32_t number = 5;
    uint8_t body[BODY_SIZE], *head;
    for (size_t i = 0; i < sizeof body; i++) body[i] = (uint8_t)(number + i);
    const span pieces[] = {span_of(body, 400), span_of(body, 0), span_of(body + 400, 1), span_of(body + 401, 599)};
    assert_int_equal(transport.ops->reserve(transport.self, pair->a.link, 4, &head), MR_OK);
    alloc_fail_at(1);
    transport.ops->commit_pieces(transport.self, pair->a.link, 4, pieces, 4, count_sent, &pair->a);
    alloc_fail_at(0);
    later(pair, 10000);
    assert_true(pair->a.sent_failed == 1 && pair->a.sent_ok == 0 && pair->b.count == 0);
    for (uint32_t count = 1; count <= 4; count++) {
        assert_int_equal(transport.ops->reserve(transport.self, pair->a.link, 4, &head), MR_OK);
        memcpy(head, &number, sizeof number);
        transport.ops->commit_pieces(transport.self, pair->a.link, 4, pieces, count, count_sent, &pair->a);
        later(pair, 10000);
        assert_true(pair->a.sent_ok == count && pair->b.count == count && pair->b.bodies == count);
    }
    assert_memory_equal(pair->b.place, body, sizeof body);
    assert_string_equal(pair_close(pair).violation, "");
}

static void both_sides_can_send(void **state) {
    pair *pair = pair_open(2);
    assert_int_equal(send_number(&pair->b, 77), MR_OK);
    later(pair, 10000);
    assert_int_equal(pair->a.count, 1);
    assert_int_equal(pair->a.numbers[0], 77);
    pair_close(pair);
}

static void faults_come_at_the_rates_asked_for(void **state) {
    enum { COUNT = 8000 };
    pair *pair = pair_open(3);
    sim_network_conditions now = sim_network_calm;
    now.loss = 0.1;
    now.duplicate = 0.05;
    now.reorder = 0.2;
    now.reorder_max_us = 20000;
    sim_network_set(sim_get_network(pair->sim), &now);
    send_many(pair, COUNT);
    uint32_t *times = xcalloc(COUNT, sizeof *times), inversions = 0, lost = 0, doubled = 0;
    for (uint32_t i = 0; i < pair->b.count; i++) {
        times[pair->b.numbers[i]]++;
        if (i > 0 && pair->b.numbers[i] < pair->b.numbers[i - 1]) inversions++;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        lost += times[i] == 0;
        doubled += times[i] == 2;
    }
    free(times);
    scenario_result result = pair_close(pair);
    /* The bounds are about ten standard deviations wide: they hold for a fixed seed, and a wrong rate exceeds them. */
    assert_in_range(counter(&result, "lost"), 800 - 250, 800 + 250);
    assert_in_range(counter(&result, "doubled"), 400 - 190, 400 + 190);
    assert_in_range(lost, 760 - 250, 760 + 250);
    assert_in_range(doubled, 360 - 190, 360 + 190);
    assert_in_range(counter(&result, "reordered"), 1440 - 350, 1440 + 350);
    assert_true(inversions > 500);
}

static void a_cut_goes_one_way_and_heals(void **state) {
    pair *pair = pair_open(4);
    network *network = sim_get_network(pair->sim);
    sim_network_cut(network, pair->a.node, pair->b.node, true);
    assert_int_equal(send_number(&pair->a, 1), MR_OK);
    assert_int_equal(send_number(&pair->b, 2), MR_OK);
    later(pair, 1000000);
    assert_int_equal(pair->b.count, 0);
    assert_int_equal(pair->a.count, 1);
    sim_network_cut(network, pair->a.node, pair->b.node, false);
    assert_int_equal(send_number(&pair->a, 3), MR_OK);
    later(pair, 10000);
    assert_int_equal(pair->b.count, 1);
    assert_int_equal(pair->b.numbers[0], 3);
    pair_close(pair);
}

static void a_cut_may_hold_messages_back(void **state) {
    pair *pair = pair_open(5);
    sim_network_conditions now = sim_network_calm;
    now.hold = 1;
    sim_network_set(sim_get_network(pair->sim), &now);
    sim_network_cut(sim_get_network(pair->sim), pair->a.node, pair->b.node, true);
    for (uint32_t i = 0; i < 20; i++) assert_int_equal(send_number(&pair->a, i), MR_OK);
    later(pair, 5000000);
    assert_int_equal(pair->b.count, 0);
    sim_network_heal(sim_get_network(pair->sim));
    later(pair, 10000);
    assert_int_equal(pair->b.count, 20);
    for (uint32_t i = 0; i < 20; i++) assert_int_equal(pair->b.numbers[i], i);
    pair_close(pair);
}

static void a_crash_is_told_to_the_other_side(void **state) {
    pair *pair = pair_open(6);
    sim_node_crash(pair->b.node, false);
    later(pair, 10000);
    assert_int_equal(pair->a.closed, 1);
    assert_int_equal(pair->a.why.status, MR_PEER_DIED);
    assert_int_equal(pair->b.closed, 0);
    assert_int_equal(send_number(&pair->a, 1), MR_CLOSED);
    pair_close(pair);
}

static void a_silent_crash_is_noticed_late(void **state) {
    pair *pair = pair_open(7);
    sim_node_crash(pair->b.node, true);
    assert_int_equal(send_number(&pair->a, 1), MR_OK);
    later(pair, 4000000);
    assert_int_equal(pair->a.closed, 0);
    sim_node_start(pair->b.node); /* the machine runs again, without the link */
    assert_int_equal(send_number(&pair->a, 1), MR_OK);
    later(pair, 10000);
    assert_int_equal(pair->a.closed, 1);
    assert_int_equal(pair->a.why.status, MR_PEER_DIED);
    pair_close(pair);
}

static void no_link_outlives_its_other_end_for_ever(void **state) {
    pair *pair = pair_open(8);
    sim_network_cut(sim_get_network(pair->sim), pair->b.node, pair->a.node, true);
    sim_node_crash(pair->b.node, false);
    later(pair, 4000000);
    assert_int_equal(pair->a.closed, 0);
    later(pair, LINK_GIVE_UP_US);
    assert_int_equal(pair->a.closed, 1);
    assert_int_equal(pair->a.why.status, MR_TIMEOUT);
    assert_int_equal(sim_network_link_count(sim_get_network(pair->sim)), 0);
    pair_close(pair);
}

static void closing_lets_what_was_sent_arrive(void **state) {
    pair *pair = pair_open(9);
    transport transport = sim_node_env(pair->a.node)->transport;
    for (uint32_t i = 0; i < 10; i++) assert_int_equal(send_number(&pair->a, i), MR_OK);
    transport.ops->close(transport.self, pair->a.link);
    assert_int_equal(pair->a.closed, 0); /* no event inside close */
    assert_int_equal(send_number(&pair->a, 99), MR_CLOSED);
    later(pair, 10000);
    assert_int_equal(pair->b.count, 10);
    assert_int_equal(pair->a.closed, 1);
    assert_int_equal(pair->a.why.status, MR_CLOSED);
    assert_int_equal(pair->b.closed, 1);
    assert_int_equal(pair->b.why.status, MR_CLOSED);
    pair_close(pair);
}

static void a_full_window_means_busy_and_then_room(void **state) {
    pair *pair = pair_open(10);
    sim_network_conditions now = sim_network_calm;
    now.window = 4;
    sim_network_set(sim_get_network(pair->sim), &now);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(send_number(&pair->a, i), MR_OK);
    assert_int_equal(send_number(&pair->a, 4), MR_BUSY);
    assert_int_equal(pair->a.rooms, 0);
    later(pair, 10000);
    assert_int_equal(pair->a.rooms, 1);
    assert_int_equal(send_number(&pair->a, 4), MR_OK);
    pair_close(pair);
}

static void a_refused_body_closes_the_link(void **state) {
    pair *pair = pair_open(11);
    pair->b.refuses_bodies = true;
    uint8_t body[10] = {0};
    assert_int_equal(send_body(&pair->a, 0, body, sizeof body), MR_OK);
    later(pair, 10000);
    assert_int_equal(pair->b.closed, 1);
    assert_int_equal(pair->b.why.status, MR_TOO_LARGE);
    assert_int_equal(pair->a.closed, 1);
    assert_int_equal(pair->a.why.status, MR_TOO_LARGE);
    assert_int_equal(pair->b.count, 0);
    pair_close(pair);
}

static void an_unwanted_body_does_not_cost_the_link(void **state) {
    pair *pair = pair_open(14);
    sim_network_conditions now = sim_network_calm;
    now.pause_body = 1;
    sim_network_set(sim_get_network(pair->sim), &now);
    transport transport = sim_node_env(pair->b.node)->transport;
    uint8_t body[BODY_SIZE] = {0, 1, 2, 3};
    transport.ops->discard(transport.self, pair->b.link); /* no body is arriving: no-op */
    pair->b.discards_bodies = true;
    assert_int_equal(send_body(&pair->a, 0, body, 4), MR_OK);
    later(pair, 100000);
    assert_int_equal(pair->b.thrown_away, 4);

    pair->b.discards_bodies = false; /* the body is requested at first, then discarded */
    memset(pair->b.place, 0x77, sizeof pair->b.place);
    assert_int_equal(send_body(&pair->a, 0, body, sizeof body), MR_OK);
    while (pair->b.bodies < 2) later(pair, 10);
    assert_int_equal(pair->b.count, 1);
    transport.ops->discard(transport.self, pair->b.link);
    later(pair, 100000);
    assert_int_equal(pair->b.count, 2);
    assert_int_equal(pair->b.thrown_away, 4 + sizeof body);
    for (size_t i = 0; i < sizeof pair->b.place; i++) assert_int_equal(pair->b.place[i], 0x77);
    assert_int_equal(send_number(&pair->a, 5), MR_OK);
    later(pair, 10000);
    assert_int_equal(pair->b.numbers[2], 5);
    assert_int_equal(pair->b.closed, 0);
    pair_close(pair);
}

static void a_body_that_changes_too_early_is_noticed(void **state) {
    pair *pair = pair_open(12);
    uint8_t body[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    assert_int_equal(send_body(&pair->a, 0, body, sizeof body), MR_OK);
    body[3] = 99;
    assert_false(sim_run(pair->sim, 100000));
    assert_non_null(strstr(pair_close(pair).violation, "changed a body"));
}

static void opening_ends_either_way(void **state) {
    pair *pair = pair_open(13);
    transport transport = sim_node_env(pair->a.node)->transport;
    link_id link;
    assert_int_equal(transport.ops->open(transport.self, "nowhere", &link), MR_INVALID);
    sim_node_crash(pair->b.node, false);
    later(pair, 10000);
    assert_int_equal(pair->a.closed, 1);
    assert_int_equal(transport.ops->open(transport.self, "b", &link), MR_OK);
    later(pair, 10000);
    assert_int_equal(pair->a.closed, 2); /* refused */
    assert_int_equal(pair->a.why.status, MR_PEER_DIED);
    sim_node_start(pair->b.node);
    sim_network_cut(sim_get_network(pair->sim), pair->a.node, pair->b.node, true);
    assert_int_equal(transport.ops->open(transport.self, "b", &link), MR_OK);
    later(pair, 5000000);
    assert_int_equal(pair->a.closed, 3);
    assert_int_equal(pair->a.why.status, MR_TIMEOUT);
    pair_close(pair);
}

/* ---- The contract under all faults at once: nodes open, send, close and crash at random. */

enum { CHAOS_NODES = 4 };

typedef struct chaos {
    sim *sim;
    sim_node *nodes[CHAOS_NODES];
    uint64_t opened, closed, messages;
} chaos;

typedef enum link_phase { PHASE_OPENING = 1, PHASE_OPEN, PHASE_CLOSED } link_phase;

typedef struct wild { /* one process */
    chaos *chaos;
    const env *env;
    map phases; /* link → phase + 1, kept for ever: ids are unique */
    uint32_t last;
    int64_t next_us;
    uint8_t place[64];
    link_id receiving; /* on_body was called and neither on_message nor on_closed yet */
} wild;

static link_phase phase_of(wild *wild, link_id link) { return (link_phase)(uintptr_t)map_get(&wild->phases, link.v); }
static void set_phase(wild *wild, link_id link, link_phase phase) {
    map_put(&wild->phases, link.v, (void *)(uintptr_t)phase);
}

static void wild_open(void *context, link_id link, const peer *peer) {
    wild *wild = context;
    link_phase phase = phase_of(wild, link);
    if (phase != 0 && phase != PHASE_OPENING) sim_violation(wild->chaos->sim, "on_open in phase %d", phase);
    if (link.v > wild->last) wild->last = link.v;
    set_phase(wild, link, PHASE_OPEN);
    wild->chaos->opened++;
}

static void wild_message(void *context, link_id link, const message *message) {
    wild *wild = context;
    if (phase_of(wild, link) != PHASE_OPEN) sim_violation(wild->chaos->sim, "a message on a link that is not open");
    bool discarded = wild->receiving.v != link.v;
    if (message->body.size != 0 && message->body.data != (discarded ? NULL : wild->place))
        sim_violation(wild->chaos->sim, "a body lies elsewhere");
    if (wild->receiving.v == link.v) {
        if (message->body.size == 0) sim_violation(wild->chaos->sim, "a message in the middle of a body");
        wild->receiving.v = 0;
    }
    wild->chaos->messages++;
}

static void *wild_body(void *context, link_id link, span head, uint64_t size) {
    wild *wild = context;
    if (phase_of(wild, link) != PHASE_OPEN) sim_violation(wild->chaos->sim, "a body on a link that is not open");
    if (rng_chance(wild->env->rng, 0.02)) return NULL;
    if (wild->receiving.v != 0 || size > sizeof wild->place || rng_chance(wild->env->rng, 0.1)) return BODY_DISCARD;
    wild->receiving = link;
    return wild->place;
}

static void wild_room(void *context, link_id link) {
    wild *wild = context;
    if (phase_of(wild, link) != PHASE_OPEN) sim_violation(wild->chaos->sim, "room on a link that is not open");
}

static void wild_closed(void *context, link_id link, const cause *why) {
    wild *wild = context;
    link_phase phase = phase_of(wild, link);
    if (phase != PHASE_OPENING && phase != PHASE_OPEN) sim_violation(wild->chaos->sim, "on_closed in phase %d", phase);
    if (why->status == MR_OK || why->text[0] == '\0') sim_violation(wild->chaos->sim, "closed without a cause");
    if (wild->receiving.v == link.v) wild->receiving.v = 0;
    set_phase(wild, link, PHASE_CLOSED);
    wild->chaos->closed++;
}

static const transport_events wild_events = {wild_open, wild_message, wild_body, wild_room, wild_closed};

static void *wild_start(sim_node *node, const env *env, void *argument) {
    wild *wild = xcalloc(1, sizeof *wild);
    wild->chaos = argument;
    wild->env = env;
    sim_node_serve(node, &wild_events, wild);
    return wild;
}

static void wild_stop(void *state) {
    wild *wild = state;
    map_fini(&wild->phases);
    free(wild);
}

static int64_t wild_next_us(void *state) { return ((wild *)state)->next_us; }
static void free_body(void *argument, mr_status status) { free(argument); }

static void wild_send(wild *wild, link_id link) {
    transport transport = wild->env->transport;
    uint8_t *head;
    size_t size = (size_t)rng_below(wild->env->rng, 200);
    mr_status status = transport.ops->reserve(transport.self, link, size + 10, &head);
    bool open = phase_of(wild, link) == PHASE_OPEN;
    if (status == MR_OK && !open) sim_violation(wild->chaos->sim, "sending works on a link that is not open");
    if (status != MR_OK) return;
    memset(head, 1, size);
    if (rng_chance(wild->env->rng, 0.1)) return; /* discarded */
    if (rng_chance(wild->env->rng, 0.7)) {
        transport.ops->commit(transport.self, link, size);
        return;
    }
    uint8_t *body = xcalloc(1, 64);
    transport.ops->commit_body(transport.self, link, size, span_of(body, 1 + rng_below(wild->env->rng, 64)), free_body,
                               body);
}

static void wild_tick(void *state, int64_t now_us) {
    wild *wild = state;
    rng *rng = wild->env->rng;
    transport transport = wild->env->transport;
    wild->next_us = now_us + rng_between(rng, 0, 20000);
    link_id link = {.v = (uint32_t)rng_below(rng, wild->last + 1)};
    if (rng_chance(rng, 0.1)) {
        const char *peer = sim_node_name(wild->chaos->nodes[rng_below(rng, CHAOS_NODES)]);
        if (transport.ops->open(transport.self, peer, &link) != MR_OK) return;
        if (phase_of(wild, link) != 0) sim_violation(wild->chaos->sim, "a link's id comes twice");
        set_phase(wild, link, PHASE_OPENING);
        wild->last = link.v;
    } else if (rng_chance(rng, 0.03)) {
        transport.ops->close(transport.self, link);
    } else if (rng_chance(rng, 0.05) && wild->receiving.v != 0) {
        transport.ops->discard(transport.self, wild->receiving);
        wild->receiving.v = 0;
    } else {
        for (uint64_t i = rng_below(rng, 6); i > 0; i--) wild_send(wild, link);
    }
}

static const sim_program wild_program = {"wild", wild_start, wild_stop, wild_next_us, wild_tick};

static scenario_result run_chaos(uint64_t seed, uint64_t *opened) {
    scenario_options options = scenario_options_of(seed, NULL);
    chaos chaos = {.sim = sim_create(&options)};
    for (size_t i = 0; i < CHAOS_NODES; i++) chaos.nodes[i] = sim_node_add(chaos.sim, NULL, &wild_program, &chaos);
    for (size_t i = 0; i < CHAOS_NODES; i++) sim_node_start(chaos.nodes[i]);
    fault_limits limits = {.allowed = FAULT_ALL, .from_us = 0, .until_us = 5000000, .down_max = 2};
    faults *faults = faults_create(chaos.sim, &limits);
    if (sim_run(chaos.sim, 6000000)) {
        /* All nodes stop; then every link gets on_closed within the bound. */
        for (size_t i = 0; i < CHAOS_NODES; i++)
            if (sim_node_up(chaos.nodes[i])) sim_node_crash(chaos.nodes[i], i % 2 == 0);
        if (sim_network_link_count(sim_get_network(chaos.sim)) != 0) sim_violation(chaos.sim, "dead nodes have links");
    }
    *opened += chaos.opened;
    faults_destroy(faults);
    scenario_result result;
    sim_finish(chaos.sim, &result);
    return result;
}

static void the_contract_holds_under_all_faults(void **state) {
    uint64_t opened = 0, ignored = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        scenario_result result = run_chaos(seed, &opened);
        if (result.violation[0] != '\0') fail_msg("seed %d: %s", (int)seed, result.violation);
        if (seed % 10 == 0) assert_true(run_chaos(seed, &ignored).hash == result.hash);
    }
    assert_true(opened > 1000);
}

static void different_seeds_differ(void **state) {
    uint64_t ignored = 0;
    assert_true(run_chaos(1, &ignored).hash != run_chaos(2, &ignored).hash);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calm_links_keep_order_and_lose_nothing),
        cmocka_unit_test(pieces_arrive_as_one_body),
        cmocka_unit_test(both_sides_can_send),
        cmocka_unit_test(faults_come_at_the_rates_asked_for),
        cmocka_unit_test(a_cut_goes_one_way_and_heals),
        cmocka_unit_test(a_cut_may_hold_messages_back),
        cmocka_unit_test(a_crash_is_told_to_the_other_side),
        cmocka_unit_test(a_silent_crash_is_noticed_late),
        cmocka_unit_test(no_link_outlives_its_other_end_for_ever),
        cmocka_unit_test(closing_lets_what_was_sent_arrive),
        cmocka_unit_test(a_full_window_means_busy_and_then_room),
        cmocka_unit_test(a_refused_body_closes_the_link),
        cmocka_unit_test(an_unwanted_body_does_not_cost_the_link),
        cmocka_unit_test(a_body_that_changes_too_early_is_noticed),
        cmocka_unit_test(opening_ends_either_way),
        cmocka_unit_test(the_contract_holds_under_all_faults),
        cmocka_unit_test(different_seeds_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
