/* scenario.c — the parameter server's own processes (school.h) under fire: a lesson ends with the bits of plain sums.
 *
 * The protocol has a scenario of its own (sim/ps), with a ledger of every step. This one is about what stands around
 * it: postoffices, customers and their errands, tables on shelves, the scheduler with its desk, its coordinator and its
 * checkpoints. Each seed draws a deployment; everything goes wrong for a while; it heals, and every rank must have seen
 * the right weights within SETTLE_US. */
#include "sim/kv/scenario.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "sim/faults.h"
#include "sim/ps/scenario.h"

#define FAULTS_US INT64_C(6000000)
#define SETTLE_US INT64_C(90000000)

static void draw(school *school, rng *rng) {
    static const consistency_kind kinds[] = {CONSISTENCY_ASP, CONSISTENCY_SSP, CONSISTENCY_BSP, CONSISTENCY_BSP};
    scheduler_options *options = &school->scheduler;
    options->consistency = (consistency){kinds[rng_below(rng, 4)], (uint32_t)rng_below(rng, 3)};
    if (options->consistency.kind != CONSISTENCY_SSP) options->consistency.bound = 0;
    school->servers = 1 + (uint32_t)rng_below(rng, SCHOOL_SERVERS_MAX);
    school->workers = 1 + (uint32_t)rng_below(rng, SCHOOL_WORKERS_MAX);
    school->steps = 1 + rng_below(rng, 30);
    school->diet.parts = rng_chance(rng, 0.6) ? 1 + (uint32_t)rng_below(rng, DIET_PARTS) : 0;
    for (uint32_t i = 0; i < school->diet.parts; i++) school->diet.sizes[i] = 1 + rng_below(rng, 60);
    school->step_us = rng_between(rng, 0, 2 * FAULTS_US / (int64_t)school->steps);
    options->server_count = 1 + (uint32_t)rng_below(rng, school->servers); /* the others come to join them */
    options->table_slots = 1 + (uint32_t)rng_below(rng, 6);
    options->copies = (uint8_t)(1 + rng_below(rng, options->server_count < 3 ? options->server_count : 3));
    if (rng_chance(rng, 0.5)) options->checkpoint_us = rng_between(rng, 50000, 1000000);
    if (rng_chance(rng, 0.3)) options->balance_us = rng_between(rng, 200000, 1000000);
    bool rounds = options->consistency.kind == CONSISTENCY_BSP;
    school->leave_chance = 0.15;
    if (!rounds && rng_chance(rng, 0.5)) school->hurry_chance = 0.7;
    options->mixed = rounds && rng_chance(rng, 0.4);
    options->exact_checkpoints = options->checkpoint_us != 0 && !options->mixed && rng_chance(rng, 0.3);
    for (int i = 0; i < LESSON_PARTS; i++) school->lesson.rounds[i] = rounds && (i == LESSON_ROWS || !options->mixed);
}

static bool is_done(void *context) { return school_is_done(context); }

static void complain(const school *school) {
    char why[SCENARIO_TEXT_MAX / 2];
    uint32_t rank = school_why(school, why, sizeof why);
    sim_violation(school->sim, "%d s after the faults the lesson is not over for rank %u: %s",
                  (int)(SETTLE_US / 1000000), rank, why);
}

static void run(const scenario_options *options, scenario_result *result) {
    school *school = xcalloc(1, sizeof *school);
    school->sim = sim_create(options);
    sim_describe(school->sim, ps_describe);
    draw(school, sim_rng(school->sim));
    school_build(school);
    sim_note(school->sim, NULL, "%u servers, %u workers, %u slots, %u copies, consistency %d(%u)%s, %d steps",
             school->servers, school->workers, school->scheduler.table_slots, school->scheduler.copies,
             (int)school->scheduler.consistency.kind, school->scheduler.consistency.bound,
             school->scheduler.mixed ? " and others" : "", (int)school->steps);
    fault_limits limits = {.allowed = FAULT_ALL, .until_us = FAULTS_US, .down_max = 2};
    faults *faults = faults_create(school->sim, &limits);
    bool settled = false;
    if (sim_run(school->sim, FAULTS_US + FAULTS_HEAL_US) &&
        sim_run_until(school->sim, sim_now_us(school->sim) + SETTLE_US, is_done, school, &settled) && !settled)
        complain(school);
    if (settled) diet_check(&school->diet);
    faults_destroy(faults);
    sim_finish(school->sim, result);
    free(school);
}

static const scenario_mutation mutations[] = {
    {"counts-alone", "a worker counts its steps itself, from the first one on when it is started again", 50},
    {"other-values", "a step that is played again pushes something else", 50},
    {0},
};

const scenario kv_scenario = {"kv", "the processes of the parameter server: a lesson ends with the bits of plain sums",
                              mutations, run};
