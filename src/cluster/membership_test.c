/* membership_test.c — phases of a member, its proposals and fencing; the test plays the metadata store and the
 * others. */
#include "cluster/membership.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/support/transport_recorder.h"

enum { ME = 10 };

/* A metadata store whose answers the test gives: at most one request is pending. */
typedef struct oracle {
    bool open, swap;
    char key[20];
    uint64_t expected;        /* in a get: the newest known version */
    membership_view proposed; /* proposed view in a swap */
    metadata_store_done_fn *done;
    void *argument;
} oracle;

typedef struct world {
    transport_recorder recorder;
    messenger *messenger;
    oracle oracle;
    membership *membership;
    membership_view entered;
    uint64_t incarnation;
    int phases[4]; /* number of events for each phase */
    link_id link;  /* a link that others opened, for answers to control messages */
} world;

static void ask(oracle *oracle, const char *key, metadata_store_done_fn *done, void *argument) {
    assert_false(oracle->open);
    oracle->open = true;
    snprintf(oracle->key, sizeof oracle->key, "%s", key);
    oracle->done = done;
    oracle->argument = argument;
}

static void oracle_get(void *self, const char *key, uint64_t known, metadata_store_done_fn *done, void *argument) {
    oracle *oracle = self;
    ask(oracle, key, done, argument);
    oracle->swap = false;
    oracle->expected = known;
}

static void oracle_swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease,
                        metadata_store_done_fn *done, void *argument) {
    oracle *oracle = self;
    ask(oracle, key, done, argument);
    oracle->swap = true;
    oracle->expected = expected;
    if (strcmp(key, MEMBERSHIP_VIEW_KEY) == 0)
        assert_int_equal(membership_view_decode(value, &oracle->proposed), MR_OK);
}

static const metadata_store_ops oracle_ops = {"oracle", oracle_get, oracle_swap};

static void on_incarnation(void *context, uint64_t incarnation) { ((world *)context)->incarnation = incarnation; }
static void on_view(void *context, const membership_view *view) {
    world *world = context;
    assert_true(view->number > world->entered.number);
    membership_view_copy(&world->entered, view);
}
static void on_phase(void *context, membership_phase phase) { ((world *)context)->phases[phase]++; }
static const membership_events events = {on_incarnation, on_view, on_phase};

static void on_message(void *context, link_id link, span bytes) {
    control_message message;
    assert_int_equal(control_message_decode(bytes, &message), MR_OK);
    assert_true(membership_take(((world *)context)->membership, link, &message));
}
static void on_broken(void *context, const char *address, const cause *why) {
    membership_broken(((world *)context)->membership, address);
}
static const messenger_handlers handlers = {on_message, on_broken};

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    transport_recorder_init(&world->recorder);
    world->messenger = messenger_create(&world->recorder.env, &handlers, world);
    transport_recorder_listen(&world->recorder, &messenger_events, world->messenger);
    membership_options options = {.id = ME, .address = "me"};
    world->membership = membership_create(&world->recorder.env, (metadata_store){&oracle_ops, &world->oracle},
                                          world->messenger, &options, &events, world);
    world->link = transport_recorder_dial_in(&world->recorder);
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    membership_destroy(world->membership);
    messenger_destroy(world->messenger);
    transport_recorder_fini(&world->recorder);
    membership_view_fini(&world->entered);
    membership_view_fini(&world->oracle.proposed);
    free(world);
    return 0;
}

/* ---- Driving the member. */

static int64_t now_of(const world *world) { return world->recorder.clock.now_us; }

/* Advances the time with ticks when they are due. */
static void pass(world *world, int64_t us) {
    int64_t until_us = now_of(world) + us;
    while (membership_next_us(world->membership) <= until_us) {
        if (membership_next_us(world->membership) > now_of(world))
            world->recorder.clock.now_us = membership_next_us(world->membership);
        membership_tick(world->membership, now_of(world));
        membership_check(world->membership);
    }
    world->recorder.clock.now_us = until_us;
}

static void reply(world *world, mr_status status, uint64_t version, const membership_view *view) {
    uint8_t bytes[1000];
    writer writer = writer_of(bytes, sizeof bytes);
    if (view != NULL) membership_view_encode(view, &writer);
    assert_true(world->oracle.open);
    world->oracle.open = false;
    metadata_store_answer answer = {
        .status = status, .version = version, .value = span_of(bytes, writer_size(&writer))};
    world->oracle.done(world->oracle.argument, &answer);
}

static void expect(const world *world, bool swap, const char *key) {
    assert_true(world->oracle.open);
    assert_true(world->oracle.swap == swap);
    assert_string_equal(world->oracle.key, key);
}

static void deliver_message(world *world, const control_message *message) {
    uint8_t bytes[1000];
    writer writer = writer_of(bytes, sizeof bytes);
    control_message_encode(message, &writer);
    transport_recorder_deliver(&world->recorder, world->link, span_of(bytes, writer_size(&writer)));
}

static void deliver_view(world *world, const membership_view *view) {
    uint8_t bytes[1000];
    writer writer = writer_of(bytes, sizeof bytes);
    membership_view_encode(view, &writer);
    deliver_message(world,
                    &(control_message){.kind = CONTROL_MESSAGE_VIEW, .value = span_of(bytes, writer_size(&writer))});
}

static void deliver_heartbeat(world *world, uint64_t view, uint64_t id, uint64_t incarnation) {
    deliver_message(world, &(control_message){.kind = CONTROL_MESSAGE_HEARTBEAT, .stamp = {view, id, incarnation}});
}

/* The last control message on the test's link; kind 0: none since the last call. */
static control_message last_answer(world *world) {
    control_message last = {0}, message;
    link_id link;
    span bytes;
    while (transport_recorder_take(&world->recorder, &link, &bytes)) {
        assert_int_equal(control_message_decode(bytes, &message), MR_OK);
        if (link.v == world->link.v) last = message;
    }
    return last;
}

/* Members 20 and 30 exist; then this member enters with incarnation 3, in view 5. */
static void enter(world *world) {
    membership_view view = {.number = 4};
    assert_int_equal(membership_view_put(&view, 20, 1, "twenty"), MR_OK);
    assert_int_equal(membership_view_put(&view, 30, 2, "thirty"), MR_OK);
    pass(world, 0);
    expect(world, false, MEMBERSHIP_VIEW_KEY);
    reply(world, MR_OK, 4, &view);
    pass(world, 0);
    expect(world, false, MEMBERSHIP_INCARNATION_KEY);
    reply(world, MR_OK, 2, NULL);
    expect(world, true, MEMBERSHIP_INCARNATION_KEY);
    assert_int_equal(world->oracle.expected, 2);
    reply(world, MR_OK, 3, NULL);
    assert_int_equal(world->incarnation, 3);
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_ENTERING);
    pass(world, 0);
    expect(world, true, MEMBERSHIP_VIEW_KEY);
    assert_int_equal(world->oracle.expected, 4);
    assert_int_equal(world->oracle.proposed.number, 5);
    assert_int_equal(world->oracle.proposed.count, 3);
    assert_true(membership_view_holds(&world->oracle.proposed, ME, 3));
    reply(world, MR_OK, 5, NULL);
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_IN);
    assert_int_equal(world->phases[MEMBERSHIP_IN], 1);
    assert_int_equal(world->entered.number, 5);
    membership_view_fini(&view);
}

/* ---- Entering. */

static void a_member_enters(void **state) {
    world *world = *state;
    enter(world);
    assert_false(membership_leads(world->membership)); /* the others have smaller incarnations */
    stamp stamp = membership_stamp(world->membership);
    assert_int_equal(stamp.view, 5);
    assert_int_equal(stamp.id, ME);
    assert_int_equal(stamp.incarnation, 3);
}

static void the_first_one_makes_view_one(void **state) {
    world *world = *state;
    pass(world, 0);
    reply(world, MR_OK, 0, NULL);
    pass(world, 0);
    reply(world, MR_OK, 0, NULL);
    reply(world, MR_OK, 1, NULL);
    pass(world, 0);
    assert_int_equal(world->oracle.expected, 0);
    reply(world, MR_OK, 1, NULL);
    assert_int_equal(world->entered.number, 1);
    assert_true(membership_leads(world->membership));
}

static void an_overtaken_proposal_is_repeated(void **state) {
    world *world = *state;
    pass(world, 0);
    reply(world, MR_OK, 0, NULL);
    pass(world, 0);
    reply(world, MR_OK, 0, NULL);
    reply(world, MR_STALE, 7, NULL); /* another process took that incarnation */
    pass(world, 100000);
    expect(world, false, MEMBERSHIP_INCARNATION_KEY);
    reply(world, MR_OK, 7, NULL);
    reply(world, MR_OK, 8, NULL);
    pass(world, 0);
    expect(world, true, MEMBERSHIP_VIEW_KEY);
    membership_view view = {.number = 1};
    assert_int_equal(membership_view_put(&view, 20, 6, "twenty"), MR_OK);
    reply(world, MR_STALE, 1, &view);
    assert_int_equal(world->entered.number, 1);
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_ENTERING);
    /* The incarnation was proposed: it is not used again. */
    pass(world, 100000);
    expect(world, false, MEMBERSHIP_INCARNATION_KEY);
    reply(world, MR_OK, 8, NULL);
    reply(world, MR_OK, 9, NULL);
    pass(world, 0);
    assert_int_equal(world->oracle.expected, 1);
    assert_true(membership_view_holds(&world->oracle.proposed, ME, 9));
    membership_view_fini(&view);
}

static void a_proposal_without_an_answer_may_have_been_decided(void **state) {
    world *world = *state;
    pass(world, 0);
    reply(world, MR_OK, 0, NULL);
    pass(world, 0);
    reply(world, MR_OK, 0, NULL);
    reply(world, MR_OK, 1, NULL);
    pass(world, 0);
    expect(world, true, MEMBERSHIP_VIEW_KEY);
    membership_view decided = {0};
    membership_view_copy(&decided, &world->oracle.proposed);
    deliver_view(world, &decided); /* the view was decided, and arrives by message before the answer */
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_IN);
    reply(world, MR_TIMEOUT, 0, NULL);
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_IN);
    assert_int_equal(membership_incarnation(world->membership), 1);
    membership_view_fini(&decided);
}

static void failures_are_retried_less_and_less_often(void **state) {
    world *world = *state;
    int64_t waited_us = 0;
    for (int i = 0; i < 8; i++) {
        pass(world, 0);
        expect(world, false, MEMBERSHIP_VIEW_KEY);
        reply(world, MR_TIMEOUT, 0, NULL);
        waited_us = membership_next_us(world->membership) - now_of(world);
        assert_true(waited_us > 0);
        pass(world, waited_us - 1);
        assert_false(world->oracle.open);
        pass(world, 1);
    }
    assert_in_range(waited_us, 200000, 500000);
    reply(world, MR_OK, 0, NULL);
}

/* ---- Members. */

static void others_are_told_every_heartbeat(void **state) {
    world *world = *state;
    enter(world);
    transport_recorder_open(&world->recorder, 2); /* links to twenty and thirty: the new view waits for them */
    transport_recorder_open(&world->recorder, 3);
    link_id link;
    span bytes;
    control_message message;
    for (int i = 0; i < 2; i++) {
        assert_true(transport_recorder_take(&world->recorder, &link, &bytes));
        assert_int_equal(control_message_decode(bytes, &message), MR_OK);
        assert_int_equal(message.kind, CONTROL_MESSAGE_VIEW);
    }
    int heartbeats = 0;
    for (int i = 0; i < 10; i++) { /* heartbeats of both arrive: none is suspected */
        pass(world, 100000);
        deliver_heartbeat(world, 5, 20, 1);
        deliver_heartbeat(world, 5, 30, 2);
        while (transport_recorder_take(&world->recorder, &link, &bytes)) {
            assert_int_equal(control_message_decode(bytes, &message), MR_OK);
            assert_int_equal(message.kind, CONTROL_MESSAGE_HEARTBEAT);
            assert_int_equal(message.stamp.view, 5);
            assert_int_equal(message.stamp.incarnation, 3);
            heartbeats++;
        }
    }
    assert_in_range(heartbeats, 2 * 10, 2 * 11);
}

static void the_silent_are_left_out_of_the_next_view(void **state) {
    world *world = *state;
    enter(world);
    bool proposed = false;
    for (int i = 0; i < 8 && !proposed; i++) {
        pass(world, 100000);
        deliver_heartbeat(world, 5, 20, 1);
        proposed = world->oracle.open && world->oracle.swap;
    }
    expect(world, true, MEMBERSHIP_VIEW_KEY);
    assert_int_equal(world->oracle.expected, 5);
    assert_non_null(membership_view_find(&world->oracle.proposed, 20));
    assert_null(membership_view_find(&world->oracle.proposed, 30));
    assert_true(membership_view_holds(&world->oracle.proposed, ME, 3));
    reply(world, MR_OK, 6, NULL);
    assert_int_equal(world->entered.number, 6);
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_IN);
}

static void an_old_incarnations_heartbeat_is_not_heard(void **state) {
    world *world = *state;
    enter(world);
    for (int i = 0; i < 8 && !(world->oracle.open && world->oracle.swap); i++) {
        pass(world, 100000);
        deliver_heartbeat(world, 5, 20, 1);
        deliver_heartbeat(world, 5, 30, 1); /* thirty has incarnation 2 */
    }
    expect(world, true, MEMBERSHIP_VIEW_KEY);
    assert_null(membership_view_find(&world->oracle.proposed, 30));
}

static void a_stalled_member_asks_before_it_suspects(void **state) {
    world *world = *state;
    enter(world);
    pass(world, 100000);
    world->recorder.clock.now_us += 5000000;
    membership_tick(world->membership, now_of(world));
    expect(world, false, MEMBERSHIP_VIEW_KEY); /* reads the newest view first */
    reply(world, MR_OK, 5, &world->entered);
    deliver_heartbeat(world, 5, 20, 1);
    deliver_heartbeat(world, 5, 30, 2);
    pass(world, 400000);
    assert_false(world->oracle.open && world->oracle.swap);
}

static void views_only_grow(void **state) {
    world *world = *state;
    enter(world);
    membership_view old = {.number = 5}, corrupt = {.number = 9};
    assert_int_equal(membership_view_put(&old, 20, 1, "twenty"), MR_OK); /* same number, other content */
    deliver_view(world, &old);
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_IN);
    old.number = 3;
    deliver_view(world, &old);
    assert_int_equal(world->entered.number, 5);
    pass(world, 2000000);
    if (world->oracle.open && !world->oracle.swap) reply(world, MR_OK, 3, &old);
    assert_int_equal(world->entered.number, 5);
    pass(world, 2000000);
    /* the encoded number 9 differs from the version 8 */
    if (world->oracle.open && !world->oracle.swap) reply(world, MR_OK, 8, &corrupt);
    assert_int_equal(world->entered.number, 5);
    membership_view_fini(&old);
}

/* ---- Removal. */

static void an_excluded_member_stops_and_enters_again(void **state) {
    world *world = *state;
    enter(world);
    membership_view without = {0};
    membership_view_copy(&without, &world->entered);
    membership_view_remove(&without, ME);
    without.number = 6;
    deliver_view(world, &without);
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_ENTERING);
    assert_int_equal(world->phases[MEMBERSHIP_ENTERING], 1);
    assert_int_equal(membership_incarnation(world->membership), 0);
    assert_false(membership_leads(world->membership));
    stamp stamp = {6, 20, 1};
    assert_int_equal(membership_admit(world->membership, world->link, &stamp), MR_CLOSED);
    pass(world, 200000);
    expect(world, false, MEMBERSHIP_INCARNATION_KEY);
    reply(world, MR_OK, 3, NULL);
    reply(world, MR_OK, 4, NULL);
    pass(world, 0);
    assert_true(membership_view_holds(&world->oracle.proposed, ME, 4));
    reply(world, MR_OK, 7, NULL);
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_IN);
    membership_view_fini(&without);
}

static void a_newer_incarnation_replaces_it_for_good(void **state) {
    world *world = *state;
    enter(world);
    membership_view with_other = {0};
    membership_view_copy(&with_other, &world->entered);
    assert_int_equal(membership_view_put(&with_other, ME, 8, "elsewhere"), MR_OK);
    with_other.number = 6;
    deliver_view(world, &with_other);
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_REPLACED);
    with_other.number = 7;
    membership_view_remove(&with_other, ME);
    deliver_view(world, &with_other);
    assert_int_equal(world->entered.number, 6);
    assert_int_equal(membership_next_us(world->membership), CLOCK_NEVER_US);
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_REPLACED);
    membership_view_fini(&with_other);
}

/* ---- A metadata store that lost its disk. */

/* The new generation has a number above all known ones and an empty view: all members enter again. */
static void an_empty_view_makes_all_members_enter_again(void **state) {
    world *world = *state;
    uint64_t begin = metadata_store_version(3, 0);
    enter(world);
    for (int i = 0; i < 20 && !world->oracle.open; i++) { /* until the next poll */
        pass(world, 100000);
        deliver_heartbeat(world, 5, 20, 1);
        deliver_heartbeat(world, 5, 30, 2);
    }
    expect(world, false, MEMBERSHIP_VIEW_KEY);
    /* the request has the newest known number, by which the metadata store detects its loss */
    assert_true(world->oracle.expected == 5);
    reply(world, MR_OK, begin, NULL);
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_ENTERING);
    assert_true(world->entered.number == begin && world->entered.count == 0);
    pass(world, 200000);
    expect(world, false, MEMBERSHIP_INCARNATION_KEY);
    reply(world, MR_OK, begin, NULL);
    reply(world, MR_OK, begin + 1, NULL);
    pass(world, 0);
    assert_true(world->oracle.expected == begin);
    assert_true(world->oracle.proposed.number == begin + 1 && world->oracle.proposed.count == 1);
    reply(world, MR_OK, begin + 1, NULL);
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_IN);
}

/* Incarnations of different generations have no order: a member is not replaced for good by one of another
 * generation. */
static void generations_do_not_replace_each_other(void **state) {
    world *world = *state;
    enter(world);
    membership_view with_other = {.number = metadata_store_version(3, 7)};
    assert_int_equal(membership_view_put(&with_other, ME, metadata_store_version(3, 2), "elsewhere"), MR_OK);
    deliver_view(world, &with_other);
    assert_int_equal(membership_phase_now(world->membership), MEMBERSHIP_ENTERING);
    assert_int_equal(membership_incarnation(world->membership), 0);
    membership_view_fini(&with_other);
}

/* ---- Fencing. */

static void only_the_same_view_is_admitted(void **state) {
    world *world = *state;
    stamp stamp = {5, 20, 1};
    assert_int_equal(membership_admit(world->membership, world->link, &stamp), MR_CLOSED);
    enter(world);
    (void)last_answer(world);
    assert_int_equal(membership_admit(world->membership, world->link, &stamp), MR_OK);
    assert_int_equal(last_answer(world).kind, 0);

    stamp.view = 4; /* the sender is sent the newer view */
    assert_int_equal(membership_admit(world->membership, world->link, &stamp), MR_STALE);
    control_message answer = last_answer(world);
    assert_int_equal(answer.kind, CONTROL_MESSAGE_VIEW);
    membership_view told = {0};
    assert_int_equal(membership_view_decode(answer.value, &told), MR_OK);
    assert_true(membership_view_equal(&told, &world->entered));
    membership_view_fini(&told);

    stamp.view = 6; /* this member's view is older: its number requests the newer one */
    assert_int_equal(membership_admit(world->membership, world->link, &stamp), MR_BUSY);
    answer = last_answer(world);
    assert_int_equal(answer.kind, CONTROL_MESSAGE_HEARTBEAT);
    assert_int_equal(answer.stamp.view, 5);

    stamp = (struct stamp){5, 20, 9}; /* another process of member twenty */
    assert_int_equal(membership_admit(world->membership, world->link, &stamp), MR_STALE);
    stamp = (struct stamp){5, 40, 1}; /* not a member */
    assert_int_equal(membership_admit(world->membership, world->link, &stamp), MR_STALE);
}

static void heartbeats_spread_views(void **state) {
    world *world = *state;
    enter(world);
    (void)last_answer(world);
    deliver_heartbeat(world, 4, 20, 1);
    assert_int_equal(last_answer(world).kind, CONTROL_MESSAGE_VIEW);
    deliver_heartbeat(world, 5, 20, 1);
    assert_int_equal(last_answer(world).kind, 0);
    deliver_heartbeat(world, 6, 20, 1);
    assert_int_equal(last_answer(world).kind, CONTROL_MESSAGE_HEARTBEAT);
    deliver_heartbeat(world, 2, 77, 70); /* a process that was removed long ago learns that */
    assert_int_equal(last_answer(world).kind, CONTROL_MESSAGE_VIEW);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_member_enters),
        IN_WORLD(the_first_one_makes_view_one),
        IN_WORLD(an_overtaken_proposal_is_repeated),
        IN_WORLD(a_proposal_without_an_answer_may_have_been_decided),
        IN_WORLD(failures_are_retried_less_and_less_often),
        IN_WORLD(others_are_told_every_heartbeat),
        IN_WORLD(the_silent_are_left_out_of_the_next_view),
        IN_WORLD(an_old_incarnations_heartbeat_is_not_heard),
        IN_WORLD(a_stalled_member_asks_before_it_suspects),
        IN_WORLD(views_only_grow),
        IN_WORLD(an_excluded_member_stops_and_enters_again),
        IN_WORLD(a_newer_incarnation_replaces_it_for_good),
        IN_WORLD(an_empty_view_makes_all_members_enter_again),
        IN_WORLD(generations_do_not_replace_each_other),
        IN_WORLD(only_the_same_view_is_admitted),
        IN_WORLD(heartbeats_spread_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
