/* letter_test.c — every kind comes back as it went, and nothing else is read. */
#include "cluster/letter.h"

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

static size_t encode(const letter *letter, uint8_t *bytes, size_t room) {
    writer writer = writer_of(bytes, room);
    letter_encode(letter, &writer);
    assert_false(writer.failed);
    assert_int_equal(writer_size(&writer), letter_size(letter));
    return writer_size(&writer);
}

static void assert_span_equal(span a, span b) {
    assert_int_equal(a.size, b.size);
    if (a.size != 0) assert_memory_equal(a.data, b.data, a.size);
}

static void letters_come_back_as_they_went(void **state) {
    const letter letters[] = {
        {.kind = LETTER_HEARTBEAT, .stamp = who},
        {.kind = LETTER_VIEW, .stamp = who, .value = text("a view")},
        {.kind = LETTER_GET, .stamp = who, .request = 77, .key = text("key"), .version = 6},
        {.kind = LETTER_SWAP, .request = 78, .key = text("key"), .version = 5, .lease = 3, .value = text("value")},
        {.kind = LETTER_WATCH, .request = 80, .key = text("key"), .version = 6},
        {.kind = LETTER_LEASE, .request = 81, .lease = 4, .ttl_us = 1000},
        {.kind = LETTER_ANSWER, .request = 79, .status = MR_STALE, .version = 6, .value = text("other")},
        {.kind = LETTER_USER + 5, .stamp = who, .value = text("whatever")},
    };
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        uint8_t bytes[200];
        size_t size = encode(&letters[i], bytes, sizeof bytes);
        letter again;
        assert_int_equal(letter_decode(span_of(bytes, size), &again), MR_OK);
        assert_int_equal(again.kind, letters[i].kind);
        assert_memory_equal(&again.stamp, &letters[i].stamp, sizeof again.stamp);
        assert_int_equal(again.request, letters[i].request);
        assert_int_equal(again.version, letters[i].version);
        assert_int_equal(again.lease, letters[i].lease);
        assert_int_equal(again.ttl_us, letters[i].ttl_us);
        assert_int_equal(again.status, letters[i].status);
        assert_span_equal(again.key, letters[i].key);
        assert_span_equal(again.value, letters[i].value);
    }
}

static void half_letters_are_refused(void **state) {
    const letter swap = {.kind = LETTER_SWAP, .request = 78, .key = text("key"), .version = 5, .value = text("value")};
    uint8_t bytes[200];
    size_t size = encode(&swap, bytes, sizeof bytes);
    letter out = {.request = 1234};
    for (size_t cut = 0; cut < size; cut++) assert_int_equal(letter_decode(span_of(bytes, cut), &out), MR_CORRUPT);
    bytes[size] = 0;
    assert_int_equal(letter_decode(span_of(bytes, size + 1), &out), MR_CORRUPT);
    assert_int_equal(out.request, 1234);
}

static void kinds_and_statuses_must_be_known(void **state) {
    const letter answer = {.kind = LETTER_ANSWER, .status = MR_OK};
    uint8_t bytes[200];
    size_t size = encode(&answer, bytes, sizeof bytes);
    letter out;
    bytes[LETTER_HEAD_SIZE + 8] = 200;
    assert_int_equal(letter_decode(span_of(bytes, size), &out), MR_CORRUPT);
    bytes[LETTER_HEAD_SIZE + 8] = MR_TIMEOUT;
    assert_int_equal(letter_decode(span_of(bytes, size), &out), MR_OK);
    for (int kind = 0; kind < LETTER_USER; kind++) {
        bytes[0] = (uint8_t)kind;
        bool known = kind >= LETTER_HEARTBEAT && kind <= LETTER_LEASE;
        if (!known) assert_int_equal(letter_decode(span_of(bytes, size), &out), MR_CORRUPT);
    }
}

static void sizes_have_bounds(void **state) {
    size_t room = LETTER_SIZE_MAX + 10;
    uint8_t *bytes = xcalloc(1, room), *value = xcalloc(1, LETTER_VALUE_MAX + 1);
    const letter largest = {.kind = LETTER_VIEW, .value = span_of(value, LETTER_VALUE_MAX)};
    size_t size = encode(&largest, bytes, room);
    letter out;
    assert_int_equal(letter_decode(span_of(bytes, size), &out), MR_OK);
    assert_int_equal(letter_decode(span_of(bytes, size + 1), &out), MR_CORRUPT);
    char key[LETTER_KEY_MAX + 1];
    memset(key, 'k', sizeof key);
    const letter get = {.kind = LETTER_GET, .key = span_of(key, LETTER_KEY_MAX)};
    size = encode(&get, bytes, room);
    assert_int_equal(letter_decode(span_of(bytes, size), &out), MR_OK);
    bytes[LETTER_HEAD_SIZE + 8] = LETTER_KEY_MAX + 1;
    assert_int_equal(letter_decode(span_of(bytes, size + 1), &out), MR_CORRUPT);
    free(bytes);
    free(value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_come_back_as_they_went),
        cmocka_unit_test(half_letters_are_refused),
        cmocka_unit_test(kinds_and_statuses_must_be_known),
        cmocka_unit_test(sizes_have_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
