/* runner.h — runs many seeds in several processes.
 *
 * Seeds of all chosen scenarios are distributed to `jobs` forked processes in turn. A job that dies (an assertion, a
 * sanitizer's report) or exceeds the time for one seed is a finding like any violation: the runner reports the job's
 * current seed, and another process continues after it. The runner prints every finding with the command that replays
 * it. */
#pragma once
#include "sim/scenario.h"

enum { RUNNER_JOBS_MAX = 64, RUNNER_SEED_SECONDS_MAX = 60, RUNNER_REPLAY_EVERY = 50 };

typedef struct runner_options {
    const scenario *const *scenarios; /* ends with NULL */
    uint64_t first, last;             /* seeds of each scenario, both included */
    unsigned jobs;
    const char *mutation; /* NULL: none */
    bool check_replay;    /* run every seed twice and compare the hashes, not only one in RUNNER_REPLAY_EVERY */
    bool stop_at_first;   /* stop after this many findings */
    bool quiet;           /* print nothing */
    const char *command;  /* command name of this program, for the line that replays a finding */
} runner_options;

typedef struct runner_report {
    uint64_t seeds, findings, events;
    uint64_t first_finding;   /* lowest seed with a finding; 0: none */
    const scenario *scenario; /* scenario of that seed; NULL: none */
    double seconds;
    scenario_counter counters[SCENARIO_COUNTERS_MAX]; /* total over all scenarios */
    size_t counter_count;
} runner_report;

void runner_run(const runner_options *options, runner_report *report);
uint64_t runner_counted(const runner_report *report, const char *counter); /* 0: never */

/* Runs one seed in this process and prints its result. True: no violation. */
bool runner_show(const scenario *scenario, const scenario_options *options);
