/* rpc_dedup_test.c — the duplicate filter: new, repeated and ended calls. */
#include "net/rpc/rpc_dedup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

enum { W = RPC_CALL_WINDOW };

static void an_attempt_is_new_once(void **state) {
    rpc_dedup dedup = {0};
    assert_true(rpc_dedup_is_new(&dedup, W + 5, 1));
    assert_int_equal(rpc_dedup_admit(&dedup, W + 5, 1), MR_OK);
    assert_false(rpc_dedup_is_new(&dedup, W + 5, 1));
    assert_true(rpc_dedup_is_new(&dedup, W + 5, 2));
    assert_int_equal(rpc_dedup_admit(&dedup, W + 5, 3), MR_OK);
    assert_false(rpc_dedup_is_new(&dedup, W + 5, 2)); /* the third attempt arrived first */
    assert_true(rpc_dedup_is_new(&dedup, W + 4, 1));
    assert_true(rpc_dedup_is_new(&dedup, W + 6, 1));
    rpc_dedup_fini(&dedup);
}

static void a_larger_number_ends_the_smaller_ones_of_its_place(void **state) {
    rpc_dedup dedup = {0};
    assert_int_equal(rpc_dedup_admit(&dedup, 3 * W + 5, 1), MR_OK);
    assert_true(rpc_dedup_is_open(&dedup, 3 * W + 5));
    assert_false(rpc_dedup_is_new(&dedup, 2 * W + 5, 1));
    assert_false(rpc_dedup_is_new(&dedup, 2 * W + 5, RPC_CALL_ATTEMPTS_MAX));
    assert_int_equal(rpc_dedup_admit(&dedup, 4 * W + 5, 1), MR_OK);
    assert_false(rpc_dedup_is_open(&dedup, 3 * W + 5));
    assert_true(rpc_dedup_is_open(&dedup, 4 * W + 5));
    rpc_dedup_fini(&dedup);
}

static void an_answered_call_stays_remembered(void **state) {
    rpc_dedup dedup = {0};
    assert_int_equal(rpc_dedup_admit(&dedup, W, 1), MR_OK);
    rpc_dedup_answer(&dedup, W);
    assert_false(rpc_dedup_is_open(&dedup, W));
    assert_false(rpc_dedup_is_new(&dedup, W, 1));
    assert_int_equal(rpc_dedup_admit(&dedup, W, 2), MR_OK); /* the answer was lost */
    assert_true(rpc_dedup_is_open(&dedup, W));
    rpc_dedup_fini(&dedup);
}

static void a_cancelled_call_is_over_even_before_it_came(void **state) {
    rpc_dedup dedup = {0};
    assert_false(rpc_dedup_cancel(&dedup, W + 9, 2));
    assert_false(rpc_dedup_is_new(&dedup, W + 9, 1));
    assert_false(rpc_dedup_is_new(&dedup, W + 9, 2));
    assert_int_equal(rpc_dedup_admit(&dedup, 2 * W + 9, 3), MR_OK);
    assert_false(rpc_dedup_cancel(&dedup, W + 9, 2)); /* a call that ended long ago */
    assert_true(rpc_dedup_is_open(&dedup, 2 * W + 9));
    assert_true(rpc_dedup_cancel(&dedup, 2 * W + 9, 1));
    assert_false(rpc_dedup_is_open(&dedup, 2 * W + 9));
    assert_false(rpc_dedup_is_new(&dedup, 2 * W + 9, 3)); /* the larger attempt is recorded */
    assert_false(rpc_dedup_cancel(&dedup, 2 * W + 9, 3));
    rpc_dedup_fini(&dedup);
}

static void the_first_of_a_known_place_is_admitted_at_once(void **state) {
    rpc_dedup dedup = {0};
    assert_false(rpc_dedup_admit_first(&dedup, W + 5, 1)); /* the place has no record */
    assert_int_equal(rpc_dedup_admit(&dedup, W + 5, 1), MR_OK);
    assert_false(rpc_dedup_admit_first(&dedup, 2 * W + 5, 1)); /* the previous call in this place is open */
    assert_true(rpc_dedup_is_open(&dedup, W + 5));
    rpc_dedup_answer(&dedup, W + 5);
    assert_false(rpc_dedup_admit_first(&dedup, W + 5, 1)); /* a repeat, */
    assert_false(rpc_dedup_admit_first(&dedup, W + 5, 2)); /* and a retry */
    assert_true(rpc_dedup_admit_first(&dedup, 2 * W + 5, 3));
    assert_true(rpc_dedup_is_open(&dedup, 2 * W + 5));
    assert_false(rpc_dedup_is_new(&dedup, 2 * W + 5, 3));
    assert_true(rpc_dedup_is_new(&dedup, 2 * W + 5, 4));
    assert_false(rpc_dedup_admit_first(&dedup, 2 * W + 5, 4));
    rpc_dedup_fini(&dedup);
}

static void it_grows_with_the_places_that_are_used(void **state) {
    rpc_dedup dedup = {0};
    assert_int_equal(rpc_dedup_admit(&dedup, W, 1), MR_OK);
    assert_true(dedup.count <= 8);
    assert_int_equal(rpc_dedup_admit(&dedup, W + 8, 1), MR_OK);
    assert_int_equal(dedup.count, 16);
    assert_int_equal(rpc_dedup_admit(&dedup, 1000 * (uint64_t)W + W - 1, 1), MR_OK);
    assert_int_equal(dedup.count, W);
    assert_false(rpc_dedup_is_new(&dedup, W, 1));
    assert_false(rpc_dedup_is_new(&dedup, W + 8, 1));
    assert_true(rpc_dedup_is_new(&dedup, UINT64_MAX, 1));
    assert_int_equal(rpc_dedup_admit(&dedup, UINT64_MAX, 1), MR_OK);
    assert_int_equal(dedup.count, W);
    rpc_dedup_fini(&dedup);
}

static void without_memory_nothing_changes(void **state) {
    rpc_dedup dedup = {0};
    alloc_fail_at(1);
    assert_int_equal(rpc_dedup_admit(&dedup, W, 1), MR_NOMEM);
    assert_true(rpc_dedup_is_new(&dedup, W, 1));
    alloc_fail_at(1);
    assert_false(rpc_dedup_cancel(&dedup, W, 1));
    assert_int_equal(rpc_dedup_admit(&dedup, W, 1), MR_OK);
    alloc_fail_at(1);
    assert_int_equal(rpc_dedup_admit(&dedup, W + 100, 1), MR_NOMEM);
    assert_true(rpc_dedup_is_open(&dedup, W));
    rpc_dedup_fini(&dedup);
}

/* Comparison with a complete record of everything ever admitted. */
static void it_agrees_with_a_perfect_memory(void **state) {
    enum { PLACES = 4, USES = 40, ATTEMPTS = 4 };
    rng rng;
    rng_init(&rng, 5);
    for (int round = 0; round < 50; round++) {
        rpc_dedup dedup = {0};
        bool seen[PLACES][USES][ATTEMPTS] = {0};
        int newest[PLACES] = {0};
        for (int step = 0; step < 2000; step++) {
            uint32_t place = (uint32_t)rng_below(&rng, PLACES);
            if (rng_chance(&rng, 0.05) && newest[place] < USES - 1) newest[place]++;
            int use = newest[place] - (int)rng_below(&rng, 3);
            if (use < 0) continue;
            int attempt = (int)rng_below(&rng, ATTEMPTS);
            uint64_t number = place + (uint64_t)W * (uint64_t)(use + 1);
            if (!rpc_dedup_is_new(&dedup, number, (uint32_t)attempt + 1)) continue;
            assert_false(seen[place][use][attempt]);
            seen[place][use][attempt] = true;
            assert_int_equal(rpc_dedup_admit(&dedup, number, (uint32_t)attempt + 1), MR_OK);
            if (rng_chance(&rng, 0.5)) rpc_dedup_answer(&dedup, number);
        }
        rpc_dedup_fini(&dedup);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_attempt_is_new_once),
        cmocka_unit_test(a_larger_number_ends_the_smaller_ones_of_its_place),
        cmocka_unit_test(an_answered_call_stays_remembered),
        cmocka_unit_test(a_cancelled_call_is_over_even_before_it_came),
        cmocka_unit_test(the_first_of_a_known_place_is_admitted_at_once),
        cmocka_unit_test(it_grows_with_the_places_that_are_used),
        cmocka_unit_test(without_memory_nothing_changes),
        cmocka_unit_test(it_agrees_with_a_perfect_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
