/* metadata_remote_test.c — each request is sent once and ends once: by its answer, by time, or with the client. */
#include "cluster/metadata_remote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/support/metadata_answer.h"
#include "tests/support/transport_recorder.h"

typedef struct world {
    transport_recorder recorder;
    messenger *messenger;
    metadata_remote *remote;
    metadata_store store;
} world;

static void on_message(void *context, link_id link, span bytes) {
    control_message message;
    assert_int_equal(control_message_decode(bytes, &message), MR_OK);
    assert_true(metadata_remote_take(((world *)context)->remote, &message) == (message.kind == CONTROL_MESSAGE_ANSWER));
}

static const messenger_handlers handlers = {.on_message = on_message};

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    transport_recorder_init(&world->recorder);
    world->messenger = messenger_create(&world->recorder.env, &handlers, world);
    transport_recorder_listen(&world->recorder, &messenger_events, world->messenger);
    world->remote = metadata_remote_create(&world->recorder.env, world->messenger, "keeper");
    world->store = metadata_remote_metadata(world->remote);
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    metadata_remote_destroy(world->remote);
    messenger_destroy(world->messenger);
    transport_recorder_fini(&world->recorder);
    free(world);
    return 0;
}

static void get(world *world, const char *key, metadata_answer *answer) {
    world->store.ops->get(world->store.self, key, 4, metadata_answer_done, answer);
    if (world->recorder.opened == 1 && world->recorder.links[0].state == TRANSPORT_RECORDER_OPENING)
        transport_recorder_open(&world->recorder, 1);
}

static control_message question(world *world) {
    link_id link;
    span bytes;
    control_message message;
    assert_true(transport_recorder_take(&world->recorder, &link, &bytes));
    assert_int_equal(control_message_decode(bytes, &message), MR_OK);
    return message;
}

static void answer(world *world, uint64_t request, mr_status status, uint64_t version, const char *value) {
    control_message message = {.kind = CONTROL_MESSAGE_ANSWER,
                               .request = request,
                               .status = status,
                               .version = version,
                               .value = span_of(value, strlen(value))};
    uint8_t bytes[200];
    writer writer = writer_of(bytes, sizeof bytes);
    control_message_encode(&message, &writer);
    transport_recorder_deliver(&world->recorder, (link_id){1}, span_of(bytes, writer_size(&writer)));
}

static void a_question_is_answered_once(void **state) {
    world *world = *state;
    metadata_answer metadata_answer = {0};
    get(world, "view", &metadata_answer);
    control_message asked = question(world);
    assert_int_equal(asked.kind, CONTROL_MESSAGE_GET);
    assert_memory_equal(asked.key.data, "view", 4);
    assert_int_equal(asked.version, 4);
    assert_int_equal(metadata_answer.count, 0);
    answer(world, asked.request + 1, MR_OK, 3, "not yours");
    assert_int_equal(metadata_answer.count, 0);
    answer(world, asked.request, MR_OK, 5, "value");
    answer(world, asked.request, MR_OK, 6, "again"); /* duplicated by the network */
    assert_int_equal(metadata_answer.count, 1);
    assert_int_equal(metadata_answer.status, MR_OK);
    assert_int_equal(metadata_answer.version, 5);
    assert_string_equal(metadata_answer.value, "value");
    assert_int_equal(metadata_remote_next_us(world->remote), CLOCK_NEVER_US);
}

static void a_swap_says_what_it_expects(void **state) {
    world *world = *state;
    metadata_answer metadata_answer = {0};
    world->store.ops->compare_and_swap(world->store.self, "view", 7, span_of("new", 3), 0, metadata_answer_done,
                                       &metadata_answer);
    transport_recorder_open(&world->recorder, 1);
    control_message asked = question(world);
    assert_int_equal(asked.kind, CONTROL_MESSAGE_SWAP);
    assert_int_equal(asked.version, 7);
    assert_memory_equal(asked.value.data, "new", 3);
    answer(world, asked.request, MR_STALE, 9, "newer");
    assert_int_equal(metadata_answer.status, MR_STALE);
    assert_int_equal(metadata_answer.version, 9);
}

static void no_answer_ends_by_time(void **state) {
    world *world = *state;
    metadata_answer first = {0}, second = {0};
    int64_t now_us = world->recorder.clock.now_us;
    get(world, "a", &first);
    world->recorder.clock.now_us += 1000;
    get(world, "b", &second);
    assert_int_equal(metadata_remote_next_us(world->remote), now_us + METADATA_REMOTE_TIMEOUT_US);
    metadata_remote_tick(world->remote, now_us + METADATA_REMOTE_TIMEOUT_US - 1);
    assert_int_equal(first.count, 0);
    metadata_remote_tick(world->remote, now_us + METADATA_REMOTE_TIMEOUT_US);
    assert_int_equal(first.count, 1);
    assert_int_equal(first.status, MR_TIMEOUT);
    assert_int_equal(second.count, 0);
    answer(world, question(world).request, MR_OK, 1, ""); /* too late */
    assert_int_equal(first.count, 1);
    answer(world, question(world).request, MR_OK, 1, "");
    assert_int_equal(second.status, MR_OK);
}

static void open_requests_end_with_the_client(void **state) {
    world *world = *state;
    metadata_answer answer = {0};
    get(world, "a", &answer);
    metadata_remote_destroy(world->remote);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.status, MR_CLOSED);
    world->remote = metadata_remote_create(&world->recorder.env, world->messenger, "keeper");
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_question_is_answered_once),
        IN_WORLD(a_swap_says_what_it_expects),
        IN_WORLD(no_answer_ends_by_time),
        IN_WORLD(open_requests_end_with_the_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
