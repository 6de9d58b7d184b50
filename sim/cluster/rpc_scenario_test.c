/* rpc_scenario_test.c — the first seeds of the RPC scenario: no violations, every counter is positive, replays are
 * exact, and each mutation is caught. Each mutation is also tested on two `rpc` objects. */
#include "sim/cluster/rpc_scenario.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mutation.h"
#include "tests/support/rpc_pair.h"

enum { SEEDS = 150, CLIENT = 0, SERVER = 1 };

static scenario_result result_of(uint64_t seed, const char *mutation) {
    scenario_options options = scenario_options_of(seed, mutation);
    scenario_result result;
    rpc_scenario.run(&options, &result);
    return result;
}

static void count(const scenario_result *result, const char *const *names, uint64_t *totals) {
    for (size_t i = 0; i < result->counter_count; i++)
        for (size_t name = 0; names[name] != NULL; name++)
            if (strcmp(result->counters[i].name, names[name]) == 0) totals[name] += result->counters[i].value;
}

static void no_seed_breaks_a_promise_and_every_end_is_met(void **state) {
    static const char *const names[] = {"answered", "denied",         "timed out", "cancelled",          "peer died",
                                        "crashes",  "bodies refused", "doubled",   "cancellations seen", NULL};
    uint64_t totals[sizeof names / sizeof *names] = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        scenario_result result = result_of(seed, NULL);
        if (result.violation[0] != '\0') print_message("seed %llu: %s\n", (unsigned long long)seed, result.violation);
        assert_string_equal(result.violation, "");
        count(&result, names, totals);
    }
    for (size_t i = 0; names[i] != NULL; i++) {
        if (totals[i] < SEEDS) print_message("only %llu %s\n", (unsigned long long)totals[i], names[i]);
        assert_true(totals[i] >= SEEDS);
    }
}

static void a_seed_replays_exactly(void **state) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        scenario_result first = result_of(seed, NULL), second = result_of(seed, NULL);
        assert_true(first.hash == second.hash && first.events == second.events);
        assert_true(first.hash != result_of(seed + 1, NULL).hash);
    }
}

static void each_mutation_is_caught(void **state) {
    for (const scenario_mutation *mutation = rpc_scenario.mutations; mutation->name != NULL; mutation++) {
        uint64_t seed = 1;
        while (seed <= mutation->caught_within && result_of(seed, mutation->name).violation[0] == '\0') seed++;
        print_message("%s: caught by seed %llu\n", mutation->name, (unsigned long long)seed);
        assert_true(seed <= mutation->caught_within);
    }
}

/* ---- Two sides, one mutation. */

static int teardown(void **state) {
    mutation_now = NULL;
    return rpc_pair_teardown(state);
}

static void without_the_filter_a_repeat_runs_twice(void **state) {
    rpc_pair *pair = *state;
    mutation_now = "no-duplicate-filter";
    rpc_outcome outcome;
    assert_int_equal(rpc_pair_start(pair, CLIENT, "x", NULL, &outcome), MR_OK);
    loopback_double(&pair->loopback, CLIENT, 0);
    loopback_run(&pair->loopback);
    assert_int_equal(pair->sides[SERVER].seen_count, 2);
}

static void without_deadlines_a_lost_call_stays(void **state) {
    rpc_pair *pair = *state;
    mutation_now = "no-deadline";
    rpc_outcome outcome;
    const rpc_call_options persistent = {.timeout_us = 10000, .attempt_timeout_us = 1000, .attempts_max = 4};
    assert_int_equal(rpc_pair_start(pair, CLIENT, "x", &persistent, &outcome), MR_OK);
    while (pair->loopback.ends[CLIENT].count > 0) loopback_drop(&pair->loopback, CLIENT, 0);
    rpc_pair_advance(pair, 1000000);
    assert_int_equal(outcome.count, 0);
}

#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, rpc_pair_setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_seed_breaks_a_promise_and_every_end_is_met),
        cmocka_unit_test(a_seed_replays_exactly),
        cmocka_unit_test(each_mutation_is_caught),
        WITH_PAIR(without_the_filter_a_repeat_runs_twice),
        WITH_PAIR(without_deadlines_a_lost_call_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
