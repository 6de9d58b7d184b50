/* protocol_test.c — thousands of seeds of the protocols of a cluster: no seed has a finding, and together the seeds
 * reach every path that has a counter.
 *
 * protocol-test FIRST LAST runs these seeds of each scenario, in one process after the other; without arguments it runs
 * the first of the ranges into which tests/meson.build divides 10,000 seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/log.h"
#include "sim/ps/ps_coverage.h"
#include "sim/runner.h"

enum { PIECE = 2500 };

typedef struct range {
    uint64_t first, last;
} range;

/* Counters that must be positive in every range of seeds, for each scenario; in addition to those of ps_coverage.h. */
static const char *const network_counters[] = {"lost",    "doubled",   "reordered", "refused",       "links broken",
                                               "crashes", "reset",     "cut",       "disk failures", "pause",
                                               "clock",   "partition", NULL};
static const char *const ps_counters[] = {"charts",
                                          "stints",
                                          "generations",
                                          "restores",
                                          "kills",
                                          "checkpoints",
                                          "exact checkpoints",
                                          "rests",
                                          "trips",
                                          "ranks left out",
                                          "ranks that are back",
                                          "shards",
                                          "drops",
                                          "orders",
                                          "short rounds",
                                          "rounds with norms",
                                          "missed rounds",
                                          "isolations",
                                          "mixed deployments",
                                          "pulls with their own bounds",
                                          "rounds of the idle",
                                          "turns",
                                          "batches",
                                          "pieces",
                                          "pieces handed back",
                                          "coordinators lost",
                                          "enrolled again",
                                          "files that rot",
                                          "checkpoints rotten",
                                          NULL};
/* In the scenario with small pieces, and not in `ps`. */
static const char *const pieces_counters[] = {"part PIECE", "part TAKEN_PIECE", "TAKEN_PIECE LATER", NULL};
static const char *const group_counters[] = {"rosters", "pieces", "epochs", "taken out", NULL};
static const char *const view_counters[] = {"views",          "left out",   "writes accepted",
                                            "writes refused", "disks lost", NULL};

static runner_report run(const char *name, const range *seeds) {
    const scenario *one[] = {scenario_find(name), NULL};
    assert_non_null(one[0]);
    runner_options options = {.scenarios = one,
                              .first = seeds->first,
                              .last = seeds->last,
                              .jobs = 1, /* the ranges run in parallel */
                              .command = "build/sim/miniray-sim"};
    runner_report report;
    runner_run(&options, &report);
    if (report.findings != 0) fail_msg("%s fails at seed %d", name, (int)report.first_finding);
    assert_int_equal(report.seeds, seeds->last - seeds->first + 1);
    return report;
}

/* Prints every counter that stayed zero, then fails. */
static size_t count_missing(const runner_report *report, const char *counter) {
    if (runner_counted(report, counter) != 0) return 0;
    print_error("no seed came to '%s'\n", counter);
    return 1;
}

static bool is_of_pieces(const char *counter) {
    for (size_t i = 0; pieces_counters[i] != NULL; i++)
        if (strcmp(pieces_counters[i], counter) == 0) return true;
    return false;
}

static void check(const char *name, const range *seeds, const char *const *counters, bool tallied) {
    runner_report report = run(name, seeds);
    size_t missing = 0;
    if (seeds->last - seeds->first + 1 < PIECE) return; /* too few seeds for rare paths */
    for (size_t i = 0; network_counters[i] != NULL; i++) missing += count_missing(&report, network_counters[i]);
    for (; *counters != NULL; counters++) missing += count_missing(&report, *counters);
    for (size_t i = 0; tallied && ps_coverage_name(i) != NULL; i++)
        missing += is_of_pieces(ps_coverage_name(i)) ? 0 : count_missing(&report, ps_coverage_name(i));
    assert_int_equal(missing, 0);
}

static void ps_has_no_finding_and_leaves_nothing_out(void **state) { check("ps", *state, ps_counters, true); }
/* A fifth of the seeds: they take longer. */
static void pieces_has_no_finding_and_leaves_nothing_out(void **state) {
    const range *all = *state, fifth = {all->first, all->first + (all->last - all->first) / 5};
    runner_report report = run("pieces", &fifth);
    size_t missing = 0;
    for (size_t i = 0; all->last - all->first + 1 >= PIECE && pieces_counters[i] != NULL; i++)
        missing += count_missing(&report, pieces_counters[i]);
    assert_int_equal(missing, 0);
}
static void group_has_no_finding_and_leaves_nothing_out(void **state) { check("group", *state, group_counters, false); }
static void view_has_no_finding_and_leaves_nothing_out(void **state) { check("view", *state, view_counters, false); }

int main(int count, char **values) {
    range seeds = {1, PIECE};
    if (count == 3) seeds = (range){strtoull(values[1], NULL, 10), strtoull(values[2], NULL, 10)};
    MR_ASSERT((count == 1 || count == 3) && seeds.first >= 1 && seeds.first <= seeds.last);
    log_set_fd(-1); /* hides warnings: the faults are simulated */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(ps_has_no_finding_and_leaves_nothing_out, &seeds),
        cmocka_unit_test_prestate(pieces_has_no_finding_and_leaves_nothing_out, &seeds),
        cmocka_unit_test_prestate(group_has_no_finding_and_leaves_nothing_out, &seeds),
        cmocka_unit_test_prestate(view_has_no_finding_and_leaves_nothing_out, &seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
