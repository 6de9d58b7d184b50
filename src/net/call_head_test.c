/* call_head_test.c — the wire format, byte by byte, and everything that it refuses. */
#include "net/call_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const call_head request = {
    .kind = CALL_REQUEST, .attempt = 0x0102, .method = 0x11121314, .number = 0x2122232425262728, .budget_us = 0x31};

static void requests_look_like_this(void **state) {
    static const uint8_t expected[] = {1,    0,    0x02, 0x01, 0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25,
                                       0x24, 0x23, 0x22, 0x21, 0x31, 0,    0,    0,    0,    0,    0,    0};
    uint8_t bytes[CALL_HEAD_REQUEST];
    call_head_encode(&request, bytes);
    assert_memory_equal(bytes, expected, sizeof expected);
}

static void answers_are_shorter(void **state) {
    static const uint8_t expected[] = {2, 9, 3, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0xee};
    uint8_t bytes[sizeof expected];
    bytes[CALL_HEAD_SHORT] = 0xee;
    call_head head = {.kind = CALL_ANSWER, .status = MR_DENIED, .attempt = 3, .number = CALL_WINDOW};
    call_head_encode(&head, bytes);
    assert_memory_equal(bytes, expected, sizeof expected);
}

static void what_was_encoded_is_decoded(void **state) {
    uint8_t bytes[64] = {0};
    call_head out;
    span payload;
    call_head_encode(&request, bytes);
    assert_int_equal(call_head_decode(span_of(bytes, 30), &out, &payload), MR_OK);
    assert_memory_equal(&out, &request, sizeof out);
    assert_ptr_equal(payload.data, bytes + 24);
    assert_int_equal(payload.size, 6);
    call_head head = {.kind = CALL_CANCEL, .attempt = CALL_ATTEMPTS_MAX, .number = UINT64_MAX};
    call_head_encode(&head, bytes);
    assert_int_equal(call_head_decode(span_of(bytes, 16), &out, &payload), MR_OK);
    assert_int_equal(out.kind, CALL_CANCEL);
    assert_int_equal(payload.size, 0);
}

static mr_status decode(const call_head *head, size_t size) {
    uint8_t bytes[64] = {0};
    memcpy(bytes, head, sizeof *head);
    call_head out;
    span payload;
    return call_head_decode(span_of(bytes, size), &out, &payload);
}

static void what_no_correct_peer_sends_is_refused(void **state) {
    call_head good = {.kind = CALL_REQUEST, .attempt = 1, .number = CALL_WINDOW, .budget_us = CALL_BUDGET_NONE};
    assert_int_equal(decode(&good, 24), MR_OK);
    for (size_t size = 0; size < 24; size++) assert_int_equal(decode(&good, size), MR_CORRUPT);
    call_head bad = good;
    bad.status = 1;
    assert_int_equal(decode(&bad, 24), MR_CORRUPT);
    bad = good, bad.attempt = 0;
    assert_int_equal(decode(&bad, 24), MR_CORRUPT);
    bad = good, bad.attempt = CALL_ATTEMPTS_MAX + 1;
    assert_int_equal(decode(&bad, 24), MR_CORRUPT);
    bad = good, bad.number = CALL_WINDOW - 1;
    assert_int_equal(decode(&bad, 24), MR_CORRUPT);
    bad = good, bad.budget_us = (uint64_t)INT64_MAX + 1;
    assert_int_equal(decode(&bad, 24), MR_CORRUPT);
    bad = good, bad.budget_us = INT64_MAX;
    assert_int_equal(decode(&bad, 24), MR_OK);
    for (int kind = 0; kind < 256; kind++) {
        bad = good, bad.kind = (uint8_t)kind;
        mr_status expected = kind == CALL_REQUEST || kind == CALL_ANSWER ? MR_OK : MR_CORRUPT; /* a cancel has 16 */
        assert_int_equal(decode(&bad, 24), expected);
    }
    call_head answer = {.kind = CALL_ANSWER, .status = 255, .attempt = 1, .number = CALL_WINDOW};
    assert_int_equal(decode(&answer, 16), MR_OK); /* a status that we do not know yet */
    assert_int_equal(decode(&answer, 15), MR_CORRUPT);
    answer.method = 1;
    assert_int_equal(decode(&answer, 16), MR_CORRUPT);
    call_head cancel = {.kind = CALL_CANCEL, .attempt = 1, .number = CALL_WINDOW};
    assert_int_equal(decode(&cancel, 16), MR_OK);
    assert_int_equal(decode(&cancel, 17), MR_CORRUPT);
    cancel.status = 1;
    assert_int_equal(decode(&cancel, 16), MR_CORRUPT);
    cancel.status = 0, cancel.method = 1;
    assert_int_equal(decode(&cancel, 16), MR_CORRUPT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_look_like_this),
        cmocka_unit_test(answers_are_shorter),
        cmocka_unit_test(what_was_encoded_is_decoded),
        cmocka_unit_test(what_no_correct_peer_sends_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
