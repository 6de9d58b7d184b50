/* messenger_test.c — messages use the link of their address, wait for it, or are lost; broken links are retried later;
 * large messages are not copied, and their size is checked. */
#include "cluster/messenger.h"

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

typedef struct world {
    transport_recorder recorder;
    messenger *messenger;
    char got[100], broken[100];
    link_id link;
    bool forgets;
    shared_bytes *bytes;
    size_t sent;
    mr_status sent_status;
} world;

static void on_message(void *context, link_id link, span bytes) {
    world *world = context;
    world->link = link;
    snprintf(world->got, sizeof world->got, "%.*s", (int)bytes.size, (const char *)bytes.data);
}

static void on_broken(void *context, const char *address, const cause *why) {
    world *world = context;
    if (world->forgets) messenger_forget(world->messenger, address);
    snprintf(world->broken, sizeof world->broken, "%s %s", address, mr_status_name(why->status));
}

static void on_bytes(void *context, link_id link, shared_bytes *bytes) {
    world *world = context;
    world->link = link;
    shared_bytes_unref(world->bytes);
    world->bytes = shared_bytes_ref(bytes);
}

static void on_sent(void *argument, mr_status status) {
    world *world = argument;
    world->sent++;
    world->sent_status = status;
}

static const messenger_handlers handlers = {on_message, on_broken, on_bytes},
                                without_bytes = {.on_message = on_message};

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    transport_recorder_init(&world->recorder);
    world->messenger = messenger_create(&world->recorder.env, &handlers, world);
    transport_recorder_listen(&world->recorder, &messenger_events, world->messenger);
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    messenger_destroy(world->messenger);
    shared_bytes_unref(world->bytes);
    transport_recorder_fini(&world->recorder);
    free(world);
    return 0;
}

static void send_text(world *world, const char *address, const char *text) {
    messenger_send(world->messenger, address, span_of(text, strlen(text)));
}

static void assert_sent(world *world, uint32_t link, const char *text) {
    link_id id;
    span bytes;
    assert_true(transport_recorder_take(&world->recorder, &id, &bytes));
    assert_int_equal(id.v, link);
    assert_int_equal(bytes.size, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.size);
}

static void assert_nothing_sent(world *world) {
    link_id id;
    span bytes;
    assert_false(transport_recorder_take(&world->recorder, &id, &bytes));
}

static void messages_wait_while_the_link_opens(void **state) {
    world *world = *state;
    send_text(world, "a", "one");
    send_text(world, "b", "other");
    send_text(world, "a", "two");
    assert_int_equal(world->recorder.opened, 2);
    assert_string_equal(world->recorder.links[0].address, "a");
    assert_nothing_sent(world);
    transport_recorder_open(&world->recorder, 1);
    assert_sent(world, 1, "one");
    assert_sent(world, 1, "two");
    send_text(world, "a", "three");
    assert_sent(world, 1, "three");
    transport_recorder_open(&world->recorder, 2);
    assert_sent(world, 2, "other");
    assert_nothing_sent(world);
}

static void only_a_few_wait(void **state) {
    world *world = *state;
    static const char *const messages[] = {"0", "1", "2", "3", "4", "5"};
    for (size_t i = 0; i < 6; i++) send_text(world, "a", messages[i]);
    transport_recorder_open(&world->recorder, 1);
    for (size_t i = 6 - MESSENGER_KEPT; i < 6; i++) assert_sent(world, 1, messages[i]);
    assert_nothing_sent(world);
}

static void a_broken_link_is_opened_again_later(void **state) {
    world *world = *state;
    send_text(world, "a", "one");
    transport_recorder_close(&world->recorder, 1, MR_PEER_DIED);
    assert_string_equal(world->broken, "a PEER_DIED");
    send_text(world, "a", "two"); /* before the retry time: lost */
    assert_int_equal(world->recorder.opened, 1);
    world->recorder.clock.now_us += MESSENGER_RETRY_US;
    send_text(world, "a", "three");
    assert_int_equal(world->recorder.opened, 2);
    transport_recorder_open(&world->recorder, 2);
    assert_sent(world, 2, "three");
    assert_nothing_sent(world);
}

/* Only a failed attempt to open a link shows that no process is there. */
static void an_address_without_a_process_is_gone(void **state) {
    world *world = *state;
    const mr_status failures[] = {MR_NOT_FOUND, MR_TIMEOUT, MR_PEER_DIED};
    assert_false(messenger_is_gone(world->messenger, "a"));
    messenger_reach(world->messenger, "a");
    assert_int_equal(world->recorder.opened, 1);
    messenger_reach(world->messenger, "a"); /* the link is opening */
    assert_int_equal(world->recorder.opened, 1);
    transport_recorder_open(&world->recorder, 1);
    transport_recorder_close(&world->recorder, 1, MR_PEER_DIED);
    assert_false(messenger_is_gone(world->messenger, "a"));
    for (uint32_t i = 0; i < 3; i++) {
        world->recorder.clock.now_us += MESSENGER_RETRY_US;
        messenger_reach(world->messenger, "a");
        assert_int_equal(world->recorder.opened, i + 2);
        transport_recorder_close(&world->recorder, i + 2, failures[i]);
        assert_int_equal(messenger_is_gone(world->messenger, "a"), failures[i] != MR_TIMEOUT);
    }
    world->recorder.clock.now_us += MESSENGER_RETRY_US;
    messenger_reach(world->messenger, "a");
    assert_false(messenger_is_gone(world->messenger, "a")); /* another process may be there by now */
    transport_recorder_open(&world->recorder, 5);
    assert_false(messenger_is_gone(world->messenger, "a"));
    assert_nothing_sent(world);
}

static void all_links_are_told(void **state) {
    world *world = *state;
    messenger_reach(world->messenger, "a");
    messenger_reach(world->messenger, "b");
    transport_recorder_open(&world->recorder, 1);
    link_id in = transport_recorder_dial_in(&world->recorder);
    messenger_tell_all(world->messenger, span_of("end", 3));
    bool told[4] = {false};
    for (int i = 0; i < 2; i++) {
        link_id link;
        span bytes;
        assert_true(transport_recorder_take(&world->recorder, &link, &bytes));
        assert_memory_equal(bytes.data, "end", 3);
        told[link.v] = true;
    }
    assert_true(told[1] && told[in.v]); /* not the link that is opening */
    assert_nothing_sent(world);
}

static void an_address_that_is_none_loses_messages(void **state) {
    world *world = *state;
    world->recorder.refuses = true;
    send_text(world, "nonsense", "one");
    assert_int_equal(world->recorder.opened, 0);
    world->recorder.refuses = false;
    world->recorder.clock.now_us += MESSENGER_RETRY_US;
    send_text(world, "nonsense", "two");
    transport_recorder_open(&world->recorder, 1);
    assert_sent(world, 1, "two");
}

static void a_full_link_loses_messages(void **state) {
    world *world = *state;
    send_text(world, "a", "one");
    transport_recorder_open(&world->recorder, 1);
    assert_sent(world, 1, "one");
    world->recorder.full = true;
    send_text(world, "a", "two");
    world->recorder.full = false;
    send_text(world, "a", "three");
    assert_sent(world, 1, "three");
}

static void answers_go_back_where_the_message_came_from(void **state) {
    world *world = *state;
    link_id link = transport_recorder_dial_in(&world->recorder);
    transport_recorder_deliver(&world->recorder, link, span_of("question", 8));
    assert_string_equal(world->got, "question");
    assert_int_equal(world->link.v, link.v);
    messenger_answer(world->messenger, world->link, span_of("answer", 6));
    assert_sent(world, link.v, "answer");
    transport_recorder_close(&world->recorder, link.v, MR_CLOSED);
    assert_string_equal(world->broken, ""); /* not a link that was opened here */
    messenger_answer(world->messenger, world->link, span_of("answer", 6));
    assert_nothing_sent(world);
}

static void a_forgotten_link_is_closed(void **state) {
    world *world = *state;
    messenger_forget(world->messenger, "a");
    send_text(world, "a", "one");
    transport_recorder_open(&world->recorder, 1);
    messenger_forget(world->messenger, "a");
    assert_int_equal(world->recorder.links[0].state, TRANSPORT_RECORDER_CLOSING);
    transport_recorder_close(&world->recorder, 1, MR_CLOSED);
    assert_string_equal(world->broken, "");
    send_text(world, "a", "two");
    assert_int_equal(world->recorder.opened, 2);
}

static void a_handler_may_forget_what_broke(void **state) {
    world *world = *state;
    world->forgets = true;
    send_text(world, "a", "one");
    transport_recorder_close(&world->recorder, 1, MR_TIMEOUT);
    assert_string_equal(world->broken, "a TIMEOUT");
}

/* ---- Large messages. */

/* The process at an address is the one to which a link was opened there; links that it opens are from it, too. */
static void a_process_is_known_by_its_link(void **state) {
    world *world = *state;
    const peer listener = {.process = 70}, other = {.process = 80};
    send_text(world, "a", "x");
    link_id own = {1};
    assert_false(messenger_is_from(world->messenger, own, "a")); /* not open yet */
    messenger_events.on_open(world->messenger, own, &listener);
    messenger_events.on_open(world->messenger, (link_id){901}, &listener); /* opened by the other side */
    messenger_events.on_open(world->messenger, (link_id){902}, &other);
    assert_true(messenger_is_from(world->messenger, own, "a"));
    assert_true(messenger_is_from(world->messenger, (link_id){901}, "a"));
    assert_false(messenger_is_from(world->messenger, (link_id){902}, "a"));
    assert_false(messenger_is_from(world->messenger, (link_id){901}, "b"));
    assert_false(messenger_is_from(world->messenger, (link_id){903}, "a"));
    assert_int_equal(messenger_process(world->messenger, (link_id){902}), 80);
    assert_string_equal(messenger_trouble(world->messenger, "a"), "");
    messenger_events.on_closed(world->messenger, own, &(cause){.status = MR_PEER_DIED, .text = "it is gone"});
    assert_string_equal(messenger_trouble(world->messenger, "a"), "it is gone");
    assert_true(messenger_is_from(world->messenger, (link_id){901}, "a")); /* still the last process there */
    messenger_events.on_closed(world->messenger, (link_id){902}, &(cause){.status = MR_CLOSED});
    assert_int_equal(messenger_process(world->messenger, (link_id){902}), 0);
}

static void large_messages_come_in_a_bytes(void **state) {
    world *world = *state;
    link_id link = transport_recorder_dial_in(&world->recorder);
    uint8_t *place = messenger_events.on_body(world->messenger, link, (span){0}, 10000);
    assert_non_null(place);
    memset(place, 'x', 10000);
    messenger_events.on_message(world->messenger, link, &(message){.body = span_of(place, 10000)});
    assert_int_equal(world->link.v, link.v);
    assert_ptr_equal(shared_bytes_bytes(world->bytes).data, place);
    assert_int_equal(shared_bytes_bytes(world->bytes).size, 10000);
    assert_int_equal(world->bytes->refs, 1);
    assert_string_equal(world->got, "");
}

static void large_messages_are_bounded(void **state) {
    world *world = *state;
    link_id link = transport_recorder_dial_in(&world->recorder);
    assert_null(messenger_events.on_body(world->messenger, link, (span){0}, (uint64_t)MESSENGER_MESSAGE_MAX + 1));
    alloc_fail_at(1);
    assert_ptr_equal(messenger_events.on_body(world->messenger, link, (span){0}, 10000), BODY_DISCARD);
    alloc_fail_at(0);
    /* no memory: the message is lost */
    messenger_events.on_message(world->messenger, link, &(message){.body = span_of(NULL, 10000)});
    assert_null(world->bytes);
    assert_string_equal(world->got, "");
    messenger *other = messenger_create(&world->recorder.env, &without_bytes, world);
    assert_null(messenger_events.on_body(other, link, (span){0}, 10000));
    messenger_destroy(other);
}

static void half_a_message_goes_with_its_link(void **state) {
    world *world = *state;
    link_id link = transport_recorder_dial_in(&world->recorder), other = transport_recorder_dial_in(&world->recorder);
    assert_non_null(messenger_events.on_body(world->messenger, link, (span){0}, 10000));
    assert_non_null(messenger_events.on_body(world->messenger, other, (span){0}, 10000)); /* freed with the messenger */
    transport_recorder_close(&world->recorder, link.v, MR_PEER_DIED);
    assert_null(world->bytes);
}

static void pieces_are_sent_in_one(void **state) {
    world *world = *state;
    uint8_t *large = xcalloc(1, 3 * MESSENGER_SMALL);
    const span small[] = {span_of("ab", 2), span_of("", 0), span_of("cde", 3)};
    const span pieces[] = {span_of("head", 4), span_of(large, 3 * MESSENGER_SMALL)};
    messenger_send_pieces(world->messenger, "a", small, 3, on_sent, world); /* kept without a copy */
    messenger_send_pieces(world->messenger, "a", pieces, 2, on_sent, world);
    assert_int_equal(world->sent, 0);
    transport_recorder_open(&world->recorder, 1);
    assert_true(world->sent == 2 && world->sent_status == MR_OK);
    assert_sent(world, 1, "abcde");
    link_id id;
    span bytes;
    assert_true(transport_recorder_take(&world->recorder, &id, &bytes));
    assert_int_equal(bytes.size, 4 + 3 * MESSENGER_SMALL);
    assert_memory_equal(bytes.data, "head", 4);
    world->recorder.full = true;
    messenger_send_pieces(world->messenger, "a", pieces, 2, on_sent, world);
    assert_true(world->sent == 3 && world->sent_status == MR_BUSY);
    assert_nothing_sent(world);
    free(large);
}

static void pieces_that_are_lost_are_given_back(void **state) {
    world *world = *state;
    const span piece = span_of("x", 1);
    for (size_t i = 0; i <= MESSENGER_KEPT; i++)
        messenger_send_pieces(world->messenger, "a", &piece, 1, on_sent, world);
    assert_true(world->sent == 1 && world->sent_status == MR_CLOSED);
    transport_recorder_close(&world->recorder, 1, MR_PEER_DIED);
    assert_int_equal(world->sent, MESSENGER_KEPT + 1);
    messenger_send_pieces(world->messenger, "a", &piece, 1, on_sent, world); /* before the retry time */
    assert_int_equal(world->sent, MESSENGER_KEPT + 2);
}

static void pieces_that_wait_can_move(void **state) {
    world *world = *state;
    char memory[] = "abcd", copy[] = "abcd";
    const span pieces[] = {span_of("1", 1), span_of(memory + 1, 3)};
    messenger_send_pieces(world->messenger, "a", pieces, 2, on_sent, world);
    /* no message has this argument */
    messenger_move_pieces(world->messenger, memory, span_of(memory, 4), span_of("xxxx", 4));
    messenger_move_pieces(world->messenger, world, span_of(memory, 4), span_of(copy, 4));
    memset(memory, 'x', 4);
    transport_recorder_open(&world->recorder, 1);
    assert_sent(world, 1, "1bcd");
    transport_recorder_close(&world->recorder, 1, MR_PEER_DIED);
}

static void pieces_that_cannot_stay_are_lost(void **state) {
    world *world = *state;
    const span piece = span_of("abcd", 4), other = span_of("efgh", 4);
    messenger_send_pieces(world->messenger, "a", &piece, 1, on_sent, world);
    messenger_send_pieces(world->messenger, "a", &other, 1, on_sent, world);
    messenger_move_pieces(world->messenger, world, piece, (span){0});
    assert_true(world->sent == 1 && world->sent_status == MR_CLOSED);
    transport_recorder_open(&world->recorder, 1);
    assert_sent(world, 1, "efgh");
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_process_is_known_by_its_link),
        IN_WORLD(messages_wait_while_the_link_opens),
        IN_WORLD(only_a_few_wait),
        IN_WORLD(a_broken_link_is_opened_again_later),
        IN_WORLD(an_address_without_a_process_is_gone),
        IN_WORLD(all_links_are_told),
        IN_WORLD(an_address_that_is_none_loses_messages),
        IN_WORLD(a_full_link_loses_messages),
        IN_WORLD(answers_go_back_where_the_message_came_from),
        IN_WORLD(pieces_that_wait_can_move),
        IN_WORLD(pieces_that_cannot_stay_are_lost),
        IN_WORLD(a_forgotten_link_is_closed),
        IN_WORLD(a_handler_may_forget_what_broke),
        IN_WORLD(large_messages_come_in_a_bytes),
        IN_WORLD(large_messages_are_bounded),
        IN_WORLD(half_a_message_goes_with_its_link),
        IN_WORLD(pieces_are_sent_in_one),
        IN_WORLD(pieces_that_are_lost_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
