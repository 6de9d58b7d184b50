/* replica_test.c — a chain by hand: what is logged, committed, acknowledged and shown, part by part. */
#include "ps/replica.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ps/floats.h"
#include "ps/ledger.h"
#include "ps/replica_core.h"

enum { SERVERS = 4, RANKS = 2, QUEUE = 200 };

typedef struct envelope {
    uint32_t from, to; /* a server; SERVERS + rank; 100: the director; 200 + slot: its head; 300: the depot */
    part part;
    bale *bale;
} envelope;

typedef struct world world;

typedef struct seat {
    world *world;
    uint32_t id;
    replica_host host;
    replica *replica;
} seat;

struct world {
    seat seats[SERVERS];
    chart chart;
    envelope queue[QUEUE];
    size_t first, count;
    uint64_t number;
    ledger_terms terms; /* of contributions */
};

static void post(world *world, uint32_t from, uint32_t to, const part *part) {
    assert_true(world->count < QUEUE);
    envelope *envelope = &world->queue[world->count++];
    *envelope = (struct envelope){from, to, *part, bale_copy(part->payload)};
    envelope->part.payload = bale_bytes(envelope->bale);
    envelope->part.terms = (span){0};
}

static void to_server(void *context, uint32_t server, const part *part) {
    seat *seat = context;
    post(seat->world, seat->id, server, part);
}
static void to_rank(void *context, uint32_t rank, const part *part) {
    seat *seat = context;
    post(seat->world, seat->id, SERVERS + rank, part);
}
static void to_director(void *context, const part *part) {
    seat *seat = context;
    post(seat->world, seat->id, 100, part);
}

static void to_head(void *context, uint32_t slot, const part *part) {
    seat *seat = context;
    post(seat->world, seat->id, 200 + slot, part);
}

static void to_depot(void *context, const part *part) {
    seat *seat = context;
    post(seat->world, seat->id, 300, part);
}

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    world->chart = (chart){.copies = 3, .rank_count = RANKS, .slot_count = 2, .birth = 1};
    world->chart.slots = xcalloc(2, sizeof(chart_slot));
    for (uint32_t i = 0; i < SERVERS; i++) {
        seat *seat = &world->seats[i];
        *seat = (struct seat){.world = world, .id = i};
        seat->host = (replica_host){.values = &floats_ops,
                                    .server = i,
                                    .incarnation = 10 + i,
                                    .to_server = to_server,
                                    .to_rank = to_rank,
                                    .to_director = to_director,
                                    .to_head = to_head,
                                    .to_depot = to_depot,
                                    .context = seat};
        seat->replica = replica_create(&seat->host, 0);
    }
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    for (uint32_t i = 0; i < SERVERS; i++) replica_destroy(world->seats[i].replica);
    for (size_t i = 0; i < world->count; i++) bale_unref(world->queue[i].bale);
    chart_fini(&world->chart);
    free(world);
    return 0;
}

/* The next chart has this chain; `since` of whoever stays is kept. */
static void chain(world *world, const uint32_t *servers, uint8_t count) {
    chart_slot before = world->chart.slots[0], *slot = &world->chart.slots[0];
    uint64_t number = ++world->number;
    *slot = (chart_slot){.epoch = number, .count = count};
    world->chart.number = number;
    for (uint8_t i = 0; i < count; i++) {
        int place = chart_place(&before, servers[i], 10 + servers[i]);
        uint64_t since = place < 0 ? number : before.chain[place].since;
        slot->chain[i] = (chart_member){servers[i], 10 + servers[i], since};
    }
}

static void enter(world *world, uint32_t server) { replica_enter(world->seats[server].replica, &world->chart); }

static void enter_all(world *world) {
    for (uint32_t i = 0; i < SERVERS; i++) enter(world, i);
}

/* Delivers what is under way between servers, but nothing to `deaf`; what is for ranks and the director stays. */
static void settle(world *world, int deaf) {
    for (; world->first < world->count; world->first++) {
        envelope envelope = world->queue[world->first];
        if (envelope.to >= SERVERS || (int)envelope.to == deaf) continue;
        replica_take(world->seats[envelope.to].replica, envelope.from, &envelope.part, envelope.bale);
    }
}

static void ask(world *world, uint32_t server, part part) {
    double values[FLOATS_WIDTH] = {part.rank + 1, 2, 3};
    part.epoch = world->number;
    uint8_t terms[LEDGER_TERMS_MAX];
    if (part.kind == PART_PUSH) {
        part.payload = span_of(values, sizeof values);
        part.terms = span_of(terms, ledger_write_terms(&world->terms, RANKS, terms));
    }
    bale *bale = bale_copy(part.payload);
    part.payload = bale_bytes(bale);
    replica_take(world->seats[server].replica, SERVERS + part.rank, &part, bale);
    bale_unref(bale);
}

static void push(world *world, uint32_t server, uint32_t rank, uint64_t name, uint64_t prev) {
    ask(world, server, (part){.kind = PART_PUSH, .rank = rank, .name = name, .prev = prev});
}

/* A push without values. */
static void tick_of(world *world, uint32_t server, uint32_t rank, uint64_t name, uint64_t prev) {
    part part = {.kind = PART_PUSH, .rank = rank, .epoch = world->number, .name = name, .prev = prev};
    replica_take(world->seats[server].replica, SERVERS + rank, &part, NULL);
}

/* How often a rank was told so. */
static size_t told(const world *world, uint32_t rank, part_kind kind, part_status status, uint64_t name) {
    size_t count = 0;
    for (size_t i = 0; i < world->count; i++) {
        const envelope *envelope = &world->queue[i];
        count += envelope->to == SERVERS + rank && envelope->part.kind == kind && envelope->part.status == status &&
                 envelope->part.name == name;
    }
    return count;
}

static replica_look look(const world *world, uint32_t server) { return replica_look_at(world->seats[server].replica); }

static void start(world *world, uint8_t count) {
    chain(world, (uint32_t[]){0, 1, 2}, count);
    enter_all(world);
    settle(world, -1);
    assert_int_equal(look(world, 0).phase, REPLICA_SERVING);
}

static void a_push_is_acknowledged_when_all_have_it(void **state) {
    world *world = *state;
    start(world, 3);
    push(world, 0, 0, 5, 0);
    settle(world, 2); /* the tail hears nothing */
    assert_int_equal(told(world, 0, PART_PUSHED, PART_OK, 5), 0);
    assert_true(look(world, 0).logged == 1 && look(world, 1).logged == 1 && look(world, 0).applied == 0);
    push(world, 0, 0, 5, 0); /* again: in the log, not acknowledged */
    settle(world, 2);
    assert_int_equal(told(world, 0, PART_PUSHED, PART_OK, 5), 0);
    replica_tick(world->seats[1].replica, 0); /* says it again */
    settle(world, -1);
    assert_int_equal(told(world, 0, PART_PUSHED, PART_OK, 5), 1);
    for (uint32_t i = 0; i < 3; i++) assert_true(look(world, i).applied == 1 && look(world, i).logged == 1);
    push(world, 0, 0, 5, 0); /* and again: applied, acknowledged, once in the state */
    settle(world, -1);
    assert_int_equal(told(world, 0, PART_PUSHED, PART_OK, 5), 2);
    assert_int_equal(look(world, 0).applied, 1);
}

static void names_follow_each_other(void **state) {
    world *world = *state;
    start(world, 1);
    push(world, 0, 0, 7, 6);
    assert_int_equal(told(world, 0, PART_PUSHED, PART_RESEND, 7), 1);
    push(world, 0, 0, 6, 0);
    push(world, 0, 0, 7, 6);
    push(world, 0, 1, 6, 0); /* ranks are apart */
    assert_int_equal(look(world, 0).applied, 3);
    assert_true(replica_name(world->seats[0].replica, 0) == 7 && replica_name(world->seats[0].replica, 1) == 6);
    push(world, 1, 0, 8, 7); /* not a server of this chain */
    assert_int_equal(told(world, 0, PART_PUSHED, PART_WRONG, 8), 1);
}

static void what_is_cut_into_other_batches_is_applied_once(void **state) {
    world *world = *state;
    start(world, 1);
    push(world, 0, 0, 2, 0); /* items 1 and 2, as one */
    push(world, 0, 0, 5, 2); /* 3 to 5 */
    assert_int_equal(look(world, 0).applied, 2);
    push(world, 0, 0, 1, 5); /* whoever plays them again: 1, then 2 to 4, then 5, which are there */
    push(world, 0, 0, 4, 5);
    push(world, 0, 0, 5, 5);
    assert_true(told(world, 0, PART_PUSHED, PART_OK, 1) == 1 && told(world, 0, PART_PUSHED, PART_OK, 4) == 1);
    assert_int_equal(look(world, 0).applied, 2);
    push(world, 0, 0, 9, 5); /* and goes on behind the clock */
    assert_int_equal(look(world, 0).applied, 3);
    assert_int_equal(replica_name(world->seats[0].replica, 0), 9);
}

static void a_stint_begins_when_the_one_before_has_nothing_under_way(void **state) {
    world *world = *state;
    start(world, 2);
    push(world, 0, 0, 5, 0);
    ask(world, 0, (part){.kind = PART_HELLO, .commit = 9}); /* another process plays the rank now */
    assert_int_equal(told(world, 0, PART_CLOCK, PART_LATER, 0), 1);
    settle(world, -1);
    ask(world, 0, (part){.kind = PART_HELLO, .commit = 9});
    assert_int_equal(told(world, 0, PART_CLOCK, PART_OK, 5), 1);
    assert_int_equal(world->queue[world->count - 1].part.commit, 9); /* to whom it is said */
}

static void values_that_are_there_are_not_sent_again(void **state) {
    world *world = *state;
    start(world, 1);
    push(world, 0, 0, 6, 0);
    ask(world, 0, (part){.kind = PART_PULL, .entry = PART_PULL_NEWER, .prev = 6, .lsn = 1}); /* it has those at lsn 1 */
    assert_int_equal(told(world, 0, PART_PULLED, PART_SAME, 0), 1);
    ask(world, 0,
        (part){.kind = PART_PULL, .entry = PART_PULL_NEWER, .prev = 7, .lsn = 1}); /* and knows of a later push */
    assert_int_equal(told(world, 0, PART_PULLED, PART_SAME, 0), 1);
    ask(world, 0, (part){.kind = PART_PULL, .entry = PART_PULL_NEWER, .prev = 6, .lsn = 0}); /* those at lsn 0 */
    assert_int_equal(told(world, 0, PART_PULLED, PART_OK, 0), 1);
    tick_of(world, 0, 1, 8, 0); /* an entry that changes nothing */
    ask(world, 0, (part){.kind = PART_PULL, .entry = PART_PULL_NEWER, .prev = 6, .lsn = 1});
    assert_true(told(world, 0, PART_PULLED, PART_SAME, 0) == 2 && world->queue[world->count - 1].part.lsn == 2);
}

static void a_pull_waits_for_what_its_rank_knows(void **state) {
    world *world = *state;
    start(world, 2);
    ask(world, 0, (part){.kind = PART_PULL, .rank = 0, .prev = 5, .commit = 70});
    ask(world, 0, (part){.kind = PART_PULL, .rank = 0, .prev = 5, .commit = 71}); /* instead of that */
    ask(world, 0, (part){.kind = PART_PULL, .rank = 1, .lsn = 1, .commit = 80, .priority = 1});
    assert_int_equal(world->count, world->first); /* nothing is said */
    push(world, 0, 0, 5, 0);
    settle(world, -1);
    size_t last = world->count - 1;
    while (world->queue[last].part.kind != PART_PULLED) last--;
    assert_true(world->queue[last].to == SERVERS && world->queue[last].part.commit == 71);
    assert_true(world->queue[last - 1].to == SERVERS + 1 && world->queue[last - 1].part.commit == 80); /* goes first */
    assert_int_equal(told(world, 0, PART_PULLED, PART_OK, 0) + told(world, 1, PART_PULLED, PART_OK, 0), 2);
    ask(world, 0, (part){.kind = PART_PULL, .rank = 0, .prev = 6});
    chain(world, (uint32_t[]){0}, 1); /* another epoch: whoever waits asks again */
    enter(world, 0);
    push(world, 0, 0, 6, 5);
    assert_true(told(world, 0, PART_PUSHED, PART_OK, 6) == 1 && told(world, 0, PART_PULLED, PART_OK, 0) == 1);
}

static void a_push_that_also_pulls_is_shown_what_it_pushed(void **state) {
    world *world = *state;
    start(world, 2);
    part both = {.kind = PART_PUSH, .entry = PART_PUSH_PULL, .name = 5, .commit = 70};
    ask(world, 0, both);
    ask(world, 0, both); /* again: it is in the log, once */
    assert_true(told(world, 0, PART_PULLED, PART_OK, 0) == 0 && look(world, 0).logged == 1);
    settle(world, -1);
    assert_true(told(world, 0, PART_PUSHED, PART_OK, 5) == 1 && told(world, 0, PART_PULLED, PART_OK, 0) == 1);
    assert_true(world->queue[world->count - 1].part.lsn == 1 && world->queue[world->count - 1].part.commit == 70);
    ask(world, 0, both); /* the answer was lost: it is shown again, and not applied */
    assert_true(told(world, 0, PART_PULLED, PART_OK, 0) == 2 && look(world, 0).logged == 1);
    both.entry |= PART_PULL_NEWER; /* a copy of those values is there */
    both.lsn = 1;
    ask(world, 0, both);
    assert_int_equal(told(world, 0, PART_PULLED, PART_SAME, 0), 1);
}

/* How many bytes the rank was shown to this request; SIZE_MAX: it was not, or not once. */
static size_t shown_bytes(const world *world, uint32_t rank, uint64_t request) {
    size_t count = 0, size = 0;
    for (size_t i = 0; i < world->count; i++) {
        const part *part = &world->queue[i].part;
        if (world->queue[i].to != SERVERS + rank || part->kind != PART_PULLED || part->commit != request) continue;
        size = part->payload.size;
        count++;
    }
    return count == 1 ? size : SIZE_MAX;
}

static void a_pull_is_shown_what_it_asks_for(void **state) {
    world *world = *state;
    start(world, 2);
    ask(world, 0, (part){.kind = PART_PULL, .commit = 70, .payload = span_of("\2", 1)});
    assert_int_equal(shown_bytes(world, 0, 70), sizeof(double));
    ask(world, 0, (part){.kind = PART_PULL, .commit = 71, .prev = 5, .payload = span_of("\0\1", 2)}); /* waits */
    ask(world, 0, (part){.kind = PART_PULL, .rank = 1, .lsn = 1, .commit = 80, .payload = span_of("\1", 1)});
    part fresh = {.kind = PART_PULL, .entry = PART_PULL_FRESH, .rank = 1, .commit = 81, .payload = span_of("\0\2", 2)};
    push(world, 0, 0, 5, 0);
    settle(world, -1);
    assert_int_equal(shown_bytes(world, 0, 71), 2 * sizeof(double));
    assert_int_equal(shown_bytes(world, 1, 80), sizeof(double));
    ask(world, 0, fresh); /* down the chain, with what it asks for */
    settle(world, -1);
    assert_int_equal(shown_bytes(world, 1, 81), 2 * sizeof(double));
    ask(world, 0, (part){.kind = PART_PULL, .commit = 72, .payload = span_of("\7", 1)}); /* makes no sense */
    assert_int_equal(shown_bytes(world, 0, 72), 0);
    part both = {
        .kind = PART_PUSH, .entry = PART_PUSH_PULL, .rank = 1, .epoch = world->number, .name = 6, .commit = 82};
    double change[FLOATS_WIDTH] = {0, 4, 0};
    bale *bale = bale_copy(span_of(change, sizeof change));
    both.payload = bale_bytes(bale);
    replica_take(world->seats[0].replica, SERVERS + 1, &both, bale);
    bale_unref(bale);
    settle(world, -1);
    assert_int_equal(shown_bytes(world, 1, 82), sizeof(double)); /* what it has pushed */
}

static void what_a_waiting_pull_asks_for_is_held(void **state) {
    world *world = *state;
    start(world, 1);
    bale *small = bale_copy(span_of("\1", 1)), *large = bale_new(PART_POINTED);
    memset(bale_room(large), 0, PART_POINTED);
    part pull = {.kind = PART_PULL, .epoch = world->number, .prev = 5, .commit = 70, .payload = bale_bytes(small)};
    replica_take(world->seats[0].replica, SERVERS, &pull, small);
    assert_int_equal(small->refs, 1); /* a few bytes do not hold a batch */
    pull.payload = bale_bytes(large);
    pull.commit = 71;
    replica_take(world->seats[0].replica, SERVERS, &pull, large);
    replica_take(world->seats[0].replica, SERVERS, &pull, large); /* again: instead of itself */
    assert_int_equal(large->refs, 2);
    push(world, 0, 0, 5, 0);
    assert_true(shown_bytes(world, 0, 70) == SIZE_MAX && shown_bytes(world, 0, 71) == 0 && large->refs == 1);
    pull.prev = 6;
    replica_take(world->seats[0].replica, SERVERS, &pull, large);
    assert_int_equal(large->refs, 2);
    chain(world, (uint32_t[]){0}, 1); /* another epoch forgets those who wait */
    enter(world, 0);
    assert_int_equal(large->refs, 1);
    bale_unref(small);
    bale_unref(large);
}

static void any_copy_shows_what_it_has(void **state) {
    world *world = *state;
    start(world, 3);
    push(world, 0, 0, 6, 0);
    settle(world, 0); /* the others have it applied, the head does not know */
    ask(world, 2, (part){.kind = PART_PULL});
    assert_int_equal(told(world, 0, PART_PULLED, PART_OK, 0), 1);
    ask(world, 0, (part){.kind = PART_PULL, .lsn = 1}); /* and it was shown */
    assert_int_equal(told(world, 0, PART_PULLED, PART_OK, 0), 1);
    chain(world, (uint32_t[]){2, 0}, 2);
    enter(world, 0); /* it has something logged that may have been acknowledged */
    ask(world, 0, (part){.kind = PART_PULL});
    assert_int_equal(told(world, 0, PART_PULLED, PART_WRONG, 0), 1);
    enter(world, 2);
    settle(world, -1);
    ask(world, 0, (part){.kind = PART_PULL});
    assert_int_equal(told(world, 0, PART_PULLED, PART_OK, 0), 2);
    push(world, 0, 0, 7, 6); /* it takes no pushes */
    assert_int_equal(told(world, 0, PART_PUSHED, PART_WRONG, 7), 1);
}

static void a_fresh_pull_goes_down_the_chain(void **state) {
    world *world = *state;
    start(world, 2);
    part pull = {.kind = PART_PULL, .entry = PART_PULL_FRESH, .commit = 77};
    ask(world, 1, pull); /* of the head only */
    assert_int_equal(told(world, 0, PART_PULLED, PART_WRONG, 0), 1);
    ask(world, 0, pull);
    ask(world, 0, pull); /* again: it is under way */
    assert_true(told(world, 0, PART_PULLED, PART_OK, 0) == 0 && look(world, 0).logged == 1);
    settle(world, -1);
    assert_int_equal(told(world, 0, PART_PULLED, PART_OK, 0), 1);
    assert_true(look(world, 0).applied == 1 && look(world, 1).applied == 1);
}

static void a_new_head_takes_the_longest_log(void **state) {
    world *world = *state;
    start(world, 3);
    push(world, 0, 0, 1, 0);
    settle(world, 2); /* 0 and 1 have it, 2 does not */
    chain(world, (uint32_t[]){2, 1}, 2);
    enter(world, 2);
    assert_int_equal(look(world, 2).phase, REPLICA_ENTERING);
    settle(world, -1); /* 1 has not entered: what 2 asks is of a newer epoch */
    assert_int_equal(look(world, 2).phase, REPLICA_ENTERING);
    push(world, 2, 0, 2, 1);
    assert_int_equal(told(world, 0, PART_PUSHED, PART_WRONG, 2), 1);
    enter(world, 1);
    replica_tick(world->seats[2].replica, 0);
    settle(world, -1);
    assert_int_equal(look(world, 2).phase, REPLICA_SERVING);
    assert_true(look(world, 2).applied == 1 && look(world, 1).applied == 1);
    push(world, 0, 0, 2, 1); /* the deposed head logs, and commits nothing */
    enter(world, 0);
    settle(world, -1);
    assert_int_equal(told(world, 0, PART_PUSHED, PART_OK, 2), 0);
    assert_int_equal(look(world, 0).phase, REPLICA_OUT);
}

static void a_joiner_is_filled_gated_and_full(void **state) {
    world *world = *state;
    start(world, 2);
    push(world, 0, 0, 1, 0);
    push(world, 0, 0, 2, 1);
    settle(world, -1);
    part join = {.kind = PART_JOIN, .epoch = world->number, .name = 3, .prev = 13};
    replica_take(world->seats[0].replica, 100, &join, NULL); /* not the tail */
    assert_false(look(world, 0).joins);
    replica_take(world->seats[1].replica, 100, &join, NULL);
    settle(world, -1);
    assert_true(look(world, 1).gated && look(world, 1).ready && look(world, 3).phase == REPLICA_JOINING);
    push(world, 0, 0, 3, 2);
    settle(world, 3); /* gated: what the joiner lacks is not committed */
    assert_true(look(world, 1).level == 3 && look(world, 1).applied == 2);
    replica_tick(world->seats[1].replica, 0);
    settle(world, -1);
    assert_true(look(world, 1).applied == 3 && look(world, 3).logged == 3);
    chain(world, (uint32_t[]){3, 0}, 2); /* it leads; the tail leaves */
    enter_all(world);
    settle(world, -1);
    replica_tick(world->seats[3].replica, 0);
    settle(world, -1);
    assert_true(look(world, 3).phase == REPLICA_SERVING && look(world, 3).applied == 3);
    assert_int_equal(look(world, 1).phase, REPLICA_OUT);
    assert_int_equal(replica_name(world->seats[3].replica, 0), 3);
}

static size_t states_sent(const world *world) {
    size_t count = 0;
    for (size_t i = 0; i < world->count; i++) count += world->queue[i].part.kind == PART_STATE;
    return count;
}

/* It is large, and may be long on its way: it is sent again when the joiner has not got it, and not before. */
static void a_state_is_sent_again_when_it_was_lost(void **state) {
    world *world = *state;
    start(world, 1);
    push(world, 0, 0, 1, 0);
    settle(world, -1);
    part join = {.kind = PART_JOIN, .epoch = world->number, .name = 3, .prev = 13};
    replica_take(world->seats[0].replica, 100, &join, NULL);
    for (int i = 0; i < 5; i++) replica_tick(world->seats[0].replica, 0);
    assert_int_equal(states_sent(world), 1);
    settle(world, 3); /* all of it is lost */
    assert_int_equal(look(world, 3).phase, REPLICA_OUT);
    replica_tick(world->seats[0].replica, 0);
    settle(world, -1); /* asked, it says that it has nothing */
    assert_int_equal(states_sent(world), 1);
    replica_tick(world->seats[0].replica, 0);
    assert_int_equal(states_sent(world), 2);
    settle(world, -1);
    assert_true(look(world, 0).gated && look(world, 3).phase == REPLICA_JOINING);
    part late = {.kind = PART_LEVEL, .status = PART_GONE, .epoch = world->number}; /* that it said before */
    replica_take(world->seats[0].replica, 3, &late, NULL);
    replica_tick(world->seats[0].replica, 0);
    settle(world, -1);
    assert_true(states_sent(world) == 2 && look(world, 0).gated);
}

static void start_rounds(world *world, uint64_t members, bool waits) {
    world->chart.consistency.kind = CONSISTENCY_BSP;
    world->terms = (ledger_terms){.waits = waits, .members = {{members}}};
    start(world, 2);
}

/* What the ledger says to slot 0. */
static void say(world *world, part_kind kind, uint32_t rank, uint64_t round, uint64_t set) {
    ledger_terms terms = {.members = {{set}}};
    uint8_t bytes[LEDGER_TERMS_MAX];
    part part = {.kind = (uint8_t)kind, .rank = rank, .epoch = world->number, .name = round};
    if (kind == PART_TERMS) part.terms = span_of(bytes, ledger_write_terms(&terms, RANKS, bytes));
    replica_take(world->seats[0].replica, 9, &part, NULL);
    settle(world, -1);
}

/* What the head of the ledger was answered last: 99 if nothing. */
static int answered(const world *world) {
    int status = 99;
    for (size_t i = 0; i < world->count; i++)
        if (world->queue[i].to == 201 && world->queue[i].part.kind == PART_FROZEN) status = world->queue[i].part.status;
    return status;
}

static void a_round_closes_with_its_members(void **state) {
    world *world = *state;
    start_rounds(world, 2, false); /* rank 1 alone */
    push(world, 0, 0, 1, 0);
    settle(world, -1);
    assert_int_equal(look(world, 0).version, 0);
    push(world, 0, 1, 1, 0);
    settle(world, -1);
    assert_int_equal(look(world, 1).version, 1);
    assert_int_equal(told(world, 0, PART_PUSHED, PART_MISSED, 1), 1);
    assert_int_equal(told(world, 1, PART_PUSHED, PART_OK, 1), 1);
    push(world, 0, 0, 1, 0); /* again, late */
    assert_int_equal(told(world, 0, PART_PUSHED, PART_MISSED, 1), 2);
}

static void a_frozen_rank_does_not_count_before_the_ledger_says_so(void **state) {
    world *world = *state;
    start_rounds(world, 3, false);
    push(world, 0, 0, 1, 0);
    say(world, PART_FREEZE, 0, 0, 0);
    assert_true(answered(world) == PART_OK && look(world, 0).open == 0);
    push(world, 0, 0, 1, 0);
    push(world, 0, 1, 1, 0);
    settle(world, -1);
    assert_true(look(world, 0).version == 0 && look(world, 0).open == 1);
    chain(world, (uint32_t[]){1, 0}, 2); /* another head, which knows it, too */
    enter_all(world);
    settle(world, -1);
    push(world, 1, 0, 1, 0);
    push(world, 1, 1, 1, 0);
    settle(world, -1);
    assert_true(look(world, 1).version == 0 && look(world, 1).open == 1);
    chain(world, (uint32_t[]){0, 1}, 2);
    enter_all(world);
    settle(world, -1);
    push(world, 0, 1, 1, 0);
    say(world, PART_TERMS, 0, 0, 2); /* void */
    assert_true(look(world, 0).version == 1 && look(world, 1).version == 1);
    say(world, PART_FREEZE, 1, 0, 0);
    assert_int_equal(answered(world), PART_GONE); /* that round is closed */
    say(world, PART_FREEZE, 1, 1, 0);
    say(world, PART_TERMS, 0, 1, 3); /* to be repeated: it counts after all */
    push(world, 0, 0, 2, 1);
    push(world, 0, 1, 2, 1);
    settle(world, -1);
    assert_int_equal(look(world, 1).version, 2);
}

static void a_round_that_waits_is_closed_by_the_ledger(void **state) {
    world *world = *state;
    start_rounds(world, 3, true);
    push(world, 0, 0, 1, 0);
    push(world, 0, 1, 1, 0);
    settle(world, -1);
    assert_int_equal(told(world, 0, PART_PUSHED, PART_TAKEN, 1), 1);
    assert_int_equal(look(world, 0).version, 0);
    say(world, PART_TERMS, 0, 1, 1); /* of a round that is not open here */
    assert_int_equal(look(world, 0).version, 0);
    say(world, PART_TERMS, 0, 0, 1);
    assert_int_equal(look(world, 0).version, 1);
    assert_true(told(world, 0, PART_PUSHED, PART_OK, 1) == 1 && told(world, 1, PART_PUSHED, PART_MISSED, 1) == 1);
}

static void rounds_are_summed_in_rank_order_and_versions_kept(void **state) {
    world *world = *state;
    start_rounds(world, 3, false);
    push(world, 0, 1, 1, 0);
    push(world, 0, 1, 1, 0); /* twice: once in the sum */
    assert_int_equal(look(world, 0).open, 1);
    push(world, 0, 0, 1, 0);
    settle(world, -1);
    assert_true(look(world, 0).version == 1 && look(world, 1).version == 1 && look(world, 0).open == 0);
    assert_true(told(world, 0, PART_PUSHED, PART_OK, 1) == 1 && told(world, 1, PART_PUSHED, PART_OK, 1) == 1);
    buffer values;
    buffer_init(&values, 100);
    replica_write_values(world->seats[1].replica, &values);
    double first;
    memcpy(&first, values.data, sizeof first);
    assert_true(first == 1 * 0.9 + (1.0 + 2.0));
    buffer_fini(&values);
    for (uint64_t version = 0; version <= 2; version++) ask(world, 0, (part){.kind = PART_PULL, .name = version});
    assert_int_equal(told(world, 0, PART_PULLED, PART_OK, 0), 1);
    assert_int_equal(told(world, 0, PART_PULLED, PART_OK, 1), 1);
    assert_int_equal(told(world, 0, PART_PULLED, PART_OK, 2), 0); /* waits for the round */
    ask(world, 0, (part){.kind = PART_PULL, .rank = 1, .commit = 60, .payload = span_of("\2", 1)}); /* of version 0 */
    const part *kept = &world->queue[world->count - 1].part;
    double third;
    assert_true(kept->name == 0 && kept->payload.size == sizeof third);
    memcpy(&third, kept->payload.data, sizeof third);
    assert_true(third == 1);
    push(world, 0, 0, 2, 1);
    ask(world, 0, (part){.kind = PART_PUSH, .entry = PART_PUSH_PULL, .rank = 1, .name = 2});
    settle(world, -1);
    assert_true(told(world, 0, PART_PULLED, PART_OK, 2) == 1 && told(world, 1, PART_PULLED, PART_OK, 2) == 1);
}

static void a_contribution_that_is_repeated_with_other_bytes_is_told(void **state) {
    world *world = *state;
    start_rounds(world, 3, false);
    push(world, 0, 0, 1, 0); /* is in the sum at once */
    push(world, 0, 0, 1, 0);
    assert_int_equal(look(world, 0).dispute.count, 0);
    double other[FLOATS_WIDTH] = {9, 9, 9};
    bale *bale = bale_copy(span_of(other, sizeof other));
    part part = {.kind = PART_PUSH, .epoch = world->number, .name = 1, .payload = bale_bytes(bale)};
    replica_take(world->seats[0].replica, SERVERS, &part, bale);
    replica_dispute dispute = look(world, 0).dispute;
    assert_true(dispute.count == 1 && dispute.rank == 0 && dispute.round == 0);
    push(world, 0, 1, 1, 0);
    settle(world, -1);
    buffer values;
    buffer_init(&values, 100);
    replica_write_values(world->seats[1].replica, &values);
    double first;
    memcpy(&first, values.data, sizeof first);
    assert_true(first == 1 * 0.9 + (1.0 + 2.0));                 /* the first one counts */
    replica_take(world->seats[0].replica, SERVERS, &part, bale); /* of a round that is over */
    assert_int_equal(look(world, 0).dispute.count, 1);
    buffer_fini(&values);
    bale_unref(bale);
}

/* The last part of this kind that went to the depot; all zero: none. */
static part sent_to_depot(const world *world, part_kind kind) {
    for (size_t i = world->count; i-- > 0;)
        if (world->queue[i].to == 300 && world->queue[i].part.kind == kind) return world->queue[i].part;
    return (part){0};
}

static void a_cut_is_the_state_behind_the_mark(void **state) {
    world *world = *state;
    start(world, 2);
    push(world, 0, 1, 5, 0);
    settle(world, -1);
    ask(world, 0, (part){.kind = PART_ORDER, .entry = TAPE_MARK, .name = 4});
    ask(world, 0, (part){.kind = PART_ORDER, .entry = TAPE_MARK, .name = 4}); /* it is in the log */
    assert_int_equal(sent_to_depot(world, PART_CUT).name, 0);
    settle(world, -1);
    assert_true(sent_to_depot(world, PART_CUT).lsn == 2 && sent_to_depot(world, PART_CUT).name == 4);
    ask(world, 0, (part){.kind = PART_ORDER, .entry = TAPE_MARK, .name = 3}); /* as good as that one */
    assert_true(world->queue[world->count - 1].to == 100 && world->queue[world->count - 1].part.lsn == 4);
    buffer before, after;
    buffer_init(&before, 100);
    buffer_init(&after, 100);
    replica_write_values(world->seats[0].replica, &before);
    push(world, 0, 1, 6, 5); /* training goes on */
    settle(world, -1);
    size_t sent = world->count;
    replica_tick(world->seats[0].replica, 0); /* until it is saved, it asks */
    assert_true(world->count == sent + 1 && sent_to_depot(world, PART_CUT).payload.size == 0);
    ask(world, 0, (part){.kind = PART_SAVED, .status = PART_RESEND, .name = 3}); /* of another one */
    ask(world, 0, (part){.kind = PART_SAVED, .status = PART_RESEND, .name = 4});
    assert_true(world->count == sent + 2 && sent_to_depot(world, PART_CUT).lsn == 2);
    bale *shard = bale_copy(sent_to_depot(world, PART_CUT).payload);
    ask(world, 0, (part){.kind = PART_SAVED, .name = 4});
    replica_tick(world->seats[0].replica, 0);
    assert_int_equal(world->count, sent + 2);
    world->chart.birth = world->number + 1; /* another generation, on another server */
    world->chart.origin = 4;
    chain(world, (uint32_t[]){3}, 1);
    enter(world, 3);
    assert_true(look(world, 3).phase == REPLICA_LOADING && sent_to_depot(world, PART_FETCH).name == 4);
    ask(world, 3, (part){.kind = PART_SHARD, .name = 4, .lsn = 2, .payload = span_of("noise", 5)});
    ask(world, 3, (part){.kind = PART_SHARD, .name = 3, .lsn = 2, .payload = bale_bytes(shard)}); /* not that one */
    assert_int_equal(look(world, 3).phase, REPLICA_LOADING);
    ask(world, 3, (part){.kind = PART_SHARD, .name = 4, .lsn = 2, .payload = bale_bytes(shard)});
    assert_true(look(world, 3).phase == REPLICA_SERVING && look(world, 3).applied == 2);
    assert_true(replica_name(world->seats[3].replica, 1) == 5 && replica_name(world->seats[3].replica, 0) == 0);
    replica_write_values(world->seats[3].replica, &after);
    assert_true(before.size == after.size && memcmp(before.data, after.data, before.size) == 0);
    push(world, 3, 1, 6, 5); /* what was done after the cut is done again */
    assert_int_equal(look(world, 3).applied, 3);
    bale_unref(shard);
    buffer_fini(&before);
    buffer_fini(&after);
}

/* A generation begins from this shard, on another server, with so many ranks, and is cut at once. The shard is moved;
 * what was cut is the caller's to unref. */
static bale *restore(world *world, uint32_t server, uint32_t ranks, uint64_t checkpoint, bale *shard) {
    world->chart.birth = world->number + 1;
    world->chart.origin = checkpoint;
    world->chart.rank_count = ranks;
    replica_destroy(world->seats[server].replica);
    world->seats[server].replica = replica_create(&world->seats[server].host, 0);
    chain(world, (uint32_t[]){server}, 1);
    enter(world, server);
    ask(world, server, (part){.kind = PART_SHARD, .name = checkpoint, .lsn = 2, .payload = bale_bytes(shard)});
    assert_int_equal(look(world, server).phase, REPLICA_SERVING);
    bale_unref(shard);
    ask(world, server, (part){.kind = PART_ORDER, .entry = TAPE_MARK, .name = checkpoint + 1});
    settle(world, -1);
    return bale_copy(sent_to_depot(world, PART_CUT).payload);
}

static void ranks_that_are_left_out_keep_their_names(void **state) {
    world *world = *state;
    start(world, 1);
    push(world, 0, RANKS - 1, name_tick(7), 0);
    ask(world, 0, (part){.kind = PART_ORDER, .entry = TAPE_MARK, .name = 4});
    settle(world, -1);
    bale *shard = restore(world, 1, 1, 4, bale_copy(sent_to_depot(world, PART_CUT).payload));
    push(world, 1, 0, name_tick(1), 0);
    shard = restore(world, 2, RANKS, 5, shard);
    assert_true(replica_name(world->seats[2].replica, RANKS - 1) == name_tick(7));
    assert_int_equal(replica_name(world->seats[2].replica, 0), 0); /* it was pushed behind the cut */
    shard = restore(world, 3, RANKS + 1, 6, shard);
    assert_int_equal(replica_name(world->seats[3].replica, RANKS), 0); /* as the slowest */
    assert_true(replica_name(world->seats[3].replica, RANKS - 1) == name_tick(7));
    bale_unref(shard);
}

/* The ledger, which is slot 1, on server 0. */
static replica *enter_ledger(world *world, uint64_t origin) {
    uint64_t number = ++world->number;
    world->chart.consistency.kind = CONSISTENCY_BSP;
    world->chart.number = world->chart.birth = number;
    world->chart.origin = origin;
    world->chart.slots[1] = (chart_slot){.epoch = number, .count = 1, .chain = {{0, 10, number}}};
    replica *ledger = replica_create(&world->seats[0].host, 1);
    replica_enter(ledger, &world->chart);
    return ledger;
}

static void order(world *world, replica *ledger, tape_kind kind, uint64_t number) {
    part part = {.kind = PART_ORDER, .slot = 1, .rank = 1, .epoch = world->number, .name = number};
    part.entry = (uint8_t)kind;
    replica_take(ledger, SERVERS + 1, &part, NULL);
}

/* Stints that a coordinator gives which has lost its disk may be below those of before. */
static void orders_are_counted_anew_in_another_generation(void **state) {
    world *world = *state;
    replica *before = enter_ledger(world, 0);
    order(world, before, TAPE_LEAVE, 70);
    order(world, before, TAPE_JOIN, 69); /* late */
    assert_true(told(world, 1, PART_ORDERED, PART_OK, 70) == 1 && told(world, 1, PART_ORDERED, PART_GONE, 69) == 1);
    bale *shard = replica_write_shard(before);
    replica *after = enter_ledger(world, 4);
    part load = {.kind = PART_SHARD, .slot = 1, .name = 4, .lsn = 1, .payload = bale_bytes(shard)};
    replica_take(after, 9, &load, shard);
    assert_int_equal(replica_look_at(after).phase, REPLICA_SERVING);
    assert_false(crowd_has(&replica_ledger(after)->next, 1));
    order(world, after, TAPE_JOIN, 5);
    assert_int_equal(told(world, 1, PART_ORDERED, PART_OK, 5), 1);
    assert_true(crowd_has(&replica_ledger(after)->next, 1));
    bale_unref(shard);
    replica_destroy(before);
    replica_destroy(after);
}

/* What slot 0 has reported to the ledger last. */
static part reported(const world *world) {
    part last = {.name = UINT64_MAX};
    for (size_t i = 0; i < world->count; i++)
        if (world->queue[i].to == 201 && world->queue[i].part.kind == PART_MEASURED) last = world->queue[i].part;
    return last;
}

static void say_norms(world *world, uint32_t server, uint64_t round, const double *norms, uint32_t phases) {
    uint8_t bytes[LEDGER_TERMS_MAX];
    bale *bale = bale_copy(span_of(norms, phases * sizeof *norms));
    part part = {.kind = PART_NORMS,
                 .rank = phases,
                 .epoch = world->number,
                 .name = round,
                 .terms = span_of(bytes, ledger_write_terms(&world->terms, RANKS, bytes)),
                 .payload = bale_bytes(bale)};
    replica_take(world->seats[server].replica, 9, &part, bale);
    bale_unref(bale);
    settle(world, -1);
}

/* What was sent, to make room. */
static void forget(world *world) {
    for (size_t i = 0; i < world->count; i++) bale_unref(world->queue[i].bale);
    world->first = world->count = 0;
}

static void both_push(world *world, uint32_t server, uint64_t name) {
    push(world, server, 0, name, 0);
    push(world, server, 1, name, 0);
    settle(world, -1);
}

static void a_round_that_needs_norms_closes_with_those_of_the_ledger(void **state) {
    world *world = *state;
    floats_context context = {.measures = true};
    const double norms[VALUES_PHASES_MAX] = {2, 3};
    for (uint32_t i = 0; i < SERVERS; i++) world->seats[i].host.values_context = &context;
    start_rounds(world, 3, false);
    bool plain = false, once = false, twice = false;
    for (uint64_t round = 0; round < 24 && !(plain && once && twice); round++) {
        uint32_t needs = floats_needs(0, round + 1);
        forget(world);
        both_push(world, 0, round + 1);
        for (uint32_t phase = 0; phase < needs; phase++) {
            assert_true(look(world, 0).version == round && reported(world).name == round);
            assert_true(reported(world).rank == phase && reported(world).payload.size == sizeof(double));
            say_norms(world, 0, round + 1, norms, phase + 1); /* of another round */
            if (round != 0) say_norms(world, 0, round - 1, norms, phase + 1);
            assert_int_equal(look(world, 0).version, round);
            size_t sent = world->count;
            replica_tick(world->seats[0].replica, 0); /* says it again */
            assert_true(world->count > sent);
            say_norms(world, 0, round, norms, phase + 1);
        }
        assert_true(look(world, 0).version == round + 1 && look(world, 1).version == round + 1);
        plain = plain || needs == 0;
        once = once || needs == 1;
        twice = twice || needs == 2;
    }
    assert_true(plain && once && twice);
}

static void a_new_head_measures_anew_and_one_that_is_done_has_nothing(void **state) {
    world *world = *state;
    floats_context context = {.measures = true};
    for (uint32_t i = 0; i < SERVERS; i++) world->seats[i].host.values_context = &context;
    start_rounds(world, 3, false);
    uint64_t round = 0;
    while (floats_needs(0, round + 1) == 0) {
        both_push(world, 0, ++round);
        say(world, PART_MEASURE, 0, round - 1, 0); /* that is over */
        assert_true(reported(world).name == round - 1 && reported(world).payload.size == 0);
    }
    both_push(world, 0, round + 1);
    double part = 0, again = 0;
    memcpy(&part, reported(world).payload.data, sizeof part);
    chain(world, (uint32_t[]){1, 0}, 2);
    enter_all(world);
    settle(world, -1);
    size_t before = world->count;
    both_push(world, 1, round + 1); /* they send again what it has not heard */
    assert_true(world->count > before && look(world, 1).version == round);
    memcpy(&again, reported(world).payload.data, sizeof again);
    assert_memory_equal(&part, &again, sizeof part);
    const double norms[VALUES_PHASES_MAX] = {1, 1};
    say_norms(world, 1, round, norms, VALUES_PHASES_MAX); /* all that there are, at once */
    assert_int_equal(look(world, 1).version, round + 1);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_push_is_acknowledged_when_all_have_it),
        IN_WORLD(names_follow_each_other),
        IN_WORLD(what_is_cut_into_other_batches_is_applied_once),
        IN_WORLD(a_stint_begins_when_the_one_before_has_nothing_under_way),
        IN_WORLD(values_that_are_there_are_not_sent_again),
        IN_WORLD(a_pull_waits_for_what_its_rank_knows),
        IN_WORLD(a_push_that_also_pulls_is_shown_what_it_pushed),
        IN_WORLD(a_new_head_takes_the_longest_log),
        IN_WORLD(a_joiner_is_filled_gated_and_full),
        IN_WORLD(a_state_is_sent_again_when_it_was_lost),
        IN_WORLD(rounds_are_summed_in_rank_order_and_versions_kept),
        IN_WORLD(a_round_closes_with_its_members),
        IN_WORLD(a_contribution_that_is_repeated_with_other_bytes_is_told),
        IN_WORLD(any_copy_shows_what_it_has),
        IN_WORLD(a_fresh_pull_goes_down_the_chain),
        IN_WORLD(a_pull_is_shown_what_it_asks_for),
        IN_WORLD(what_a_waiting_pull_asks_for_is_held),
        IN_WORLD(a_frozen_rank_does_not_count_before_the_ledger_says_so),
        IN_WORLD(a_round_that_waits_is_closed_by_the_ledger),
        IN_WORLD(a_cut_is_the_state_behind_the_mark),
        IN_WORLD(ranks_that_are_left_out_keep_their_names),
        IN_WORLD(orders_are_counted_anew_in_another_generation),
        IN_WORLD(a_round_that_needs_norms_closes_with_those_of_the_ledger),
        IN_WORLD(a_new_head_measures_anew_and_one_that_is_done_has_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
