/* runner.h — many seeds, in several processes.
 *
 * Seeds of all chosen scenarios are dealt out to `jobs` forked processes in turn. A job that dies (an assertion, a
 * sanitizer's report) or takes too long for one seed is a finding like any violation: the seed it was at is reported,
 * and another process goes on behind it. Every finding is printed with the command that replays it. */
#pragma once
#include "sim/scenario.h"

enum { RUNNER_JOBS_MAX = 64, RUNNER_SEED_SECONDS_MAX = 60, RUNNER_REPLAY_EVERY = 50 };

typedef struct runner_options {
    const scenario *const *scenarios; /* ends with NULL */
    uint64_t first, last;             /* seeds, both included, of each scenario */
    unsigned jobs;
    const char *mutation; /* NULL: none */
    bool check_replay;    /* run every seed twice and compare the hashes, not only one in RUNNER_REPLAY_EVERY */
    bool stop_at_first;   /* finding */
    bool quiet;           /* print nothing */
    const char *command;  /* how this program is called, for the line that replays a finding */
} runner_options;

typedef struct runner_report {
    uint64_t seeds, findings, events;
    uint64_t first_finding;   /* the lowest seed with one; 0: none */
    const scenario *scenario; /* in which that was; NULL: none */
    double seconds;
    scenario_counter counters[SCENARIO_COUNTERS_MAX]; /* of all scenarios together */
    size_t counter_count;
} runner_report;

void runner_run(const runner_options *options, runner_report *report);
uint64_t runner_counted(const runner_report *report, const char *counter); /* 0: never */

/* One seed in this process; says on stdout what came out. True: no violation. */
bool runner_show(const scenario *scenario, const scenario_options *options);
