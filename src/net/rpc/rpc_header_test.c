/* rpc_header_test.c — the wire format, byte by byte, and all refusals. */
#include "net/rpc/rpc_header.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const rpc_header request = {
    .kind = RPC_CALL_REQUEST, .attempt = 0x0102, .method = 0x11121314, .number = 0x2122232425262728, .budget_us = 0x31};

static void requests_look_like_this(void **state) {
    static const uint8_t expected[] = {4,    0,    0x02, 0x01, 0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24,
                                       0x23, 0x22, 0x21, 0xee, 0xee, 0x31, 0,    0,    0,    0,    0,    0,    0};
    uint8_t bytes[sizeof expected];
    memset(bytes, 0xee, sizeof bytes);
    assert_int_equal(rpc_header_encode(&request, bytes, 2), sizeof expected);
    assert_int_equal(rpc_header_room(RPC_CALL_REQUEST, 2), sizeof expected);
    assert_memory_equal(bytes, expected, sizeof expected);
}

static void those_without_a_budget_are_shorter(void **state) {
    rpc_header header = request;
    header.budget_us = RPC_CALL_BUDGET_NONE;
    uint8_t bytes[32];
    assert_int_equal(rpc_header_encode(&header, bytes, 2), 18);
    assert_int_equal(bytes[0], RPC_CALL_REQUEST);
}

static void so_are_answers(void **state) {
    static const uint8_t expected[] = {2, 9, 3, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0xee};
    uint8_t bytes[sizeof expected];
    bytes[RPC_HEADER_SIZE] = 0xee;
    rpc_header header = {.kind = RPC_CALL_ANSWER, .status = MR_DENIED, .attempt = 3, .number = RPC_CALL_WINDOW};
    assert_int_equal(rpc_header_encode(&header, bytes, 1), sizeof expected);
    assert_int_equal(rpc_header_room(RPC_CALL_ANSWER, 1), sizeof expected);
    assert_memory_equal(bytes, expected, sizeof expected);
}

static void expect_decoded(const rpc_header *header, size_t payload_size) {
    uint8_t bytes[64] = {0};
    size_t size = rpc_header_encode(header, bytes, payload_size);
    rpc_header out;
    span payload;
    assert_int_equal(rpc_header_decode(span_of(bytes, size), &out, &payload), MR_OK);
    assert_memory_equal(&out, header, sizeof out);
    assert_ptr_equal(payload.data, bytes + RPC_HEADER_SIZE);
    assert_int_equal(payload.size, payload_size);
}

static void headers_are_decoded_as_encoded(void **state) {
    expect_decoded(&request, 0);
    expect_decoded(&request, 6);
    rpc_header header = request;
    header.budget_us = RPC_CALL_BUDGET_NONE;
    expect_decoded(&header, 0);
    expect_decoded(&header, 6);
    header.kind = RPC_CALL_CANCEL, header.method = 0, header.attempt = RPC_CALL_ATTEMPTS_MAX,
    header.number = UINT64_MAX;
    expect_decoded(&header, 0);
}

/* Decodes the header as in memory; with an empty payload the budget is in its wire position. */
static mr_status decode(const rpc_header *header, size_t size) {
    uint8_t bytes[64] = {0};
    memcpy(bytes, header, sizeof *header);
    rpc_header out;
    span payload;
    return rpc_header_decode(span_of(bytes, size), &out, &payload);
}

static void expect_head_refused(rpc_header bad, size_t size) { assert_int_equal(decode(&bad, size), MR_CORRUPT); }

static void malformed_headers_are_refused(void **state) {
    rpc_header good = {.kind = RPC_CALL_REQUEST_TIMED, .attempt = 1, .number = RPC_CALL_WINDOW, .budget_us = INT64_MAX};
    for (uint8_t kind = RPC_CALL_REQUEST; kind <= RPC_CALL_REQUEST_TIMED; kind++) {
        size_t least = kind == RPC_CALL_REQUEST_TIMED ? 24 : 16;
        rpc_header bad = good;
        bad.kind = kind;
        assert_int_equal(decode(&bad, least), MR_OK);
        for (size_t size = 0; size < least; size++) expect_head_refused(bad, size);
        bad.attempt = 0;
        expect_head_refused(bad, least);
        bad.attempt = RPC_CALL_ATTEMPTS_MAX + 1;
        expect_head_refused(bad, least);
        bad.attempt = 1, bad.number = RPC_CALL_WINDOW - 1;
        expect_head_refused(bad, least);
        bad.number = RPC_CALL_WINDOW, bad.status = 255; /* an answer's status may be unknown */
        assert_int_equal(decode(&bad, least), kind == RPC_CALL_ANSWER ? MR_OK : MR_CORRUPT);
        bad.status = 0, bad.method = 1;
        assert_int_equal(decode(&bad, least), kind == RPC_CALL_ANSWER || kind == RPC_CALL_CANCEL ? MR_CORRUPT : MR_OK);
    }
    rpc_header bad = good;
    bad.budget_us = (uint64_t)INT64_MAX + 1;
    expect_head_refused(bad, 24);
    bad = good, bad.kind = RPC_CALL_CANCEL;
    expect_head_refused(bad, 17);
    for (int kind = 0; kind < 256; kind++)
        if (kind < RPC_CALL_REQUEST || kind > RPC_CALL_REQUEST_TIMED)
            bad.kind = (uint8_t)kind, expect_head_refused(bad, 24);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_look_like_this),
        cmocka_unit_test(those_without_a_budget_are_shorter),
        cmocka_unit_test(so_are_answers),
        cmocka_unit_test(headers_are_decoded_as_encoded),
        cmocka_unit_test(malformed_headers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
