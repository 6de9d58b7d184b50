/* linearizability_test.c — histories that are linearizable, and histories that are not. */
#include "sim/linearizability.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"

/* Requests in order of time; LINEARIZABILITY_NEVER as the time of the answer means no answer. */
static bool check(const linearizability_request *requests, size_t count) {
    linearizability_history history = {0};
    for (size_t i = 0; i < count; i++) {
        const linearizability_request *request = &requests[i];
        size_t at = linearizability_ask(&history, request->kind, request->expected, request->asked_us);
        if (request->answered_us != LINEARIZABILITY_NEVER)
            linearizability_answer(&history, at, request->version, request->answered_us);
    }
    bool is = linearizability_check(&history, 0, NULL);
    linearizability_fini(&history);
    return is;
}
#define CHECK(...)                                  \
    check((linearizability_request[]){__VA_ARGS__}, \
          sizeof((linearizability_request[]){__VA_ARGS__}) / sizeof(linearizability_request))

static linearizability_request look(int64_t asked_us, int64_t answered_us, uint64_t version) {
    return (linearizability_request){
        .kind = LINEARIZABILITY_LOOK, .asked_us = asked_us, .answered_us = answered_us, .version = version};
}
static linearizability_request swap(int64_t asked_us, int64_t answered_us, uint64_t expected) {
    return (linearizability_request){LINEARIZABILITY_SWAP, asked_us, answered_us, expected, expected + 1};
}

static void one_after_the_other(void **state) {
    assert_true(CHECK(look(0, 1, 0), swap(2, 3, 0), look(4, 5, 1), swap(8, 9, 1), look(10, 11, 2)));
    assert_false(CHECK(look(0, 1, 1)));                               /* a version that no swap made */
    assert_false(CHECK(swap(0, 1, 0), look(2, 3, 0)));                /* an old version is shown again */
    assert_false(CHECK(swap(0, 1, 0), swap(2, 3, 0)));                /* decided twice */
    assert_false(CHECK(swap(0, 1, 0), look(2, 3, 1), look(4, 5, 0))); /* the version goes back */
}

static void at_the_same_time(void **state) {
    assert_true(CHECK(swap(0, 10, 0), look(1, 2, 0), look(3, 4, 1)));
    assert_true(CHECK(swap(0, 10, 0), look(1, 9, 1), look(2, 8, 0)));
    assert_false(CHECK(swap(0, 10, 0), look(1, 2, 1), look(3, 4, 0))); /* shown, then gone */
    assert_true(CHECK(swap(0, 10, 0), swap(1, 10, 1), look(3, 10, 1)));
    assert_false(CHECK(swap(0, 10, 0), swap(1, 10, 0)));
    assert_false(CHECK(swap(0, 1, 0), swap(2, 10, 1), look(3, 10, 0))); /* an old version */
}

static void an_unanswered_operation_may_have_taken_effect(void **state) {
    assert_true(CHECK(swap(0, LINEARIZABILITY_NEVER, 0), look(1, 2, 0)));
    assert_true(CHECK(swap(0, LINEARIZABILITY_NEVER, 0), look(1, 2, 1)));
    assert_true(CHECK(swap(0, LINEARIZABILITY_NEVER, 0), look(1, 2, 0), look(3, 4, 1))); /* takes effect late */
    assert_false(CHECK(swap(0, LINEARIZABILITY_NEVER, 0), look(1, 2, 1), look(3, 4, 0)));
    assert_false(CHECK(swap(0, LINEARIZABILITY_NEVER, 0), look(1, 2, 2)));
    assert_true(CHECK(look(0, LINEARIZABILITY_NEVER, 0), look(1, 2, 0)));
    assert_true(CHECK(swap(0, LINEARIZABILITY_NEVER, 0), swap(1, 2, 0)));
    assert_false(CHECK(look(0, 1, 0), look(2, 3, 1), swap(4, LINEARIZABILITY_NEVER, 0))); /* shown before its request */
}

/* Many concurrent requests, from a real sequence: each happens at one moment within its request and answer times. */
static size_t draw(rng *rng, linearizability_request *requests, size_t count) {
    uint64_t version = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t asked_us = (int64_t)i * 10 - rng_between(rng, 0, 30),
                answered_us = (int64_t)i * 10 + rng_between(rng, 0, 30);
        uint64_t kind = 1 + rng_below(rng, 3);
        if (kind == 1) requests[i] = look(asked_us, answered_us, version);
        if (kind >= 2) requests[i] = swap(asked_us, kind == 2 ? answered_us : LINEARIZABILITY_NEVER, version);
        version += kind >= 2;
    }
    for (size_t i = 1; i < count; i++) /* sorts by the times of the requests */
        for (size_t k = i; k > 0 && requests[k].asked_us < requests[k - 1].asked_us; k--) {
            linearizability_request other = requests[k];
            requests[k] = requests[k - 1];
            requests[k - 1] = other;
        }
    return count;
}

static void a_sequential_history_is_linearizable(void **state) {
    for (uint64_t seed = 1; seed <= 200; seed++) {
        linearizability_request requests[120];
        rng rng;
        rng_init(&rng, seed);
        size_t count = draw(&rng, requests, 120);
        assert_true(check(requests, count));
        size_t at = count - 1; /* one impossible answer is detected */
        while (requests[at].answered_us == LINEARIZABILITY_NEVER || requests[at].kind != LINEARIZABILITY_LOOK) at--;
        requests[at].version += 1000;
        assert_false(check(requests, count));
    }
}

static bool by_hundreds(uint64_t version, uint64_t next) { return next % 100 == 0 && next > version; }

static void a_value_may_begin_anew(void **state) {
    linearizability_history history = {0};
    linearizability_answer(&history, linearizability_ask(&history, LINEARIZABILITY_SWAP, 0, 0), 1, 1);
    linearizability_answer(&history, linearizability_ask(&history, LINEARIZABILITY_LOOK, 0, 2), 100, 3);
    linearizability_answer(&history, linearizability_ask(&history, LINEARIZABILITY_SWAP, 100, 4), 101, 5);
    assert_true(linearizability_check(&history, 0, by_hundreds));
    assert_false(linearizability_check(&history, 0, NULL));
    /* a lost version is not shown again */
    linearizability_answer(&history, linearizability_ask(&history, LINEARIZABILITY_LOOK, 0, 6), 1, 7);
    assert_false(linearizability_check(&history, 0, by_hundreds));
    linearizability_fini(&history);
}

static void nothing_is_linearizable(void **state) {
    linearizability_history none = {0};
    assert_true(linearizability_check(&none, 7, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(at_the_same_time),
        cmocka_unit_test(an_unanswered_operation_may_have_taken_effect),
        cmocka_unit_test(a_sequential_history_is_linearizable),
        cmocka_unit_test(a_value_may_begin_anew),
        cmocka_unit_test(nothing_is_linearizable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
