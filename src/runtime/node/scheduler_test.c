/* scheduler_test.c — the rules of scheduler.h about one client and its workers. */
#include "runtime/node/scheduler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/scheduler_fixture.h"

static void a_request_is_granted_and_released(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=1", 1, 1);
    scheduler_fixture_nothing(scheduler);
    scheduler_fixture_ask(scheduler, 1, 7, "cpu=1");
    scheduler_decision grant = scheduler_fixture_granted(scheduler, 1, 7);
    assert_int_equal(grant.worker, 101);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 0);
    scheduler_fixture_nothing(scheduler);
    assert_int_equal(scheduler_release(scheduler, 2, grant.lease, true), MR_NOT_FOUND);
    assert_int_equal(scheduler_release(scheduler, 1, grant.lease + 1, true), MR_NOT_FOUND);
    scheduler_fixture_give_back(scheduler, &grant);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 1000);
    assert_int_equal(scheduler_release(scheduler, 1, grant.lease, true), MR_NOT_FOUND);
    scheduler_fixture_nothing(scheduler);
    scheduler_fixture_ask(scheduler, 1, 8, "cpu=1");
    assert_true(scheduler_fixture_granted(scheduler, 1, 8).lease != grant.lease);
    scheduler_destroy(scheduler);
}

static void a_worker_that_is_not_kept_is_not_used_again(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=1", 1, 1);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision grant = scheduler_fixture_granted(scheduler, 1, 1);
    assert_int_equal(scheduler_release(scheduler, 1, grant.lease, false), MR_OK);
    assert_int_equal(scheduler_stats_now(scheduler).idle, 0);
    assert_int_equal(scheduler_fixture_next(scheduler, SCHEDULER_END).worker, 101);
    scheduler_fixture_ask(scheduler, 1, 2, "cpu=1");
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_fixture_nothing(scheduler);
    scheduler_worker_gone(scheduler, 101);
    assert_int_equal(scheduler_stats_now(scheduler).workers, 0);
    scheduler_destroy(scheduler);
}

static void the_poorest_client_is_next(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=4", 3, 4);
    for (uint64_t i = 0; i < 4; i++) scheduler_fixture_ask(scheduler, 1, 10 + i, "cpu=1");
    scheduler_fixture_ask(scheduler, 2, 20, "cpu=1");
    scheduler_fixture_ask(scheduler, 2, 21, "cpu=1");
    scheduler_fixture_ask(scheduler, 3, 30, "cpu=1");
    scheduler_fixture_granted(scheduler, 1, 10);
    scheduler_fixture_granted(scheduler, 2, 20);
    scheduler_fixture_granted(scheduler, 3, 30);
    scheduler_fixture_granted(scheduler, 1, 11); /* each client has a lease: the longest waiting client is next */
    scheduler_destroy(scheduler);
}

static void the_oldest_of_equal_requests_goes_first(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=1", 3, 1);
    scheduler_fixture_ask(scheduler, 3, 1, "cpu=1");
    scheduler_fixture_ask(scheduler, 1, 2, "cpu=1");
    scheduler_fixture_ask(scheduler, 2, 3, "cpu=1");
    scheduler_decision grant = scheduler_fixture_granted(scheduler, 3, 1);
    scheduler_fixture_give_back(scheduler, &grant);
    grant = scheduler_fixture_granted(scheduler, 1, 2);
    scheduler_fixture_give_back(scheduler, &grant);
    scheduler_fixture_granted(scheduler, 2, 3);
    scheduler_destroy(scheduler);
}

static void a_shape_that_does_not_fit_holds_no_other_back(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=2,gpu=1", 1, 3);
    scheduler_fixture_ask(scheduler, 1, 1, "gpu=1");
    scheduler_fixture_granted(scheduler, 1, 1);
    scheduler_fixture_ask(scheduler, 1, 2, "gpu=1");
    scheduler_fixture_ask(scheduler, 1, 3, "cpu=1");
    scheduler_fixture_ask(scheduler, 1, 4, "cpu=1");
    scheduler_fixture_granted(scheduler, 1, 3); /* in order of arrival */
    scheduler_fixture_granted(scheduler, 1, 4);
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void resources_are_fractions(void **state) {
    scheduler *scheduler = scheduler_fixture_house("gpu=1", 1, 3);
    for (uint64_t i = 1; i <= 3; i++) scheduler_fixture_ask(scheduler, 1, i, "gpu=0.4");
    scheduler_fixture_granted(scheduler, 1, 1);
    scheduler_fixture_granted(scheduler, 1, 2);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "gpu"), 200);
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void a_request_without_resources_needs_only_a_worker(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=1", 1, 1);
    scheduler_fixture_ask(scheduler, 1, 1, "");
    scheduler_fixture_ask(scheduler, 1, 2, "");
    scheduler_fixture_granted(scheduler, 1, 1);
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_fixture_nothing(scheduler);
    scheduler_worker_add(scheduler, 102, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_fixture_granted(scheduler, 1, 2);
    scheduler_destroy(scheduler);
}

static void an_infeasible_request_waits_without_blocking_others(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=2", 2, 2);
    resources gpu = scheduler_fixture_amount("gpu=0.001"), three = scheduler_fixture_amount("cpu=3"),
              two = scheduler_fixture_amount("cpu=2"), none = scheduler_fixture_amount("");
    assert_true(scheduler_impossible(scheduler, &gpu) && scheduler_impossible(scheduler, &three));
    assert_false(scheduler_impossible(scheduler, &two) || scheduler_impossible(scheduler, &none));
    scheduler_fixture_ask(scheduler, 2, 9, "cpu=1");
    scheduler_fixture_granted(scheduler, 2, 9);
    assert_false(scheduler_impossible(scheduler, &two)); /* taken resources are returned later */
    scheduler_fixture_ask(scheduler, 1, 1, "gpu=1");
    scheduler_fixture_ask(scheduler, 1, 2, "cpu=3");
    scheduler_fixture_nothing(scheduler); /* no spawn, no reclaim */
    scheduler_fixture_ask(scheduler, 1, 3, "cpu=1");
    scheduler_fixture_granted(scheduler, 1, 3);
    assert_int_equal(scheduler_stats_now(scheduler).waiting, 2);
    scheduler_cancel(scheduler, 1, 1);
    scheduler_cancel(scheduler, 1, 2);
    assert_int_equal(scheduler_stats_now(scheduler).waiting, 0);
    scheduler_destroy(scheduler);
}

/* ---- Starts of workers. */

static void workers_are_started_ahead(void **state) {
    scheduler *scheduler = scheduler_fixture_machine("cpu=4", 3);
    scheduler_fixture_nothing(scheduler); /* no program yet */
    scheduler_client_add(scheduler, 1, SCHEDULER_FIXTURE_PROGRAM);
    for (int i = 0; i < 3; i++)
        assert_int_equal(scheduler_fixture_next(scheduler, SCHEDULER_SPAWN).program, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_fixture_nothing(scheduler);
    for (uint64_t i = 1; i <= 3; i++) scheduler_worker_add(scheduler, 100 + i, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_fixture_nothing(scheduler);
    scheduler_worker_gone(scheduler, 102);
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_fixture_nothing(scheduler);
    scheduler_spawn_failed(scheduler, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_fixture_nothing(scheduler);
    scheduler_client_add(scheduler, 2, SCHEDULER_FIXTURE_PROGRAM + 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(scheduler_fixture_next(scheduler, SCHEDULER_SPAWN).program, SCHEDULER_FIXTURE_PROGRAM + 1);
    scheduler_fixture_nothing(scheduler);
    assert_int_equal(scheduler_stats_now(scheduler).starting, 4);
    scheduler_destroy(scheduler);
}

static void as_many_are_spawned_as_can_run(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=3", 2, 1);
    for (uint64_t i = 0; i < 10; i++) scheduler_fixture_ask(scheduler, 1 + i % 2, 10 + i, "cpu=1");
    scheduler_fixture_granted(scheduler, 1, 10);
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_fixture_nothing(scheduler);
    scheduler_worker_add(scheduler, 102, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_fixture_granted(scheduler, 2, 11);
    scheduler_fixture_nothing(scheduler);
    scheduler_spawn_failed(scheduler, SCHEDULER_FIXTURE_PROGRAM); /* the third worker does not start */
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void programs_do_not_share_workers(void **state) {
    scheduler *scheduler = scheduler_fixture_machine("cpu=2", 0);
    scheduler_client_add(scheduler, 1, 1);
    scheduler_client_add(scheduler, 2, 2);
    scheduler_worker_add(scheduler, 101, 1);
    scheduler_fixture_ask(scheduler, 2, 5, "cpu=1");
    assert_int_equal(scheduler_fixture_next(scheduler, SCHEDULER_SPAWN).program, 2);
    scheduler_fixture_nothing(scheduler);
    scheduler_fixture_ask(scheduler, 1, 6, "cpu=1"); /* younger, but its program has a worker */
    assert_int_equal(scheduler_fixture_granted(scheduler, 1, 6).worker, 101);
    scheduler_worker_add(scheduler, 102, 2);
    assert_int_equal(scheduler_fixture_granted(scheduler, 2, 5).worker, 102);
    scheduler_destroy(scheduler);
}

/* ---- Blocking. */

static void a_blocked_worker_lends_what_it_has(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=1", 1, 2);
    scheduler_client_add(scheduler, 101, SCHEDULER_FIXTURE_PROGRAM); /* client for the worker's own tasks */
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision parent = scheduler_fixture_granted(scheduler, 1, 1);
    scheduler_fixture_ask(scheduler, 101, 2, "cpu=1");
    assert_int_equal(scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM).lease,
                     parent.lease); /* the worker is not blocked yet */
    scheduler_fixture_nothing(scheduler);
    scheduler_block(scheduler, parent.worker, true);
    scheduler_block(scheduler, parent.worker, true); /* no effect the second time */
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 1000);
    scheduler_decision child = scheduler_fixture_granted(scheduler, 101, 2);
    assert_int_equal(child.worker, 102);
    scheduler_block(scheduler, parent.worker, false);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), -1000); /* overcommitted: no grants */
    scheduler_fixture_ask(scheduler, 1, 3, "cpu=0.001");
    assert_int_equal(scheduler_stats_now(scheduler).waiting, 1);
    scheduler_decision decision;
    while (scheduler_next(scheduler, &decision)) assert_int_equal(decision.verb, SCHEDULER_RECLAIM);
    scheduler_fixture_give_back(scheduler, &child);
    scheduler_fixture_nothing(scheduler);
    scheduler_fixture_give_back(scheduler, &parent);
    scheduler_fixture_granted(scheduler, 1, 3);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 999);
    scheduler_destroy(scheduler);
}

/* Nested tasks, each waiting for its child, never wait for their own parent. */
static void nesting_goes_as_deep_as_it_likes(void **state) {
    enum { DEPTH = 40 };
    scheduler *scheduler = scheduler_fixture_house("cpu=1", 1, 0);
    uint64_t client = 1;
    scheduler_decision leases[DEPTH];
    for (uint64_t i = 0; i < DEPTH; i++) {
        scheduler_fixture_ask(scheduler, client, i, "cpu=1");
        scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
        scheduler_fixture_nothing(scheduler);
        scheduler_client_add(scheduler, 101 + i, SCHEDULER_FIXTURE_PROGRAM);
        scheduler_worker_add(scheduler, 101 + i, SCHEDULER_FIXTURE_PROGRAM);
        leases[i] = scheduler_fixture_granted(scheduler, client, i);
        client = leases[i].worker;
        scheduler_block(scheduler, client, true);
    }
    for (size_t i = DEPTH; i-- > 0;) {
        scheduler_block(scheduler, leases[i].worker, false);
        scheduler_fixture_give_back(scheduler, &leases[i]);
        scheduler_check(scheduler);
    }
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 1000);
    assert_int_equal(scheduler_stats_now(scheduler).idle, DEPTH);
    scheduler_destroy(scheduler);
}

static void one_that_blocks_without_a_lease_is_not_idle(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=1", 2, 1);
    scheduler_block(scheduler, 999, true);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision grant = scheduler_fixture_granted(scheduler, 1, 1);
    scheduler_block(scheduler, 101, true);
    scheduler_fixture_give_back(scheduler, &grant); /* released while blocked: returned once */
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 1000);
    assert_int_equal(scheduler_stats_now(scheduler).idle, 0);
    scheduler_fixture_ask(scheduler, 2, 2, "cpu=1"); /* worker 101 may wait for it: another starts */
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_fixture_nothing(scheduler);
    scheduler_block(scheduler, 101, false);
    assert_int_equal(scheduler_fixture_granted(scheduler, 2, 2).worker, 101);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 0);
    scheduler_destroy(scheduler);
}

static void an_actor_lends_too(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=1", 1, 2);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision grant = scheduler_fixture_granted(scheduler, 1, 1);
    resources one = scheduler_fixture_amount("cpu=1");
    assert_int_equal(scheduler_keep(scheduler, 1, grant.lease, &one), MR_OK);
    scheduler_fixture_ask(scheduler, 1, 2, "cpu=1"); /* a task that the actor waits for */
    scheduler_fixture_nothing(scheduler);
    scheduler_block(scheduler, grant.worker, true);
    scheduler_fixture_granted(scheduler, 1, 2);
    scheduler_block(scheduler, grant.worker, false);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), -1000);
    scheduler_destroy(scheduler);
}

/* ---- Actors. */

static void a_kept_worker_is_out_of_the_pool(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=2", 2, 2);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision grant = scheduler_fixture_granted(scheduler, 1, 1);
    resources half = scheduler_fixture_amount("cpu=0.5");
    assert_int_equal(scheduler_keep(scheduler, 2, grant.lease, &half), MR_NOT_FOUND);
    assert_int_equal(scheduler_keep(scheduler, 1, grant.lease, &half), MR_OK);
    scheduler_check(scheduler);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 1500);
    assert_int_equal(scheduler_release(scheduler, 1, grant.lease, true), MR_NOT_FOUND);
    assert_int_equal(scheduler_stats_now(scheduler).leases, 0);
    assert_int_equal(scheduler_stats_now(scheduler).idle, 1);
    scheduler_client_gone(scheduler, 1); /* the actor does not end with the client that requested it */
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 1500);
    scheduler_block(scheduler, grant.worker, true);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 2000);
    scheduler_worker_gone(scheduler, grant.worker);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 2000);
    scheduler_destroy(scheduler);
}

static void kept_workers_are_replaced(void **state) {
    scheduler *scheduler = scheduler_fixture_machine("cpu=2", 1);
    scheduler_client_add(scheduler, 1, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_worker_add(scheduler, 101, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_fixture_ask(scheduler, 1, 1, "");
    scheduler_decision grant = scheduler_fixture_granted(scheduler, 1, 1);
    scheduler_fixture_nothing(scheduler);
    assert_int_equal(scheduler_keep(scheduler, 1, grant.lease, &(resources){0}), MR_OK);
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

/* ---- Deaths. */

static void a_client_takes_its_requests_and_leases_along(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=2", 2, 2);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_fixture_ask(scheduler, 1, 2, "cpu=1");
    scheduler_fixture_ask(scheduler, 1, 3, "cpu=1");
    scheduler_decision granted = scheduler_fixture_granted(scheduler, 1, 1);
    scheduler_fixture_granted(scheduler, 1, 2);
    scheduler_block(scheduler, granted.worker, true);
    scheduler_client_gone(scheduler, 1);
    scheduler_client_gone(scheduler, 1);
    scheduler_check(scheduler);
    scheduler_stats stats = scheduler_stats_now(scheduler);
    assert_true(stats.leases == 0 && stats.waiting == 0 && stats.idle == 0 && stats.clients == 1);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 2000);
    scheduler_cancel(scheduler, 1, 3);
    assert_int_equal(scheduler_release(scheduler, 1, granted.lease, true), MR_NOT_FOUND);
    uint64_t ended = scheduler_fixture_next(scheduler, SCHEDULER_END).worker; /* their remaining work is unknown */
    assert_int_equal(ended + scheduler_fixture_next(scheduler, SCHEDULER_END).worker, 101 + 102);
    scheduler_fixture_nothing(scheduler);
    scheduler_fixture_ask(scheduler, 2, 4, "cpu=2");
    scheduler_fixture_next(scheduler, SCHEDULER_SPAWN);
    scheduler_worker_add(scheduler, 103, SCHEDULER_FIXTURE_PROGRAM);
    scheduler_fixture_granted(scheduler, 2, 4);
    scheduler_destroy(scheduler);
}

static void a_worker_takes_its_lease_along(void **state) {
    for (int blocked = 0; blocked < 2; blocked++) {
        scheduler *scheduler = scheduler_fixture_house("cpu=1", 1, 1);
        scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
        scheduler_fixture_ask(scheduler, 1, 2, "cpu=1");
        scheduler_decision grant = scheduler_fixture_granted(scheduler, 1, 1);
        if (blocked) scheduler_block(scheduler, grant.worker, true);
        scheduler_worker_gone(scheduler, grant.worker);
        scheduler_check(scheduler);
        assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 1000);
        assert_int_equal(scheduler_release(scheduler, 1, grant.lease, true), MR_NOT_FOUND);
        scheduler_fixture_next(scheduler, SCHEDULER_SPAWN); /* for the waiting request */
        scheduler_fixture_nothing(scheduler);
        scheduler_worker_add(scheduler, 102, SCHEDULER_FIXTURE_PROGRAM);
        scheduler_fixture_granted(scheduler, 1, 2);
        scheduler_destroy(scheduler);
    }
}

static void a_cancelled_request_is_not_granted(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=1", 2, 1);
    scheduler_fixture_ask(scheduler, 1, 1, "cpu=1");
    scheduler_fixture_ask(scheduler, 2, 1, "cpu=1"); /* tickets are unique per client only */
    scheduler_cancel(scheduler, 1, 1);
    scheduler_cancel(scheduler, 1, 99);
    scheduler_cancel(scheduler, 99, 1);
    scheduler_decision grant = scheduler_fixture_granted(scheduler, 2, 1);
    scheduler_cancel(scheduler, 2, 1); /* granted already: no effect */
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 0);
    scheduler_fixture_give_back(scheduler, &grant);
    scheduler_fixture_nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void a_machine_ends_in_any_state(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=2", 2, 3);
    for (uint64_t i = 1; i <= 3; i++) scheduler_fixture_ask(scheduler, 1, i, "cpu=1");
    scheduler_decision one = scheduler_fixture_granted(scheduler, 1, 1),
                       two = scheduler_fixture_granted(scheduler, 1, 2);
    scheduler_block(scheduler, one.worker, true);
    resources need = scheduler_fixture_amount("cpu=1");
    assert_int_equal(scheduler_keep(scheduler, 1, two.lease, &need), MR_OK);
    scheduler_fixture_ask(scheduler, 2, 4, "cpu=1");
    scheduler_destroy(scheduler); /* a sanitizer detects leaks */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_granted_and_released),
        cmocka_unit_test(a_worker_that_is_not_kept_is_not_used_again),
        cmocka_unit_test(the_poorest_client_is_next),
        cmocka_unit_test(the_oldest_of_equal_requests_goes_first),
        cmocka_unit_test(a_shape_that_does_not_fit_holds_no_other_back),
        cmocka_unit_test(resources_are_fractions),
        cmocka_unit_test(a_request_without_resources_needs_only_a_worker),
        cmocka_unit_test(an_infeasible_request_waits_without_blocking_others),
        cmocka_unit_test(workers_are_started_ahead),
        cmocka_unit_test(as_many_are_spawned_as_can_run),
        cmocka_unit_test(programs_do_not_share_workers),
        cmocka_unit_test(a_blocked_worker_lends_what_it_has),
        cmocka_unit_test(nesting_goes_as_deep_as_it_likes),
        cmocka_unit_test(one_that_blocks_without_a_lease_is_not_idle),
        cmocka_unit_test(an_actor_lends_too),
        cmocka_unit_test(a_kept_worker_is_out_of_the_pool),
        cmocka_unit_test(kept_workers_are_replaced),
        cmocka_unit_test(a_client_takes_its_requests_and_leases_along),
        cmocka_unit_test(a_worker_takes_its_lease_along),
        cmocka_unit_test(a_cancelled_request_is_not_granted),
        cmocka_unit_test(a_machine_ends_in_any_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
