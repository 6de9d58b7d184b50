/* seeds_test.c — the kept seeds of seeds.txt still give the same results. */
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

static void replay(const char *line, int number) {
    char name[32], mutation[32], expectation[16], rest[2];
    unsigned long long seed;
    if (sscanf(line, "%31s %llu %31s %15s %1s", name, &seed, mutation, expectation, rest) != 4)
        fail_msg("seeds.txt:%d: expected scenario, seed, mutation or -, ok or fails", number);
    const scenario *one[] = {scenario_find(name), NULL};
    if (one[0] == NULL) fail_msg("seeds.txt:%d: no scenario is called %s", number, name);
    bool mutated = strcmp(mutation, "-") != 0;
    if (mutated && scenario_find_mutation(one[0], mutation) == NULL)
        fail_msg("seeds.txt:%d: %s has no mutation %s", number, name, mutation);
    bool fails = strcmp(expectation, "fails") == 0;
    if (!fails && strcmp(expectation, "ok") != 0) fail_msg("seeds.txt:%d: ok or fails expected", number);
    runner_options options = {.scenarios = one,
                              .first = seed,
                              .last = seed,
                              .jobs = 1,
                              .mutation = mutated ? mutation : NULL,
                              .check_replay = true,
                              .quiet = fails,
                              .command = "build/sim/miniray-sim"};
    runner_report report;
    runner_run(&options, &report);
    if ((report.findings != 0) != fails)
        fail_msg("seeds.txt:%d: %s seed %llu %s", number, name, seed, fails ? "no longer fails" : "fails");
}

static void kept_seeds_say_what_they_said(void **state) {
    const char *root = getenv("MINIRAY_TEST_SOURCE");
    char path[512], line[256];
    snprintf(path, sizeof path, "%s/sim/seeds.txt", root == NULL ? "." : root);
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("cannot open %s", path);
    int count = 0;
    for (int number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        if (line[0] == '#' || line[strspn(line, " \t\n")] == '\0') continue;
        replay(line, number);
        count++;
    }
    fclose(file);
    assert_true(count > 0);
}

int main(void) {
    log_set_fd(-1); /* hides warnings: the faults are simulated */
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_seeds_say_what_they_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
