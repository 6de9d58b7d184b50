/* scheduler_fair_test.c — rules of scheduler.h about competing clients: none starves, the client with most leases
 * returns one first, programs share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/scheduler_fixture.h"

/* ---- No starvation. */

/* Small requests arrive all the time, and a large request is never the one that fits. */
static void a_large_request_is_passed_so_often_and_no_more(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=2", 3, 2);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_fixture_ask(scheduler, 2, 1, "cpu=1");
    scheduler_decision held[] = {scheduler_fixture_granted(scheduler, 1, 1),
                                 scheduler_fixture_granted(scheduler, 2, 1)};
    scheduler_fixture_ask(scheduler, 3, 1, "cpu=2");
    scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM);
    scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM);
    for (uint64_t i = 0; i < SCHEDULER_PATIENCE; i++) {
        uint64_t client = 1 + i % 2;
        scheduler_fixture_ask(scheduler, client, 2 + i, "cpu=1");
        scheduler_fixture_give_back(scheduler, &held[i % 2]);
        held[i % 2] = scheduler_fixture_granted(scheduler, client, 2 + i);
        scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM);
        scheduler_fixture_nothing(scheduler);
    }
    scheduler_fixture_ask(scheduler, 1, 90, "cpu=1");
    scheduler_fixture_give_back(scheduler, &held[0]);
    scheduler_fixture_nothing(scheduler); /* reserved for the large request */
    scheduler_fixture_give_back(scheduler, &held[1]);
    scheduler_decision large = scheduler_fixture_granted(scheduler, 3, 1);
    scheduler_fixture_give_back(scheduler, &large);
    scheduler_fixture_granted(scheduler, 1, 90);
    scheduler_destroy(scheduler);
}

static void resources_of_actors_are_not_waited_for(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=2", 2, 3);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision grant = scheduler_fixture_granted(scheduler, 1, 1);
    resources one = scheduler_fixture_amount("cpu=1");
    assert_int_equal(scheduler_keep(scheduler, 1, grant.lease, &one), MR_OK);
    scheduler_fixture_ask(scheduler, 2, 1, "cpu=2");
    for (uint64_t i = 0; i < 3 * SCHEDULER_PATIENCE; i++) {
        scheduler_fixture_ask(scheduler, 1, 2 + i, "cpu=1");
        scheduler_decision small = scheduler_fixture_granted(scheduler, 1, 2 + i);
        scheduler_fixture_nothing(scheduler);
        scheduler_fixture_give_back(scheduler, &small);
    }
    scheduler_worker_gone(scheduler, grant.worker);
    scheduler_fixture_granted(scheduler, 2, 1);
    scheduler_destroy(scheduler);
}

/* ---- Reclaiming. */

static void the_richest_is_asked_for_one(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=3", 3, 3);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_fixture_ask(scheduler, 2, 2, "cpu=1");
    scheduler_fixture_ask(scheduler, 2, 3, "cpu=1");
    scheduler_decision grants[3] = {scheduler_fixture_granted(scheduler, 1, 1),
                                    scheduler_fixture_granted(scheduler, 2, 2),
                                    scheduler_fixture_granted(scheduler, 2, 3)};
    scheduler_fixture_ask(scheduler, 3, 4, "cpu=1");
    scheduler_decision asked = scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM);
    assert_int_equal(asked.client, 2);
    assert_true(asked.lease == grants[1].lease || asked.lease == grants[2].lease);
    scheduler_fixture_nothing(scheduler); /* no second reclaim */
    assert_int_equal(scheduler_release(scheduler, 2, asked.lease, true), MR_OK);
    scheduler_fixture_granted(scheduler, 3, 4);
    scheduler_fixture_ask(scheduler, 3, 5, "cpu=1"); /* every client has a lease: none is reclaimed */
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

/* One lease is not enough for a request that needs two. */
static void as_many_are_asked_for_as_are_needed(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=4", 2, 5);
    for (uint64_t i = 1; i <= 4; i++) {
        scheduler_fixture_ask(scheduler, 1, i, "cpu=1");
        scheduler_fixture_granted(scheduler, 1, i);
    }
    scheduler_fixture_ask(scheduler, 2, 9, "cpu=2");
    scheduler_decision first = scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM),
                       second = scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM);
    assert_true(first.lease != second.lease && first.client == 1 && second.client == 1);
    scheduler_fixture_nothing(scheduler);
    scheduler_fixture_give_back(scheduler, &first);
    scheduler_fixture_nothing(scheduler);
    scheduler_fixture_give_back(scheduler, &second);
    scheduler_fixture_granted(scheduler, 2, 9);
    scheduler_destroy(scheduler);
}

/* A returned lease that another client got is reclaimed again. */
static void a_request_that_was_overtaken_is_not_forgotten(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=2", 3, 2);
    for (uint64_t i = 1; i <= 2; i++) {
        scheduler_fixture_ask(scheduler, 1, i, "cpu=1");
        scheduler_fixture_granted(scheduler, 1, i);
    }
    scheduler_fixture_ask(scheduler, 2, 3, "cpu=1");
    scheduler_decision asked = scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM);
    scheduler_client_gone(scheduler, 2);
    scheduler_client_add(scheduler, 2, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_fixture_ask(scheduler, 3, 4, "cpu=1"); /* the lease reclaimed for client 2 is still returned */
    scheduler_fixture_ask(scheduler, 2, 5, "cpu=1");
    scheduler_fixture_nothing(scheduler); /* both requests count on that lease */
    scheduler_fixture_give_back(scheduler, &asked);
    scheduler_decision third = scheduler_fixture_granted(scheduler, 3, 4);
    scheduler_decision more = scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM);
    assert_true(more.client == 1 || more.client == 3);
    scheduler_fixture_nothing(scheduler);
    assert_int_equal(scheduler_release(scheduler, more.client, more.lease, true), MR_OK);
    scheduler_fixture_granted(scheduler, 2, 5);
    assert_true(third.lease != 0);
    scheduler_destroy(scheduler);
}

/* A lease whose resources no request waits for is not reclaimed. */
static void only_what_helps_is_asked_for(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=2,gpu=1", 3, 3);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_fixture_ask(scheduler, 1, 2, "cpu=1");
    scheduler_fixture_granted(scheduler, 1, 1);
    scheduler_fixture_granted(scheduler, 1, 2);
    scheduler_fixture_ask(scheduler, 2, 3, "gpu=1");
    scheduler_decision gpu = scheduler_fixture_granted(scheduler, 2, 3);
    scheduler_fixture_ask(scheduler, 3, 4, "gpu=1");
    assert_int_equal(scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM).lease, gpu.lease);
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void returned_cpus_are_not_asked_for(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=1", 3, 3);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision parent = scheduler_fixture_granted(scheduler, 1, 1);
    scheduler_block(scheduler, parent.worker, true);
    scheduler_fixture_ask(scheduler, 2, 2, "cpu=1");
    scheduler_decision other = scheduler_fixture_granted(scheduler, 2, 2);
    scheduler_fixture_ask(scheduler, 3, 3, "cpu=1");
    assert_int_equal(scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM).lease, other.lease);
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

/* ---- Several programs. */

enum { OTHER = 2 };

/* Two programs on a machine of 4 CPUs, four workers each. The first has the clients 1, 2 and 3, the other client 4. */
static scheduler *two_programs(void) {
    scheduler *scheduler = scheduler_fixture_house("cpu=4", 3, 4);
    scheduler_client_add(scheduler, 4, OTHER);
    for (uint64_t i = 1; i <= 4; i++) scheduler_worker_add(scheduler, 200 + i, OTHER);
    return scheduler;
}

static void a_flooding_program_does_not_starve_others(void **state) {
    scheduler *scheduler = two_programs();
    for (uint64_t i = 0; i < 60; i++) scheduler_fixture_ask(scheduler, 1 + i % 3, 100 + i, "cpu=1");
    scheduler_fixture_ask(scheduler, 4, 1, "cpu=1");
    scheduler_fixture_ask(scheduler, 4, 2, "cpu=1");
    scheduler_fixture_granted(scheduler, 1, 100);
    scheduler_fixture_granted(scheduler, 4, 1); /* programs count equally, with three clients or one */
    scheduler_fixture_granted(scheduler, 2, 101);
    scheduler_fixture_granted(scheduler, 4, 2);
    /* reclaimed for the third client of the same program */
    assert_true(scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM).client <= 2);
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void a_late_program_gets_its_half(void **state) {
    scheduler *scheduler = two_programs();
    for (uint64_t i = 0; i < 4; i++) scheduler_fixture_ask(scheduler, 1 + i % 3, 100 + i, "cpu=1");
    for (int i = 0; i < 4; i++) scheduler_fixture_next(scheduler, SCHEDULER_GRANT);
    scheduler_fixture_ask(scheduler, 4, 1, "cpu=1");
    scheduler_fixture_ask(scheduler, 4, 2, "cpu=1");
    scheduler_fixture_ask(scheduler, 4, 3, "cpu=1");
    scheduler_decision asked[2]; /* each client has one or two leases, but the program has four */
    for (size_t i = 0; i < 2; i++) {
        asked[i] = scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM);
        assert_true(asked[i].client >= 1 && asked[i].client <= 3);
    }
    scheduler_fixture_nothing(scheduler); /* two leases for each program are fair */
    for (size_t i = 0; i < 2; i++) {
        scheduler_fixture_give_back(scheduler, &asked[i]);
        scheduler_fixture_granted(scheduler, 4, 1 + i);
    }
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

/* Seed 1794730666087229: a program had more leases than the program that kept both CPUs, but all its workers were
 * blocked. */
static void a_program_whose_workers_all_wait_is_not_rich(void **state) {
    scheduler *scheduler = scheduler_fixture_machine("cpu=1", 0);
    scheduler_client_add(scheduler, 1, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_client_add(scheduler, 2, OTHER);
    scheduler_worker_add(scheduler, 101, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_worker_add(scheduler, 102, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_worker_add(scheduler, 201, OTHER);
    scheduler_client_add(scheduler, 101, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_fixture_granted(scheduler, 1, 1);
    scheduler_block(scheduler, 101, true);
    scheduler_fixture_ask(scheduler, 2, 1, "cpu=1");
    uint64_t kept = scheduler_fixture_granted(scheduler, 2, 1).lease;
    scheduler_fixture_ask(scheduler, 101, 1, "cpu=1"); /* the task that worker 101 waits for */
    assert_int_equal(scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM).lease, kept);
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

/* Seed 1794730666036430: a program that had a CPU was never given the GPU that another program kept. */
static void a_program_with_other_workers_gets_the_missing_kind(void **state) {
    scheduler *scheduler = scheduler_fixture_machine("cpu=4,gpu=1", 0);
    scheduler_client_add(scheduler, 1, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_client_add(scheduler, 2, OTHER);
    scheduler_worker_add(scheduler, 101, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_worker_add(scheduler, 102, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_worker_add(scheduler, 201, OTHER);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_fixture_granted(scheduler, 1, 1);
    scheduler_fixture_ask(scheduler, 2, 1, "cpu=1,gpu=1");
    uint64_t kept = scheduler_fixture_granted(scheduler, 2, 1).lease;
    scheduler_fixture_ask(scheduler, 1, 2, "cpu=1,gpu=1");
    assert_int_equal(scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM).lease, kept);
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void starts_are_few_at_a_time_and_shared(void **state) {
    scheduler *scheduler = scheduler_fixture_machine("cpu=1", 0);
    uint32_t starts[3] = {0};
    scheduler_client_add(scheduler, 1, SCHEDULER_FIXTURE_PROGRAM);
    for (uint64_t i = 0; i < 100; i++) scheduler_fixture_ask(scheduler, 1, i, "");
    for (int i = 0; i < SCHEDULER_STARTING_MAX; i++) scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_fixture_nothing(scheduler);
    scheduler_client_add(scheduler, 2, OTHER);
    for (uint64_t i = 0; i < 100; i++) scheduler_fixture_ask(scheduler, 2, i, "");
    for (int i = 0; i < SCHEDULER_STARTING_MAX; i++) {
        scheduler_spawn_failed(scheduler, SCHEDULER_FIXTURE_PROGRAM);
        starts[scheduler_fixture_next(scheduler, SCHEDULER_SPAWN).program]++;
    }
    assert_int_equal(starts[OTHER], SCHEDULER_STARTING_MAX / 2);
    scheduler_destroy(scheduler);
}

static void a_barred_program_starts_nothing(void **state) {
    scheduler *scheduler = scheduler_fixture_machine("cpu=1", 1);
    scheduler_client_add(scheduler, 1, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_bar(scheduler, SCHEDULER_FIXTURE_PROGRAM, true);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_fixture_nothing(scheduler);
    scheduler_bar(scheduler, SCHEDULER_FIXTURE_PROGRAM, false);
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void a_program_that_ended_starts_nothing_ahead(void **state) {
    scheduler *scheduler = scheduler_fixture_machine("cpu=2", 2);
    scheduler_client_add(scheduler, 1, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_worker_add(scheduler, 101, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_program_ended(scheduler, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_spawn_failed(scheduler, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_fixture_nothing(scheduler);
    assert_true(scheduler_program_runs(scheduler, SCHEDULER_FIXTURE_PROGRAM));
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1"); /* tasks of an actor that outlives its program */
    scheduler_fixture_ask(scheduler, 1, 2, "cpu=1");
    scheduler_fixture_granted(scheduler, 1, 1);
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_client_gone(scheduler, 1);
    assert_int_equal(scheduler_fixture_next(scheduler, SCHEDULER_END).worker, 101);
    scheduler_spawn_failed(scheduler, SCHEDULER_FIXTURE_PROGRAM); /* the last start of the program */
    scheduler_check(scheduler);
    assert_false(scheduler_program_runs(scheduler, SCHEDULER_FIXTURE_PROGRAM));
    scheduler_spawn_failed(scheduler, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_bar(scheduler, SCHEDULER_FIXTURE_PROGRAM, true);
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_request_is_passed_so_often_and_no_more),
        cmocka_unit_test(resources_of_actors_are_not_waited_for),
        cmocka_unit_test(the_richest_is_asked_for_one),
        cmocka_unit_test(as_many_are_asked_for_as_are_needed),
        cmocka_unit_test(a_request_that_was_overtaken_is_not_forgotten),
        cmocka_unit_test(only_what_helps_is_asked_for),
        cmocka_unit_test(returned_cpus_are_not_asked_for),
        cmocka_unit_test(a_flooding_program_does_not_starve_others),
        cmocka_unit_test(a_late_program_gets_its_half),
        cmocka_unit_test(a_program_whose_workers_all_wait_is_not_rich),
        cmocka_unit_test(a_program_with_other_workers_gets_the_missing_kind),
        cmocka_unit_test(starts_are_few_at_a_time_and_shared),
        cmocka_unit_test(a_barred_program_starts_nothing),
        cmocka_unit_test(a_program_that_ended_starts_nothing_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
