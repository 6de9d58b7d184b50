/* kv_deployment_test.c — a workload with a fixed sequence of events instead of random faults. */
#include "sim/kv/kv_deployment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/sim_network.h"

enum { SLOTS = 4, STEPS = 24 };
#define SECOND INT64_C(1000000)

static bool is_done(void *context) { return kv_deployment_is_done(context); }

static void cut_off(kv_deployment *deployment, sim_node *a, sim_node *b, bool cut) {
    sim_network_cut(sim_get_network(deployment->sim), a, b, cut);
    sim_network_cut(sim_get_network(deployment->sim), b, a, cut);
}

/* A worker runs ahead at one server while its messages to the other are lost, and dies. The next process of its rank
 * begins with the first step that the other server lacks, and then gives up its data, except the data of steps that the
 * first server has. */
static void a_replacement_keeps_claims_that_were_begun(void **state) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        scenario_options options = scenario_options_of(seed, NULL);
        scenario_result result;
        kv_deployment deployment = {.sim = sim_create(&options),
                                    .scheduler = {.server_count = 2, .table_slots = SLOTS, .copies = 1},
                                    .servers = 2,
                                    .workers = 2,
                                    .steps = STEPS,
                                    .step_us = 100000,
                                    .hurry_chance = 1,
                                    .checker = {.parts = 2, .sizes = {60, 60}}};
        bool done = false;
        kv_deployment_build(&deployment);
        sim_node *worker = deployment.worker_sites[0].node, *server = deployment.server_sites[seed % 2].node;
        assert_true(sim_run(deployment.sim, SECOND));
        cut_off(&deployment, worker, server, true);
        assert_true(sim_run(deployment.sim, SECOND + SECOND / 2));
        sim_node_crash(worker, false);
        cut_off(&deployment, worker, server, false);
        deployment.leave_chance = 1;
        sim_node_start(worker);
        assert_true(sim_run_until(deployment.sim, 60 * SECOND, is_done, &deployment, &done));
        kv_data_checker_check(&deployment.checker);
        sim_finish(deployment.sim, &result);
        assert_string_equal(result.violation, "");
        assert_true(done);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_replacement_keeps_claims_that_were_begun)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
