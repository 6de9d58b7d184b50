/* scenarios_test.c — every scenario: a few hundred seeds without a finding, and each mutation caught. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "sim/runner.h"
#include "sim/shrink.h"

enum { SEEDS = 300, SEEDS_SHORT = 100 };

static bool is_long(void) { return getenv("MINIRAY_TEST_LONG") != NULL; }

static runner_report run(const scenario *scenario, const char *mutation, uint64_t first, uint64_t last) {
    const struct scenario *one[] = {scenario, NULL};
    runner_options options = {.scenarios = one,
                              .first = first,
                              .last = last,
                              .jobs = 2,
                              .mutation = mutation,
                              .stop_at_first = mutation != NULL,
                              .quiet = mutation != NULL,
                              .command = "build/sim/miniray-sim"};
    runner_report report;
    runner_run(&options, &report);
    return report;
}

static void no_seed_has_a_finding(void **state) {
    size_t count = 0;
    const uint64_t seeds = is_long() ? SEEDS : SEEDS_SHORT;
    for (const scenario *const *at = scenario_table(); *at != NULL; at++, count++) {
        runner_report report = run(*at, NULL, 1, seeds);
        if (report.findings != 0) fail_msg("%s fails at seed %d", (*at)->name, (int)report.first_finding);
        assert_int_equal(report.seeds, seeds);
    }
    assert_true(count > 0);
}

/* Each mutation must be caught. This takes longer than all seeds without mutations, and is a test of its own. */
static void every_mutation_is_caught(void **state) {
    if (!is_long()) skip();
    for (const scenario *const *at = scenario_table(); *at != NULL; at++) {
        for (const scenario_mutation *mutation = (*at)->mutations; mutation != NULL && mutation->name != NULL;
             mutation++) {
            uint64_t first = mutation->first == 0 ? 1 : mutation->first;
            runner_report report = run(*at, mutation->name, first, first + mutation->caught_within - 1);
            if (report.findings == 0)
                fail_msg("%s without %s: no finding in %d seeds from %llu", (*at)->name, mutation->name,
                         (int)mutation->caught_within, (unsigned long long)first);
            print_message("%s, %s: caught at seed %llu\n", (*at)->name, mutation->name,
                          (unsigned long long)report.first_finding);
        }
    }
}

static void the_same_seed_is_the_same_history(void **state) {
    for (const scenario *const *at = scenario_table(); *at != NULL; at++) {
        scenario_result first, again, other, cut;
        scenario_options options = scenario_options_of(11, NULL), next = scenario_options_of(12, NULL);
        (*at)->run(&options, &first);
        (*at)->run(&options, &again);
        (*at)->run(&next, &other);
        assert_true(first.hash == again.hash && first.events == again.events);
        assert_true(first.hash != other.hash);
        options.stop_after = first.events / 2;
        (*at)->run(&options, &cut);
        assert_int_equal(cut.events, first.events / 2);
        assert_string_equal(cut.violation, "");
    }
}

static void names_are_found(void **state) {
    for (const scenario *const *at = scenario_table(); *at != NULL; at++) {
        assert_ptr_equal(scenario_find((*at)->name), *at);
        assert_null(scenario_find_mutation(*at, "no such mutation"));
    }
    assert_null(scenario_find("no such scenario"));
}

static void a_failing_seed_is_shrunk(void **state) {
    static const struct { const char *scenario, *mutation; } fails[] = {{"view", "deaf-keeper"}, {"ps", "no-epoch"}};
    for (size_t i = 0; i < sizeof fails / sizeof *fails; i++) {
        const scenario *scenario = scenario_find(fails[i].scenario);
        uint64_t seed = run(scenario, fails[i].mutation, 1, SEEDS).first_finding;
        scenario_options mutated = scenario_options_of(seed, fails[i].mutation);
        scenario_options sound = scenario_options_of(seed, NULL);
        assert_true(shrink_run(scenario, &mutated, "miniray-sim", 5));
        assert_false(shrink_run(scenario, &sound, "miniray-sim", 5));
    }
}

int main(void) {
    log_set_fd(-1); /* hides warnings: the faults are simulated */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_seed_has_a_finding),
        cmocka_unit_test(every_mutation_is_caught),
        cmocka_unit_test(the_same_seed_is_the_same_history),
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(a_failing_seed_is_shrunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
