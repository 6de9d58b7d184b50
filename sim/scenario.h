/* scenario.h — scenarios of the simulator.
 *
 * A scenario builds a small cluster in a `sim`, lets faults loose on it, heals everything, and checks. It is a function
 * of (seed, mutation) and nothing else: no real clock, no address of memory, no iteration order that depends on either.
 * All scenarios are in the table of scenario.c; the runner, the replay of kept seeds and the tests walk that table.
 *
 * A mutation switches one safety mechanism of the code under test off. The simulator must then find a violation within
 * `caught_within` seeds, counted from seed 1 or, for rare histories, from `first`: this proves that the checkers detect
 * the errors that the mechanism prevents. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCENARIO_TEXT_MAX = 512, SCENARIO_COUNTERS_MAX = 128 };

typedef struct scenario_options {
    uint64_t seed;
    const char *mutation;    /* one of the scenario's mutations; NULL: none */
    bool verbose;            /* print the trace on stdout */
    uint64_t stop_after;     /* end without a check after this many events; 0: run to the end */
    uint64_t faults_max;     /* draw all faults, but carry out only the first faults_max; UINT64_MAX: all */
    uint64_t faults_skipped; /* of the first 64 faults, skip those whose bit is set */
} scenario_options;

static inline scenario_options scenario_options_of(uint64_t seed, const char *mutation) {
    return (scenario_options){.seed = seed, .mutation = mutation, .faults_max = UINT64_MAX};
}

typedef struct scenario_counter {
    const char *name; /* static */
    uint64_t value;
} scenario_counter;

typedef struct scenario_result {
    uint64_t hash;   /* hash of every event and every delivered byte; equal for equal options */
    uint64_t events; /* number of processed events */
    int64_t virtual_us;
    char violation[SCENARIO_TEXT_MAX]; /* first violation; "" if none */
    scenario_counter counters[SCENARIO_COUNTERS_MAX];
    size_t counter_count;
} scenario_result;

typedef struct scenario_mutation {
    const char *name, *doc;
    uint32_t caught_within; /* the simulator finds a violation within this many seeds, */
    uint64_t first;         /* from this one [1] */
} scenario_mutation;

typedef struct scenario {
    const char *name, *doc;
    const scenario_mutation *mutations; /* ends with a NULL name; NULL: none */
    void (*run)(const scenario_options *options, scenario_result *result);
} scenario;

const scenario *const *scenario_table(void); /* ends with NULL */
const scenario *scenario_find(const char *name);
const scenario_mutation *scenario_find_mutation(const scenario *scenario, const char *name);
