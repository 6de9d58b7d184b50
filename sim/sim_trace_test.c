/* sim_trace_test.c — the hash depends on every record and on the order of records; printing does not change it. */
#include "sim/sim_trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint64_t hash_of(int64_t now_us, uint32_t node, sim_trace_kind kind, uint64_t a, uint64_t b, span bytes) {
    sim_trace trace;
    sim_trace_init(&trace, 7, false);
    sim_trace_record(&trace, now_us, node, kind, a, b);
    sim_trace_bytes(&trace, bytes);
    assert_int_equal(trace.count, 1);
    return trace.hash;
}

static void everything_counts(void **state) {
    span text = span_of("text", 4);
    uint64_t hash = hash_of(1, 2, SIM_TRACE_SEND, 3, 4, text);
    assert_true(hash == hash_of(1, 2, SIM_TRACE_SEND, 3, 4, text));
    assert_true(hash != hash_of(2, 2, SIM_TRACE_SEND, 3, 4, text));
    assert_true(hash != hash_of(1, 1, SIM_TRACE_SEND, 3, 4, text));
    assert_true(hash != hash_of(1, 2, SIM_TRACE_RECEIVE, 3, 4, text));
    assert_true(hash != hash_of(1, 2, SIM_TRACE_SEND, 4, 4, text));
    assert_true(hash != hash_of(1, 2, SIM_TRACE_SEND, 3, 5, text));
    assert_true(hash != hash_of(1, 2, SIM_TRACE_SEND, 3, 4, span_of("test", 4)));
}

static void order_counts(void **state) {
    sim_trace a, b;
    sim_trace_init(&a, 7, false);
    sim_trace_init(&b, 7, false);
    sim_trace_record(&a, 1, 1, SIM_TRACE_TICK, 0, 0);
    sim_trace_record(&a, 1, 2, SIM_TRACE_TICK, 0, 0);
    sim_trace_record(&b, 1, 2, SIM_TRACE_TICK, 0, 0);
    sim_trace_record(&b, 1, 1, SIM_TRACE_TICK, 0, 0);
    assert_true(a.hash != b.hash);
}

static void a_story_is_not_history(void **state) {
    sim_trace trace;
    sim_trace_init(&trace, 7, false);
    uint64_t hash = trace.hash;
    sim_trace_tell(&trace, 1, "n0", "%s", "once upon a time");
    assert_true(trace.hash == hash);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_counts),
        cmocka_unit_test(order_counts),
        cmocka_unit_test(a_story_is_not_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
