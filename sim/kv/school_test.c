/* school_test.c — a lesson in which what happens is written down, not drawn. */
#include "sim/kv/school.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/network.h"

enum { SLOTS = 4, STEPS = 24 };
#define SECOND INT64_C(1000000)

static bool is_done(void *context) { return school_is_done(context); }

static void cut_off(school *school, sim_node *a, sim_node *b, bool cut) {
    network_cut(sim_network(school->sim), a, b, cut);
    network_cut(sim_network(school->sim), b, a, cut);
}

/* A worker runs ahead at one server while the other does not hear it, and dies. Whoever plays its rank next begins with
 * what the other has not, and then leaves its data: but not that of steps which the first server has. */
static void who_comes_next_keeps_what_was_begun(void **state) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        scenario_options options = scenario_options_of(seed, NULL);
        scenario_result result;
        school school = {.sim = sim_create(&options),
                         .scheduler = {.server_count = 2, .table_slots = SLOTS, .copies = 1},
                         .servers = 2,
                         .workers = 2,
                         .steps = STEPS,
                         .step_us = 100000,
                         .hurry_chance = 1,
                         .diet = {.parts = 2, .sizes = {60, 60}}};
        bool done = false;
        school_build(&school);
        sim_node *worker = school.worker_seats[0].node, *server = school.server_seats[seed % 2].node;
        assert_true(sim_run(school.sim, SECOND));
        cut_off(&school, worker, server, true);
        assert_true(sim_run(school.sim, SECOND + SECOND / 2));
        sim_node_crash(worker, false);
        cut_off(&school, worker, server, false);
        school.leave_chance = 1;
        sim_node_start(worker);
        assert_true(sim_run_until(school.sim, 60 * SECOND, is_done, &school, &done));
        diet_check(&school.diet);
        sim_finish(school.sim, &result);
        assert_string_equal(result.violation, "");
        assert_true(done);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_comes_next_keeps_what_was_begun)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
