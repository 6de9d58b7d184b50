/* handshake_test.c — HELLO and BYE: encoded and decoded, truncated, damaged. */
#include "net/socket/handshake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

static void hello_there_and_back(void **state) {
    peer self = {.process = UINT64_C(0x123456789abcdef0), .pid = 4711, .name = "worker 3"}, other;
    uint8_t bytes[HANDSHAKE_HELLO_MAX];
    size_t size = handshake_hello_encode(bytes, &self);
    assert_int_equal(size, 20 + 8);
    assert_int_equal(handshake_hello_decode(span_of(bytes, size), &other), MR_OK);
    assert_true(other.process == self.process);
    assert_int_equal(other.pid, 4711);
    assert_string_equal(other.name, "worker 3");
}

static void hello_with_the_longest_name(void **state) {
    peer self = {.process = 1}, other;
    memset(self.name, 'n', sizeof self.name); /* without a NUL */
    self.name[5] = '\n';
    uint8_t bytes[HANDSHAKE_HELLO_MAX];
    size_t size = handshake_hello_encode(bytes, &self);
    assert_int_equal(size, HANDSHAKE_HELLO_MAX);
    assert_int_equal(handshake_hello_decode(span_of(bytes, size), &other), MR_OK);
    assert_int_equal(strlen(other.name), PEER_NAME_MAX - 1);
    assert_int_equal(other.name[5], '?');
}

static void another_protocol_is_denied(void **state) {
    peer self = {.process = 1}, other;
    uint8_t bytes[HANDSHAKE_HELLO_MAX];
    size_t size = handshake_hello_encode(bytes, &self);
    bytes[0]++;
    assert_int_equal(handshake_hello_decode(span_of(bytes, size), &other), MR_DENIED);
    assert_int_equal(handshake_hello_decode(span_of(bytes, 4), &other), MR_DENIED); /* whatever the other fields are */
    assert_non_null(strstr(mr_last_error(), "protocol 2, this program speaks 1: use the same Miniray release"));
}

static void a_broken_hello_is_refused(void **state) {
    peer self = {.process = 1, .name = "x"}, other;
    uint8_t bytes[HANDSHAKE_HELLO_MAX + 1], broken[HANDSHAKE_HELLO_MAX + 1];
    size_t size = handshake_hello_encode(bytes, &self);
    bytes[size] = 0;
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(handshake_hello_decode(span_of(bytes, cut), &other), MR_CORRUPT);
    assert_int_equal(handshake_hello_decode(span_of(bytes, size + 1), &other), MR_CORRUPT); /* longer than stated */
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {{7, 0x80} /* pid */, {8, 0} /* process 0 */, {16, 2}, {16, 0}, {19, 255}, {20, '\n'}, {20, 0}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        memcpy(broken, bytes, sizeof broken);
        broken[changes[i].at] = changes[i].value;
        assert_int_equal(handshake_hello_decode(span_of(broken, size), &other), MR_CORRUPT);
    }
}

static void bye_there_and_back(void **state) {
    uint8_t bytes[HANDSHAKE_BYE_MAX];
    cause cause;
    size_t size = handshake_bye_encode(bytes, MR_CLOSED, "not sent");
    assert_int_equal(size, 0);
    assert_int_equal(handshake_bye_decode(span_of(bytes, size), &cause), MR_OK);
    assert_int_equal(cause.status, MR_CLOSED);
    size = handshake_bye_encode(bytes, MR_CORRUPT, "a frame of unknown kind 9");
    assert_int_equal(handshake_bye_decode(span_of(bytes, size), &cause), MR_OK);
    assert_int_equal(cause.status, MR_CORRUPT);
    assert_string_equal(cause.text, "the peer ended the link: a frame of unknown kind 9");
    assert_int_equal(cause.exit_code, -1);
    char longest[600];
    memset(longest, 'l', sizeof longest);
    size = handshake_bye_encode(bytes, MR_DENIED, longest);
    assert_int_equal(size, HANDSHAKE_BYE_MAX);
    assert_int_equal(handshake_bye_decode(span_of(bytes, size), &cause), MR_OK);
}

static void a_broken_bye_is_refused(void **state) {
    uint8_t bytes[HANDSHAKE_BYE_MAX];
    cause cause;
    size_t size = handshake_bye_encode(bytes, MR_IO, "text");
    for (size_t cut = 1; cut < size; cut++)
        assert_int_equal(handshake_bye_decode(span_of(bytes, cut), &cause), MR_CORRUPT);
    static const uint8_t statuses[] = {MR_OK, MR_CLOSED, 200};
    for (size_t i = 0; i < sizeof statuses; i++) {
        bytes[0] = statuses[i];
        assert_int_equal(handshake_bye_decode(span_of(bytes, size), &cause), MR_CORRUPT);
    }
}

/* A head that decodes encodes to the same bytes. */
static void random_bytes_are_refused_or_exact(void **state) {
    rng rng;
    rng_init(&rng, 3);
    int accepted = 0;
    for (int i = 0; i < 200000; i++) {
        uint8_t bytes[HANDSHAKE_HELLO_MAX] = {0}, again[HANDSHAKE_HELLO_MAX];
        peer self = {.process = rng_next(&rng), .pid = (int)rng_below(&rng, 100000), .name = "somebody"}, other;
        size_t size = handshake_hello_encode(bytes, &self);
        for (uint64_t n = rng_below(&rng, 3); n > 0; n--)
            bytes[rng_below(&rng, size)] ^= (uint8_t)(1u << rng_below(&rng, 8));
        if (rng_chance(&rng, 0.1)) size = (size_t)rng_below(&rng, sizeof bytes + 1);
        if (handshake_hello_decode(span_of(bytes, size), &other) != MR_OK) continue;
        accepted++;
        assert_int_equal(handshake_hello_encode(again, &other), size);
        assert_memory_equal(again, bytes, size);
    }
    assert_true(accepted > 10000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_there_and_back),
        cmocka_unit_test(hello_with_the_longest_name),
        cmocka_unit_test(another_protocol_is_denied),
        cmocka_unit_test(a_broken_hello_is_refused),
        cmocka_unit_test(bye_there_and_back),
        cmocka_unit_test(a_broken_bye_is_refused),
        cmocka_unit_test(random_bytes_are_refused_or_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
