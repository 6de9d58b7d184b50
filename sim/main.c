/* main.c — the program miniray-sim: command line of the simulator. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "sim/runner.h"
#include "sim/shrink.h"

enum { STORY_LINES = 80 };

typedef struct arguments {
    const char *scenario, *mutation;
    uint64_t first, last, stop_after, faults_max, faults_skipped;
    unsigned jobs;
    bool one, verbose, check_replay, list, shrink, stop;
} arguments;

enum {
    KEY_SCENARIO = 1000,
    KEY_SEED,
    KEY_SEEDS,
    KEY_MUTATE,
    KEY_CHECK_REPLAY,
    KEY_STOP_AFTER,
    KEY_FAULTS,
    KEY_SKIP,
    KEY_SHRINK,
    KEY_STOP,
    KEY_LIST
};

static const struct argp_option option_list[] = {
    {"scenario", KEY_SCENARIO, "NAME", 0, "Run this scenario only (default: all)", 0},
    {"seeds", KEY_SEEDS, "A..B", 0, "Run these seeds of each scenario (default: 1..10000)", 0},
    {"seed", KEY_SEED, "N", 0, "Run one seed, in this process", 0},
    {"stop", KEY_STOP, NULL, 0, "Stop at the first finding, shrink it and print its last events (with --seeds)", 0},
    {"jobs", 'j', "N", 0, "Number of processes (default: 2)", 0},
    {"verbose", 'v', NULL, 0, "Print all events (with --seed)", 0},
    {"mutate", KEY_MUTATE, "NAME", 0, "Switch one safety mechanism off; seeds should then fail", 0},
    {"check-replay", KEY_CHECK_REPLAY, NULL, 0, "Run every seed twice and compare the hashes (default: one seed in 50)",
     0},
    {"stop-after", KEY_STOP_AFTER, "EVENTS", 0, "Stop after this many events, without checks at the end (with --seed)",
     0},
    {"faults", KEY_FAULTS, "N", 0, "Inject only the first N faults of the plan (with --seed)", 0},
    {"skip-faults", KEY_SKIP, "BITS", 0, "Leave out those of the first 64 faults whose bit is set (with --seed)", 0},
    {"shrink", KEY_SHRINK, NULL, 0,
     "Find the fewest faults with which the seed fails, and print its last events (with --seed)", 0},
    {"list", KEY_LIST, NULL, 0, "List the scenarios and their mutations", 0},
    {0},
};

static uint64_t parse_number(struct argp_state *state, const char *text) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-') argp_error(state, "'%s' is not a number", text);
    return number;
}

static void parse_seeds(struct argp_state *state, char *text, arguments *arguments) {
    char *dots = strstr(text, "..");
    if (dots == NULL) {
        argp_error(state, "expected --seeds A..B, not '%s'", text);
        return;
    }
    *dots = '\0';
    arguments->first = parse_number(state, text);
    arguments->last = parse_number(state, dots + 2);
    if (arguments->first > arguments->last)
        argp_error(state, "--seeds: %llu is after %llu", (unsigned long long)arguments->first,
                   (unsigned long long)arguments->last);
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    arguments *arguments = state->input;
    switch (key) {
    case KEY_SCENARIO: arguments->scenario = value; break;
    case KEY_SEEDS: parse_seeds(state, value, arguments); break;
    case KEY_SEED:
        arguments->first = arguments->last = parse_number(state, value);
        arguments->one = true;
        break;
    case 'j':
        arguments->jobs = (unsigned)parse_number(state, value);
        if (arguments->jobs < 1 || arguments->jobs > RUNNER_JOBS_MAX)
            argp_error(state, "--jobs must be 1 to %d, not %s", RUNNER_JOBS_MAX, value);
        break;
    case 'v': arguments->verbose = true; break;
    case KEY_MUTATE: arguments->mutation = value; break;
    case KEY_CHECK_REPLAY: arguments->check_replay = true; break;
    case KEY_STOP_AFTER: arguments->stop_after = parse_number(state, value); break;
    case KEY_FAULTS: arguments->faults_max = parse_number(state, value); break;
    case KEY_SKIP: arguments->faults_skipped = strtoull(value, NULL, 0); break;
    case KEY_SHRINK: arguments->shrink = true; break;
    case KEY_STOP: arguments->stop = true; break;
    case KEY_LIST: arguments->list = true; break;
    case ARGP_KEY_ARG: argp_usage(state); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void list_scenarios(void) {
    for (const scenario *const *at = scenario_table(); *at != NULL; at++) {
        printf("%-24s %s\n", (*at)->name, (*at)->doc);
        if ((*at)->mutations == NULL) continue;
        for (const scenario_mutation *mutation = (*at)->mutations; mutation->name != NULL; mutation++)
            printf("  --mutate %-22s %s\n", mutation->name, mutation->doc);
    }
}

/* The requested scenarios, restricted to those that have the mutation. */
static size_t choose(const arguments *arguments, const scenario **chosen, size_t room) {
    size_t count = 0;
    for (const scenario *const *at = scenario_table(); *at != NULL && count + 1 < room; at++) {
        if (arguments->scenario != NULL && strcmp((*at)->name, arguments->scenario) != 0) continue;
        if (arguments->mutation != NULL && scenario_find_mutation(*at, arguments->mutation) == NULL) continue;
        chosen[count++] = *at;
    }
    chosen[count] = NULL;
    return count;
}

static int run_many(const arguments *arguments, const scenario *const *chosen, const char *command) {
    runner_options options = {.scenarios = chosen,
                              .first = arguments->first,
                              .last = arguments->last,
                              .jobs = arguments->jobs,
                              .mutation = arguments->mutation,
                              .check_replay = arguments->check_replay,
                              .stop_at_first = arguments->stop,
                              .command = command};
    runner_report report;
    runner_run(&options, &report);
    printf("%llu seeds in %.1f s: %llu findings\n", (unsigned long long)report.seeds, report.seconds,
           (unsigned long long)report.findings);
    if (arguments->stop && report.findings != 0) {
        scenario_options how = scenario_options_of(report.first_finding, arguments->mutation);
        (void)shrink_run(report.scenario, &how, command, STORY_LINES);
    }
    return report.findings == 0 ? 0 : 1;
}

static int run_one(const arguments *arguments, const scenario *const *chosen, const char *command) {
    bool good = true;
    for (; *chosen != NULL; chosen++) {
        scenario_options options = scenario_options_of(arguments->first, arguments->mutation);
        options.verbose = arguments->verbose;
        options.stop_after = arguments->stop_after;
        options.faults_max = arguments->faults_max;
        options.faults_skipped = arguments->faults_skipped;
        bool fine =
            arguments->shrink ? !shrink_run(*chosen, &options, command, STORY_LINES) : runner_show(*chosen, &options);
        good = fine && good;
    }
    return good ? 0 : 1;
}

static void complain(const arguments *arguments) {
    const char *self = program_invocation_short_name, *scenario = arguments->scenario, *mutation = arguments->mutation;
    if (mutation == NULL)
        fprintf(stderr, "%s: unknown scenario '%s'; --list shows all\n", self, scenario);
    else if (scenario == NULL)
        fprintf(stderr, "%s: no scenario has the mutation '%s'; --list shows all\n", self, mutation);
    else
        fprintf(stderr, "%s: scenario '%s' does not exist, or does not have the mutation '%s'; --list shows all\n",
                self, scenario, mutation);
}

int main(int count, char **values) {
    static const char doc[] = "Run the protocols of Miniray in a simulated cluster, from seeds.\v"
                              "Exit status: 0 no findings, 1 findings, 64 wrong usage.";
    struct argp argp = {.options = option_list, .parser = parse_option, .doc = doc};
    arguments arguments = {.first = 1, .last = 10000, .jobs = 2, .faults_max = UINT64_MAX};
    argp_parse(&argp, count, values, 0, NULL, &arguments);
    if (arguments.list) {
        list_scenarios();
        return 0;
    }
    if (arguments.verbose)
        log_set_level(LOG_DEBUG);
    else
        log_set_fd(-1); /* hides warnings: the faults are simulated */
    const scenario *chosen[16];
    if (choose(&arguments, chosen, sizeof chosen / sizeof *chosen) == 0) {
        complain(&arguments);
        return 64;
    }
    return arguments.one ? run_one(&arguments, chosen, values[0]) : run_many(&arguments, chosen, values[0]);
}
