/* norm_reports_test.c — reports of slots: counted for one round, one phase and one set, and asked for. */
#include "ps/norm_reports.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS = 3 };

static const rank_set two = {{3}}, three = {{7}};

static bool report(norm_reports *reports, uint64_t round, uint32_t phase, uint32_t slot, const rank_set *set,
                   const char *part) {
    return norm_reports_take(reports, SLOTS, round, phase, slot, set, span_of(part, strlen(part)));
}

static void all_slots_report_for_one_set(void **state) {
    norm_reports reports = {0};
    assert_false(norm_reports_are_whole(&reports, &two));
    assert_true(report(&reports, 5, 0, 2, &two, "c"));
    assert_false(report(&reports, 5, 0, 0, &three, "x")); /* a report for a sum that is dropped later */
    assert_false(report(&reports, 5, 0, 1, &two, ""));
    assert_true(!norm_reports_are_whole(&reports, &two) && !norm_reports_are_whole(&reports, &three));
    assert_true(norm_reports_are_whole(&reports, NULL));
    assert_false(report(&reports, 5, 0, 0, &two, "a"));
    assert_true(norm_reports_are_whole(&reports, &two));
    assert_memory_equal(norm_reports_part(&reports, 0).data, "a", 1);
    assert_true(norm_reports_part(&reports, 1).size == 0 && norm_reports_part(&reports, 2).size == 1);
    assert_true(reports.reports[2].order == 0 && reports.reports[0].order == 1);
    norm_reports_clear(&reports);
    assert_true(!reports.open && reports.reports == NULL);
}

static void without_reports_there_is_nothing_to_combine(void **state) {
    norm_reports reports = {0};
    for (uint32_t i = 0; i < SLOTS; i++) (void)report(&reports, 1, 0, i, &two, "");
    assert_false(norm_reports_are_whole(&reports, &two));
    norm_reports_clear(&reports);
}

static void a_later_phase_takes_the_place_of_the_former(void **state) {
    norm_reports reports = {0};
    for (uint32_t i = 0; i < SLOTS; i++) (void)report(&reports, 4, 1, i, &two, "a");
    assert_false(report(&reports, 4, 0, 0, &two, "old"));
    assert_false(report(&reports, 3, 1, 0, &two, "old"));
    assert_true(norm_reports_are_whole(&reports, &two) && norm_reports_part(&reports, 0).size == 1);
    assert_true(report(&reports, 5, 0, 1, &two, "b")); /* a report of the next round */
    assert_true(reports.round == 5 && reports.phase == 0 && norm_reports_part(&reports, 0).size == 0);
    assert_false(norm_reports_are_whole(&reports, &two));
    assert_true(report(&reports, 5, 1, 1, &two, "b"));
    norm_reports_clear(&reports);
}

static void missing_reports_are_requested_at_once(void **state) {
    norm_reports reports = {0};
    assert_false(norm_reports_ask(&reports, 0, true)); /* no slot has reported */
    (void)report(&reports, 1, 0, 0, &two, "a");
    assert_true(!norm_reports_ask(&reports, 0, true) && norm_reports_ask(&reports, 1, false) &&
                norm_reports_ask(&reports, 2, false));
    (void)report(&reports, 1, 0, 1, &two, "");
    (void)report(&reports, 2, 0, 1, &two, "b"); /* slot 0 reported without being asked, the others were asked */
    assert_true(!norm_reports_ask(&reports, 0, false) && norm_reports_ask(&reports, 2, false) &&
                norm_reports_ask(&reports, 0, true));
    assert_false(norm_reports_ask(&reports, SLOTS, true));
    (void)report(&reports, 2, 0, 0, &two, "");
    /* slot 0 had no part in round 2, slot 1 had one */
    (void)report(&reports, 3, 0, 2, &two, "c");
    assert_true(norm_reports_ask(&reports, 0, false) && !norm_reports_ask(&reports, 1, false));
    norm_reports_clear(&reports);
}

/* A slot without a part in one phase has none in the next; a slot with a part in the first may never have one in the
 * second. */
static void phases_are_asked_for_one_by_one(void **state) {
    norm_reports reports = {0};
    for (uint64_t round = 1; round < 4; round++) {
        (void)report(&reports, round, 0, 0, &two, "a");
        assert_true(norm_reports_ask(&reports, 1, false) == (round == 1) && norm_reports_ask(&reports, 2, false));
        (void)report(&reports, round, 0, 1, &two, "b");
        (void)report(&reports, round, 0, 2, &two, "");
        (void)report(&reports, round, 1, 0, &two, "a");
        assert_true(norm_reports_ask(&reports, 1, false) && norm_reports_ask(&reports, 2, false));
        (void)report(&reports, round, 1, 1, &two, "");
        (void)report(&reports, round, 1, 2, &two, "");
    }
    assert_true(report(&reports, 4, 0, 0, &two, "") && report(&reports, 4, 1, 1, &two, "b"));
    /* slot 0 had a part in that phase the last time, but has none in this round */
    assert_true(norm_reports_ask(&reports, 0, false));
    norm_reports_clear(&reports);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_slots_report_for_one_set),
        cmocka_unit_test(without_reports_there_is_nothing_to_combine),
        cmocka_unit_test(a_later_phase_takes_the_place_of_the_former),
        cmocka_unit_test(missing_reports_are_requested_at_once),
        cmocka_unit_test(phases_are_asked_for_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
