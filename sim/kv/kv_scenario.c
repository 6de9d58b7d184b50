/* kv_scenario.c — the processes of the parameter server (kv_deployment.h) with faults: a workload ends with exactly the
 * bits of plain sums.
 *
 * The protocol has a scenario of its own (sim/ps), with a checker of every step. This one is about the layers around
 * it: kv process, kv workers and their requests, tables in engines, the scheduler with its metadata store and its
 * checkpoints. Each seed draws a deployment; faults of all kinds occur for a while; they heal, and every rank must have
 * seen the right weights within SETTLE_US.
 *
 * The scenario `reader` has a reader beside the workers, which pulls the tables again and again (kv_sim_reader.h). The
 * scenario `forgery` has a further process, which sends what only others may send (kv_forger.h). In the scenario
 * `stop` the scheduler is stopped on purpose again and again, at times with all servers, and started again: no worker
 * may take that for the end of the deployment while a server serves. */
#include "sim/kv/kv_scenario.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "sim/faults.h"
#include "sim/kv/kv_forger.h"
#include "sim/kv/kv_sim_reader.h"
#include "sim/ps/ps_scenario.h"

#define FAULTS_US INT64_C(6000000)
#define SETTLE_US INT64_C(90000000)

static void draw(kv_deployment *deployment, rng *rng) {
    static const consistency_kind kinds[] = {CONSISTENCY_ASP, CONSISTENCY_SSP, CONSISTENCY_BSP, CONSISTENCY_BSP};
    kv_scheduler_options *options = &deployment->scheduler;
    options->consistency = (consistency){kinds[rng_below(rng, 4)], (uint32_t)rng_below(rng, 3)};
    if (options->consistency.kind != CONSISTENCY_SSP) options->consistency.bound = 0;
    deployment->servers = 1 + (uint32_t)rng_below(rng, KV_DEPLOYMENT_SERVERS_MAX);
    deployment->workers = 1 + (uint32_t)rng_below(rng, KV_DEPLOYMENT_WORKERS_MAX);
    deployment->steps = 1 + rng_below(rng, 30);
    deployment->checker.parts = rng_chance(rng, 0.6) ? 1 + (uint32_t)rng_below(rng, KV_DATA_CHECKER_PARTS) : 0;
    for (uint32_t i = 0; i < deployment->checker.parts; i++) deployment->checker.sizes[i] = 1 + rng_below(rng, 60);
    deployment->step_us = rng_between(rng, 0, 2 * FAULTS_US / (int64_t)deployment->steps);
    options->server_count = 1 + (uint32_t)rng_below(rng, deployment->servers); /* the other servers join later */
    options->table_slots = 1 + (uint32_t)rng_below(rng, 6);
    options->copies = (uint8_t)(1 + rng_below(rng, options->server_count < 3 ? options->server_count : 3));
    if (rng_chance(rng, 0.5)) options->checkpoint_us = rng_between(rng, 50000, 1000000);
    if (rng_chance(rng, 0.3)) options->balance_us = rng_between(rng, 200000, 1000000);
    bool rounds = options->consistency.kind == CONSISTENCY_BSP;
    deployment->leave_chance = 0.15;
    if (!rounds && rng_chance(rng, 0.5)) deployment->hurry_chance = 0.7;
    options->mixed = rounds && rng_chance(rng, 0.4);
    options->exact_checkpoints = options->checkpoint_us != 0 && !options->mixed && rng_chance(rng, 0.3);
    for (int i = 0; i < KV_WORKLOAD_PARTS; i++)
        deployment->workload.rounds[i] = rounds && (i == KV_WORKLOAD_ROWS || !options->mixed);
}

static bool has_reader(const kv_deployment *deployment) { return deployment->further == &kv_sim_reader_program; }

static bool is_done(void *context) {
    const kv_deployment *deployment = context;
    return kv_deployment_is_done(deployment) &&
           (!has_reader(deployment) || kv_sim_reader_is_done(&deployment->further_site));
}

static void complain(const kv_deployment *deployment) {
    char why[SCENARIO_TEXT_MAX / 2];
    uint32_t rank = kv_deployment_why(deployment, why, sizeof why);
    if (rank == deployment->workers) {
        kv_sim_reader_why(&deployment->further_site, why, sizeof why);
        sim_violation(deployment->sim, "%d s after the faults %s", (int)(SETTLE_US / 1000000), why);
        return;
    }
    sim_violation(deployment->sim, "%d s after the faults the lesson is not over for rank %u: %s",
                  (int)(SETTLE_US / 1000000), rank, why);
}

/* ---- Stops. */

typedef struct stops {
    kv_deployment *deployment;
    int64_t until_us;
} stops;

static void start_servers(void *context, uint64_t argument) {
    stops *stops = context;
    for (uint32_t i = 0; i < stops->deployment->servers; i++)
        if (!sim_node_up(stops->deployment->server_sites[i].node))
            sim_node_start(stops->deployment->server_sites[i].node);
}

static void end_servers(void *context, uint64_t argument) {
    stops *stops = context;
    for (uint32_t i = 0; i < stops->deployment->servers; i++)
        if (sim_node_up(stops->deployment->server_sites[i].node))
            sim_node_crash(stops->deployment->server_sites[i].node, false);
    sim_count(stops->deployment->sim, "stops of all", 1);
}

static void stop_now(void *context, uint64_t argument) {
    stops *stops = context;
    sim *sim = stops->deployment->sim;
    rng *rng = sim_rng(sim);
    int64_t down_us = rng_between(rng, 2, 1500000);
    if (sim_now_us(sim) >= stops->until_us) return;
    kv_deployment_stop_scheduler(stops->deployment, down_us);
    if (rng_chance(rng, 0.3)) {
        sim_after(sim, rng_between(rng, 1, down_us - 1), end_servers, stops, 0);
        sim_after(sim, down_us, start_servers, stops, 0);
    }
    sim_after(sim, down_us + rng_between(rng, 1, 2000000), stop_now, stops, 0);
}

static void run_with(const scenario_options *options, scenario_result *result, const sim_program *further,
                     bool stopped) {
    kv_deployment *deployment = xcalloc(1, sizeof *deployment);
    deployment->further = further;
    deployment->scheduler.reader_count = has_reader(deployment);
    deployment->sim = sim_create(options);
    sim_describe(deployment->sim, ps_describe);
    draw(deployment, sim_rng(deployment->sim));
    kv_deployment_build(deployment);
    sim_note(deployment->sim, NULL, "%u servers, %u workers, %u slots, %u copies, consistency %d(%u)%s, %d steps",
             deployment->servers, deployment->workers, deployment->scheduler.table_slots, deployment->scheduler.copies,
             (int)deployment->scheduler.consistency.kind, deployment->scheduler.consistency.bound,
             deployment->scheduler.mixed ? " and others" : "", (int)deployment->steps);
    fault_limits limits = {.allowed = FAULT_ALL, .until_us = FAULTS_US, .down_max = 2};
    faults *faults = faults_create(deployment->sim, &limits);
    stops stops = {.deployment = deployment, .until_us = FAULTS_US};
    if (stopped) stop_now(&stops, 0);
    bool settled = false;
    if (sim_run(deployment->sim, FAULTS_US + FAULTS_HEAL_US) &&
        sim_run_until(deployment->sim, sim_now_us(deployment->sim) + SETTLE_US, is_done, deployment, &settled) &&
        !settled)
        complain(deployment);
    if (settled) kv_data_checker_check(&deployment->checker);
    faults_destroy(faults);
    sim_finish(deployment->sim, result);
    free(deployment);
}

static void run(const scenario_options *options, scenario_result *result) { run_with(options, result, NULL, false); }

static void run_stop(const scenario_options *options, scenario_result *result) {
    run_with(options, result, NULL, true);
}

static void run_forgery(const scenario_options *options, scenario_result *result) {
    run_with(options, result, &kv_forger_program, false);
}

static void run_reader(const scenario_options *options, scenario_result *result) {
    run_with(options, result, &kv_sim_reader_program, false);
}

static const scenario_mutation mutations[] = {
    {"counts-alone", "a restarted worker counts its steps from 0 instead of asking the servers", 50},
    {"other-values", "a repeated step pushes other values", 50},
    {"no-table-sync", "a table is committed before its bytes are on the disk", 50},
    {0},
};

const scenario kv_scenario = {
    "kv", "processes of the parameter server: a training run ends with the bits of plain sums", mutations, run};

static const scenario_mutation forgery_mutations[] = {
    {"any-map", "a process adopts cluster maps of processes other than the controller", 50},
    {"any-scheduler", "every process may speak for the controller", 50},
    {"any-sender", "a process may speak for a server that another process is", 100},
    {0},
};

const scenario forgery_scenario = {"forgery", "as kv, with a process that sends what only other processes may send",
                                   forgery_mutations, run_forgery};

static const scenario_mutation reader_mutations[] = {
    {"mixed-read", "a reader's pull ends with answers of different versions", 50},
    {0},
};

const scenario reader_scenario = {"reader", "as kv, with a reader that pulls the tables again and again",
                                  reader_mutations, run_reader};

static const scenario_mutation stop_mutations[] = {
    {"stop-is-enough", "an announced stop ends the deployment although its servers serve", 20},
    {"old-leave", "what a rank's earlier term has handed back is taken in the next", 3000},
    {"old-group", "a rank uses batches of tables that were lost", 1, 1795107968001711},
    {"late-restart", "a generation from a checkpoint does not begin the data of its tables", 1000},
    {0},
};

const scenario stop_scenario = {"stop", "as kv, with a scheduler that is stopped on purpose and started again",
                                stop_mutations, run_stop};
