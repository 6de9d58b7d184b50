/* control_message_test.c — every kind decodes to what was encoded, and other bytes are rejected. */
#include "cluster/control_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

static const stamp who = {.view = 3, .id = 10, .incarnation = 7};

static span text(const char *text) { return span_of(text, strlen(text)); }

static size_t encode(const control_message *message, uint8_t *bytes, size_t room) {
    writer writer = writer_of(bytes, room);
    control_message_encode(message, &writer);
    assert_false(writer.failed);
    assert_int_equal(writer_size(&writer), control_message_size(message));
    return writer_size(&writer);
}

static void assert_span_equal(span a, span b) {
    assert_int_equal(a.size, b.size);
    if (a.size != 0) assert_memory_equal(a.data, b.data, a.size);
}

static void control_messages_come_back_as_they_went(void **state) {
    const control_message messages[] = {
        {.kind = CONTROL_MESSAGE_HEARTBEAT, .stamp = who},
        {.kind = CONTROL_MESSAGE_VIEW, .stamp = who, .value = text("a view")},
        {.kind = CONTROL_MESSAGE_GET, .stamp = who, .request = 77, .key = text("key"), .version = 6},
        {.kind = CONTROL_MESSAGE_SWAP,
         .request = 78,
         .key = text("key"),
         .version = 5,
         .lease = 3,
         .value = text("value")},
        {.kind = CONTROL_MESSAGE_WATCH, .request = 80, .key = text("key"), .version = 6},
        {.kind = CONTROL_MESSAGE_LEASE, .request = 81, .lease = 4, .ttl_us = 1000},
        {.kind = CONTROL_MESSAGE_ANSWER, .request = 79, .status = MR_STALE, .version = 6, .value = text("other")},
        {.kind = CONTROL_MESSAGE_USER + 5, .stamp = who, .value = text("whatever")},
    };
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        uint8_t bytes[200];
        size_t size = encode(&messages[i], bytes, sizeof bytes);
        control_message again;
        assert_int_equal(control_message_decode(span_of(bytes, size), &again), MR_OK);
        assert_int_equal(again.kind, messages[i].kind);
        assert_memory_equal(&again.stamp, &messages[i].stamp, sizeof again.stamp);
        assert_int_equal(again.request, messages[i].request);
        assert_int_equal(again.version, messages[i].version);
        assert_int_equal(again.lease, messages[i].lease);
        assert_int_equal(again.ttl_us, messages[i].ttl_us);
        assert_int_equal(again.status, messages[i].status);
        assert_span_equal(again.key, messages[i].key);
        assert_span_equal(again.value, messages[i].value);
    }
}

static void half_messages_are_refused(void **state) {
    const control_message swap = {
        .kind = CONTROL_MESSAGE_SWAP, .request = 78, .key = text("key"), .version = 5, .value = text("value")};
    uint8_t bytes[200];
    size_t size = encode(&swap, bytes, sizeof bytes);
    control_message out = {.request = 1234};
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(control_message_decode(span_of(bytes, cut), &out), MR_CORRUPT);
    bytes[size] = 0;
    assert_int_equal(control_message_decode(span_of(bytes, size + 1), &out), MR_CORRUPT);
    assert_int_equal(out.request, 1234);
}

static void kinds_and_statuses_must_be_known(void **state) {
    const control_message answer = {.kind = CONTROL_MESSAGE_ANSWER, .status = MR_OK};
    uint8_t bytes[200];
    size_t size = encode(&answer, bytes, sizeof bytes);
    control_message out;
    bytes[CONTROL_MESSAGE_HEAD_SIZE + 8] = 200;
    assert_int_equal(control_message_decode(span_of(bytes, size), &out), MR_CORRUPT);
    bytes[CONTROL_MESSAGE_HEAD_SIZE + 8] = MR_TIMEOUT;
    assert_int_equal(control_message_decode(span_of(bytes, size), &out), MR_OK);
    for (int kind = 0; kind < CONTROL_MESSAGE_USER; kind++) {
        bytes[0] = (uint8_t)kind;
        bool known = kind >= CONTROL_MESSAGE_HEARTBEAT && kind <= CONTROL_MESSAGE_LEASE;
        if (!known) assert_int_equal(control_message_decode(span_of(bytes, size), &out), MR_CORRUPT);
    }
}

static void sizes_have_bounds(void **state) {
    size_t room = CONTROL_MESSAGE_SIZE_MAX + 10;
    uint8_t *bytes = xcalloc(1, room), *value = xcalloc(1, CONTROL_MESSAGE_VALUE_MAX + 1);
    const control_message largest = {.kind = CONTROL_MESSAGE_VIEW, .value = span_of(value, CONTROL_MESSAGE_VALUE_MAX)};
    size_t size = encode(&largest, bytes, room);
    control_message out;
    assert_int_equal(control_message_decode(span_of(bytes, size), &out), MR_OK);
    assert_int_equal(control_message_decode(span_of(bytes, size + 1), &out), MR_CORRUPT);
    char key[CONTROL_MESSAGE_KEY_MAX + 1];
    memset(key, 'k', sizeof key);
    const control_message get = {.kind = CONTROL_MESSAGE_GET, .key = span_of(key, CONTROL_MESSAGE_KEY_MAX)};
    size = encode(&get, bytes, room);
    assert_int_equal(control_message_decode(span_of(bytes, size), &out), MR_OK);
    bytes[CONTROL_MESSAGE_HEAD_SIZE + 8] = CONTROL_MESSAGE_KEY_MAX + 1;
    assert_int_equal(control_message_decode(span_of(bytes, size + 1), &out), MR_CORRUPT);
    free(bytes);
    free(value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_messages_come_back_as_they_went),
        cmocka_unit_test(half_messages_are_refused),
        cmocka_unit_test(kinds_and_statuses_must_be_known),
        cmocka_unit_test(sizes_have_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
