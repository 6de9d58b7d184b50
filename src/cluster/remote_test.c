/* remote_test.c — each request is asked once and ends once: by its answer, by time, or with the client. */
#include "cluster/remote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/support/outcome.h"
#include "tests/support/recorder.h"

typedef struct world {
    recorder recorder;
    mail *mail;
    remote *remote;
    coordinator coordinator;
} world;

static void on_letter(void *context, link_id link, span bytes) {
    letter letter;
    assert_int_equal(letter_decode(bytes, &letter), MR_OK);
    assert_true(remote_take(((world *)context)->remote, &letter) == (letter.kind == LETTER_ANSWER));
}

static const mail_handlers handlers = {.on_letter = on_letter};

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    recorder_init(&world->recorder);
    world->mail = mail_create(&world->recorder.env, &handlers, world);
    recorder_listen(&world->recorder, &mail_events, world->mail);
    world->remote = remote_create(&world->recorder.env, world->mail, "keeper");
    world->coordinator = remote_coordinator(world->remote);
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    remote_destroy(world->remote);
    mail_destroy(world->mail);
    recorder_fini(&world->recorder);
    free(world);
    return 0;
}

static void get(world *world, const char *key, outcome *outcome) {
    world->coordinator.ops->get(world->coordinator.self, key, 4, outcome_done, outcome);
    if (world->recorder.opened == 1 && world->recorder.links[0].state == RECORDER_OPENING)
        recorder_open(&world->recorder, 1);
}

static letter question(world *world) {
    link_id link;
    span bytes;
    letter letter;
    assert_true(recorder_take(&world->recorder, &link, &bytes));
    assert_int_equal(letter_decode(bytes, &letter), MR_OK);
    return letter;
}

static void answer(world *world, uint64_t request, mr_status status, uint64_t version, const char *value) {
    letter letter = {.kind = LETTER_ANSWER,
                     .request = request,
                     .status = status,
                     .version = version,
                     .value = span_of(value, strlen(value))};
    uint8_t bytes[200];
    writer writer = writer_of(bytes, sizeof bytes);
    letter_encode(&letter, &writer);
    recorder_deliver(&world->recorder, (link_id){1}, span_of(bytes, writer_size(&writer)));
}

static void a_question_is_answered_once(void **state) {
    world *world = *state;
    outcome outcome = {0};
    get(world, "view", &outcome);
    letter asked = question(world);
    assert_int_equal(asked.kind, LETTER_GET);
    assert_memory_equal(asked.key.data, "view", 4);
    assert_int_equal(asked.version, 4);
    assert_int_equal(outcome.count, 0);
    answer(world, asked.request + 1, MR_OK, 3, "not yours");
    assert_int_equal(outcome.count, 0);
    answer(world, asked.request, MR_OK, 5, "value");
    answer(world, asked.request, MR_OK, 6, "again"); /* the network doubled it */
    assert_int_equal(outcome.count, 1);
    assert_int_equal(outcome.status, MR_OK);
    assert_int_equal(outcome.version, 5);
    assert_string_equal(outcome.value, "value");
    assert_int_equal(remote_next_us(world->remote), CLOCK_NEVER_US);
}

static void a_swap_says_what_it_expects(void **state) {
    world *world = *state;
    outcome outcome = {0};
    world->coordinator.ops->compare_and_swap(world->coordinator.self, "view", 7, span_of("new", 3), 0, outcome_done,
                                             &outcome);
    recorder_open(&world->recorder, 1);
    letter asked = question(world);
    assert_int_equal(asked.kind, LETTER_SWAP);
    assert_int_equal(asked.version, 7);
    assert_memory_equal(asked.value.data, "new", 3);
    answer(world, asked.request, MR_STALE, 9, "newer");
    assert_int_equal(outcome.status, MR_STALE);
    assert_int_equal(outcome.version, 9);
}

static void no_answer_ends_by_time(void **state) {
    world *world = *state;
    outcome first = {0}, second = {0};
    int64_t now_us = world->recorder.clock.now_us;
    get(world, "a", &first);
    world->recorder.clock.now_us += 1000;
    get(world, "b", &second);
    assert_int_equal(remote_next_us(world->remote), now_us + REMOTE_TIMEOUT_US);
    remote_tick(world->remote, now_us + REMOTE_TIMEOUT_US - 1);
    assert_int_equal(first.count, 0);
    remote_tick(world->remote, now_us + REMOTE_TIMEOUT_US);
    assert_int_equal(first.count, 1);
    assert_int_equal(first.status, MR_TIMEOUT);
    assert_int_equal(second.count, 0);
    answer(world, question(world).request, MR_OK, 1, ""); /* too late */
    assert_int_equal(first.count, 1);
    answer(world, question(world).request, MR_OK, 1, "");
    assert_int_equal(second.status, MR_OK);
}

static void what_is_open_ends_with_the_client(void **state) {
    world *world = *state;
    outcome outcome = {0};
    get(world, "a", &outcome);
    remote_destroy(world->remote);
    assert_int_equal(outcome.count, 1);
    assert_int_equal(outcome.status, MR_CLOSED);
    world->remote = remote_create(&world->recorder.env, world->mail, "keeper");
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_question_is_answered_once),
        IN_WORLD(a_swap_says_what_it_expects),
        IN_WORLD(no_answer_ends_by_time),
        IN_WORLD(what_is_open_ends_with_the_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
