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

/* ---- A stop. */

typedef struct notice {
    kv_deployment *deployment;
    uint32_t rank;
    bool ended;
} notice;

static void ask_end(void *context, uint64_t argument) {
    notice *notice = context;
    const sim_node *node = notice->deployment->worker_sites[notice->rank].node;
    notice->ended = kv_deployment_worker_end(node) == MR_PEER_DIED;
}

static bool has_ended(kv_deployment *deployment, uint32_t rank) {
    notice notice = {.deployment = deployment, .rank = rank};
    sim_node_after(deployment->worker_sites[rank].node, 0, ask_end, &notice, 0);
    assert_true(sim_run(deployment->sim, sim_now_us(deployment->sim) + 1));
    return notice.ended;
}

static void run_for(kv_deployment *deployment, int64_t us) {
    assert_true(sim_run(deployment->sim, sim_now_us(deployment->sim) + us));
}

/* A stop of the scheduler alone ends nothing; one of all processes does, until they are started again: then the
 * training goes on. Dead processes that were not stopped end nothing. */
static void a_stop_of_all_ends_a_deployment_until_it_is_started_again(void **state) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        scenario_options options = scenario_options_of(seed, NULL);
        scenario_result result;
        kv_deployment deployment = {
            .sim = sim_create(&options),
            .scheduler = {.server_count = 2, .table_slots = SLOTS, .copies = 1, .checkpoint_us = SECOND / 10},
            .servers = 2,
            .workers = 2,
            .steps = STEPS,
            .step_us = 2 * SECOND};
        bool done = false, stops = seed % 2 == 0;
        kv_deployment_build(&deployment);
        run_for(&deployment, 3 * SECOND);
        if (stops)
            kv_deployment_stop_scheduler(&deployment, 0);
        else
            sim_node_crash(deployment.scheduler_site.node, false);
        run_for(&deployment, 3 * SECOND);
        for (uint32_t i = 0; i < 2; i++) assert_false(has_ended(&deployment, i));
        for (uint32_t i = 0; i < 2; i++) sim_node_crash(deployment.server_sites[i].node, false);
        run_for(&deployment, 3 * SECOND);
        for (uint32_t i = 0; i < 2; i++) assert_true(has_ended(&deployment, i) == stops);
        sim_node_start(deployment.scheduler_site.node);
        run_for(&deployment, SECOND);
        for (uint32_t i = 0; i < 2; i++) assert_false(has_ended(&deployment, i));
        for (uint32_t i = 0; i < 2; i++) sim_node_start(deployment.server_sites[i].node);
        assert_true(sim_run_until(deployment.sim, 200 * SECOND, is_done, &deployment, &done));
        sim_finish(deployment.sim, &result);
        assert_string_equal(result.violation, "");
        assert_true(done);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replacement_keeps_claims_that_were_begun),
        cmocka_unit_test(a_stop_of_all_ends_a_deployment_until_it_is_started_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
