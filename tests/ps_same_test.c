/* ps_same_test.c — one workload (sim/kv/kv_workload.h) in three environments: processes with shared memory, processes
 * with tcp, and simulated ones. All end with the same bits, those of plain sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/kv/kv_deployment.h"
#include "tests/support/ps_fixture.h"

enum { SERVERS = 3, WORKERS = 4, SLOTS = 8, COPIES = 2, STEPS = 25 };
#define PATIENCE_US INT64_C(60000000)

static const kv_workload all_in_rounds = {.workers = WORKERS, .rounds = {true, true, true}};

/* Weights at the end, pulled by a worker that connects when all others are done. */
static void train_processes(bool tcp, kv_workload_weights out) {
    ps_fixture fixture = {.tcp = tcp,
                          .servers = SERVERS,
                          .workers = WORKERS,
                          .slots = SLOTS,
                          .copies = COPIES,
                          .steps = STEPS,
                          .consistency = MR_PS_BSP};
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start(&fixture));
    assert_true(ps_fixture_trained(&fixture));
    assert_true(ps_fixture_weights(&fixture, out));
    assert_true(ps_fixture_fini(&fixture));
}

static bool is_done(void *context) { return kv_deployment_is_done(context); }

static void train_simulated(kv_workload_weights out) {
    scenario_options options = scenario_options_of(1, NULL);
    scenario_result result;
    kv_deployment deployment = {.sim = sim_create(&options),
                                .scheduler = {.consistency = {CONSISTENCY_BSP, 0},
                                              .server_count = SERVERS,
                                              .table_slots = SLOTS,
                                              .copies = COPIES},
                                .servers = SERVERS,
                                .workers = WORKERS,
                                .steps = STEPS,
                                .step_us = 1000,
                                .workload = all_in_rounds};
    bool done = false;
    kv_deployment_build(&deployment);
    assert_true(sim_run_until(deployment.sim, PATIENCE_US, is_done, &deployment, &done));
    sim_finish(deployment.sim, &result);
    assert_string_equal(result.violation, "");
    assert_true(done);
    memcpy(out, deployment.end, sizeof deployment.end);
}

static void three_worlds_have_the_same_bits(void **state) {
    kv_workload_weights by_memory, by_tcp, simulated, sums;
    train_processes(false, by_memory);
    train_processes(true, by_tcp);
    train_simulated(simulated);
    kv_workload_reference(&all_in_rounds, STEPS, sums);
    assert_memory_equal(by_memory, sums, sizeof sums);
    assert_memory_equal(by_tcp, sums, sizeof sums);
    assert_memory_equal(simulated, sums, sizeof sums);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(three_worlds_have_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
