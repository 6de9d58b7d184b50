/* norms_test.c — reports of slots: counted for one round, one phase and one set, and asked for. */
#include "ps/norms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS = 3 };

static const crowd two = {{3}}, three = {{7}};

static bool report(norms *norms, uint64_t round, uint32_t phase, uint32_t slot, const crowd *set, const char *part) {
    return norms_take(norms, SLOTS, round, phase, slot, set, span_of(part, strlen(part)));
}

static void all_slots_report_for_one_set(void **state) {
    norms norms = {0};
    assert_false(norms_are_whole(&norms, &two));
    assert_true(report(&norms, 5, 0, 2, &two, "c"));
    assert_false(report(&norms, 5, 0, 0, &three, "x")); /* a sum that is dropped later */
    assert_false(report(&norms, 5, 0, 1, &two, ""));
    assert_true(!norms_are_whole(&norms, &two) && !norms_are_whole(&norms, &three));
    assert_true(norms_are_whole(&norms, NULL));
    assert_false(report(&norms, 5, 0, 0, &two, "a"));
    assert_true(norms_are_whole(&norms, &two));
    assert_memory_equal(norms_part(&norms, 0).data, "a", 1);
    assert_true(norms_part(&norms, 1).size == 0 && norms_part(&norms, 2).size == 1);
    assert_true(norms.reports[2].order == 0 && norms.reports[0].order == 1);
    norms_clear(&norms);
    assert_true(!norms.open && norms.reports == NULL);
}

static void where_nobody_has_anything_there_is_nothing_to_combine(void **state) {
    norms norms = {0};
    for (uint32_t i = 0; i < SLOTS; i++) (void)report(&norms, 1, 0, i, &two, "");
    assert_false(norms_are_whole(&norms, &two));
    norms_clear(&norms);
}

static void a_later_phase_takes_the_place_of_the_former(void **state) {
    norms norms = {0};
    for (uint32_t i = 0; i < SLOTS; i++) (void)report(&norms, 4, 1, i, &two, "a");
    assert_false(report(&norms, 4, 0, 0, &two, "old"));
    assert_false(report(&norms, 3, 1, 0, &two, "old"));
    assert_true(norms_are_whole(&norms, &two) && norms_part(&norms, 0).size == 1);
    assert_true(report(&norms, 5, 0, 1, &two, "b")); /* of the next round */
    assert_true(norms.round == 5 && norms.phase == 0 && norms_part(&norms, 0).size == 0);
    assert_false(norms_are_whole(&norms, &two));
    assert_true(report(&norms, 5, 1, 1, &two, "b"));
    norms_clear(&norms);
}

static void whoever_had_to_be_asked_is_asked_at_once(void **state) {
    norms norms = {0};
    assert_false(norms_ask(&norms, 0, true)); /* nobody has reported */
    (void)report(&norms, 1, 0, 0, &two, "a");
    assert_true(!norms_ask(&norms, 0, true) && norms_ask(&norms, 1, false) && norms_ask(&norms, 2, false));
    (void)report(&norms, 1, 0, 1, &two, "");
    (void)report(&norms, 2, 0, 1, &two, "b"); /* slot 0 spoke by itself, the others did not */
    assert_true(!norms_ask(&norms, 0, false) && norms_ask(&norms, 2, false) && norms_ask(&norms, 0, true));
    assert_false(norms_ask(&norms, SLOTS, true));
    (void)report(&norms, 2, 0, 0, &two, "");
    (void)report(&norms, 3, 0, 2, &two, "c"); /* slot 0 had nothing to tell, slot 1 had a part although it was asked */
    assert_true(norms_ask(&norms, 0, false) && !norms_ask(&norms, 1, false));
    norms_clear(&norms);
}

/* Who has no part of a phase has none of the next; who has one of the first may have none of the second each time. */
static void phases_are_asked_for_one_by_one(void **state) {
    norms norms = {0};
    for (uint64_t round = 1; round < 4; round++) {
        (void)report(&norms, round, 0, 0, &two, "a");
        assert_true(norms_ask(&norms, 1, false) == (round == 1) && norms_ask(&norms, 2, false));
        (void)report(&norms, round, 0, 1, &two, "b");
        (void)report(&norms, round, 0, 2, &two, "");
        (void)report(&norms, round, 1, 0, &two, "a");
        assert_true(norms_ask(&norms, 1, false) && norms_ask(&norms, 2, false));
        (void)report(&norms, round, 1, 1, &two, "");
        (void)report(&norms, round, 1, 2, &two, "");
    }
    assert_true(report(&norms, 4, 0, 0, &two, "") && report(&norms, 4, 1, 1, &two, "b"));
    assert_true(norms_ask(&norms, 0, false)); /* it spoke in that phase the last time, but has nothing of this round */
    norms_clear(&norms);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_slots_report_for_one_set),
        cmocka_unit_test(where_nobody_has_anything_there_is_nothing_to_combine),
        cmocka_unit_test(a_later_phase_takes_the_place_of_the_former),
        cmocka_unit_test(whoever_had_to_be_asked_is_asked_at_once),
        cmocka_unit_test(phases_are_asked_for_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
