/* runner_test.c — findings of every kind are reported with their seed, and the other seeds still run. */
#include "sim/runner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

static void run_well(const scenario_options *options, scenario_result *result) {
    *result = (scenario_result){.hash = options->seed, .events = 3, .virtual_us = 1000};
    result->counters[result->counter_count++] = (scenario_counter){"things", 2};
}

static void run_badly(const scenario_options *options, scenario_result *result) {
    run_well(options, result);
    if (options->seed % 10 == 7) strcpy(result->violation, "sevens are wrong");
    if (options->mutation != NULL && options->seed == 23) strcpy(result->violation, "mutated");
}

static void run_to_an_abort(const scenario_options *options, scenario_result *result) {
    run_well(options, result);
    if (options->seed == 9 || options->seed == 12) abort();
}

static void run_by_the_clock(const scenario_options *options, scenario_result *result) {
    run_well(options, result);
    result->hash = (uint64_t)clock_ns();
}

static const scenario well = {"well", "never fails", NULL, run_well};
static const scenario badly = {"badly", "fails at some seeds", NULL, run_badly};
static const scenario aborting = {"aborting", "ends the process", NULL, run_to_an_abort};
static const scenario by_the_clock = {"by-the-clock", "is different each time", NULL, run_by_the_clock};

static runner_report run(const scenario *const *scenarios, uint64_t last, unsigned jobs, bool check_replay) {
    runner_options options = {.scenarios = scenarios,
                              .first = 1,
                              .last = last,
                              .jobs = jobs,
                              .check_replay = check_replay,
                              .quiet = true,
                              .command = "sim"};
    runner_report report;
    runner_run(&options, &report);
    return report;
}

static void all_seeds_are_run(void **state) {
    const scenario *scenarios[] = {&well, &well, NULL};
    for (unsigned jobs = 1; jobs <= 5; jobs++) {
        runner_report report = run(scenarios, 101, jobs, true);
        assert_int_equal(report.seeds, 202);
        assert_int_equal(report.events, 606);
        assert_int_equal(report.findings, 0);
        assert_int_equal(report.first_finding, 0);
        assert_null(report.scenario);
        assert_int_equal(runner_counted(&report, "things"), 404);
        assert_int_equal(runner_counted(&report, "no such things"), 0);
    }
}

static void violations_are_counted_and_the_first_is_named(void **state) {
    const scenario *scenarios[] = {&well, &badly, NULL};
    runner_report report = run(scenarios, 100, 3, false);
    assert_int_equal(report.seeds, 200);
    assert_int_equal(report.findings, 10);
    assert_int_equal(report.first_finding, 7);
    assert_ptr_equal(report.scenario, &badly);
}

static void a_job_that_dies_is_a_finding_and_the_rest_goes_on(void **state) {
    const scenario *scenarios[] = {&aborting, NULL};
    runner_report report = run(scenarios, 100, 2, false);
    assert_int_equal(report.seeds, 100);
    assert_int_equal(report.findings, 2);
    assert_int_equal(report.first_finding, 9);
}

static void a_replay_that_differs_is_a_finding(void **state) {
    const scenario *scenarios[] = {&by_the_clock, NULL};
    assert_int_equal(run(scenarios, 10, 1, true).findings, 10);
    assert_int_equal(run(scenarios, 100, 1, false).findings, 100 / RUNNER_REPLAY_EVERY);
}

static void it_can_stop_at_the_first(void **state) {
    const scenario *scenarios[] = {&badly, NULL};
    runner_options options = {
        .scenarios = scenarios, .first = 1, .last = 1000000, .jobs = 1, .quiet = true, .stop_at_first = true};
    runner_report report;
    runner_run(&options, &report);
    assert_int_equal(report.findings, 1);
    assert_int_equal(report.seeds, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_seeds_are_run),
        cmocka_unit_test(violations_are_counted_and_the_first_is_named),
        cmocka_unit_test(a_job_that_dies_is_a_finding_and_the_rest_goes_on),
        cmocka_unit_test(a_replay_that_differs_is_a_finding),
        cmocka_unit_test(it_can_stop_at_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
