/* scheduler_test.c — each rule of scheduler.h, then all of them at once by chance. */
#include "runtime/scheduler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

enum { PROGRAM = 1 };

static resources amount(const char *text) {
    resources made = {0};
    assert_int_equal(resources_parse(&made, text), MR_OK);
    return made;
}

static scheduler *machine(const char *total, uint32_t prestart) {
    resources all = amount(total);
    return scheduler_create(&all, prestart);
}

static void ask(scheduler *scheduler, uint64_t client, uint64_t ticket, const char *need) {
    resources wanted = amount(need);
    scheduler_request(scheduler, client, ticket, &wanted);
}

static scheduler_decision next(scheduler *scheduler, scheduler_verb verb) {
    scheduler_decision decision = {0};
    assert_true(scheduler_next(scheduler, &decision));
    assert_int_equal(decision.verb, verb);
    scheduler_check(scheduler);
    return decision;
}

static scheduler_decision granted(scheduler *scheduler, uint64_t client, uint64_t ticket) {
    scheduler_decision decision = next(scheduler, SCHEDULER_GRANT);
    assert_int_equal(decision.client, client);
    assert_int_equal(decision.ticket, ticket);
    assert_true(decision.lease != 0);
    return decision;
}

static void nothing(scheduler *scheduler) {
    scheduler_decision decision;
    scheduler_check(scheduler);
    assert_false(scheduler_next(scheduler, &decision));
}

static int64_t free_milli(const scheduler *scheduler, const char *name) {
    scheduler_stats stats = scheduler_stats_now(scheduler);
    return resources_milli(&stats.free, name);
}

static void give_back(scheduler *scheduler, const scheduler_decision *grant) {
    assert_int_equal(scheduler_release(scheduler, grant->client, grant->lease, true), MR_OK);
}

/* A machine with clients 1…clients and idle workers 101…, of one program. */
static scheduler *house(const char *total, uint64_t clients, uint64_t workers) {
    scheduler *scheduler = machine(total, 0);
    for (uint64_t i = 1; i <= clients; i++) scheduler_client_add(scheduler, i, PROGRAM);
    for (uint64_t i = 1; i <= workers; i++) scheduler_worker_add(scheduler, 100 + i, PROGRAM);
    return scheduler;
}

static void a_request_is_granted_and_released(void **state) {
    scheduler *scheduler = house("cpu=1", 1, 1);
    nothing(scheduler);
    ask(scheduler, 1, 7, "cpu=1");
    scheduler_decision grant = granted(scheduler, 1, 7);
    assert_int_equal(grant.worker, 101);
    assert_int_equal(free_milli(scheduler, "cpu"), 0);
    nothing(scheduler);
    assert_int_equal(scheduler_release(scheduler, 2, grant.lease, true), MR_NOT_FOUND);
    assert_int_equal(scheduler_release(scheduler, 1, grant.lease + 1, true), MR_NOT_FOUND);
    give_back(scheduler, &grant);
    assert_int_equal(free_milli(scheduler, "cpu"), 1000);
    assert_int_equal(scheduler_release(scheduler, 1, grant.lease, true), MR_NOT_FOUND);
    nothing(scheduler);
    ask(scheduler, 1, 8, "cpu=1");
    assert_true(granted(scheduler, 1, 8).lease != grant.lease);
    scheduler_destroy(scheduler);
}

static void a_worker_that_is_not_kept_is_not_used_again(void **state) {
    scheduler *scheduler = house("cpu=1", 1, 1);
    ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision grant = granted(scheduler, 1, 1);
    assert_int_equal(scheduler_release(scheduler, 1, grant.lease, false), MR_OK);
    assert_int_equal(scheduler_stats_now(scheduler).idle, 0);
    assert_int_equal(next(scheduler, SCHEDULER_END).worker, 101);
    ask(scheduler, 1, 2, "cpu=1");
    next(scheduler, SCHEDULER_SPAWN);
    nothing(scheduler);
    scheduler_worker_gone(scheduler, 101);
    assert_int_equal(scheduler_stats_now(scheduler).workers, 0);
    scheduler_destroy(scheduler);
}

static void the_poorest_client_is_next(void **state) {
    scheduler *scheduler = house("cpu=4", 3, 4);
    for (uint64_t i = 0; i < 4; i++) ask(scheduler, 1, 10 + i, "cpu=1");
    ask(scheduler, 2, 20, "cpu=1");
    ask(scheduler, 2, 21, "cpu=1");
    ask(scheduler, 3, 30, "cpu=1");
    granted(scheduler, 1, 10);
    granted(scheduler, 2, 20);
    granted(scheduler, 3, 30);
    granted(scheduler, 1, 11); /* all have one: the one that waits longest */
    scheduler_destroy(scheduler);
}

static void who_waits_longest_is_first_among_equals(void **state) {
    scheduler *scheduler = house("cpu=1", 3, 1);
    ask(scheduler, 3, 1, "cpu=1");
    ask(scheduler, 1, 2, "cpu=1");
    ask(scheduler, 2, 3, "cpu=1");
    scheduler_decision grant = granted(scheduler, 3, 1);
    give_back(scheduler, &grant);
    grant = granted(scheduler, 1, 2);
    give_back(scheduler, &grant);
    granted(scheduler, 2, 3);
    scheduler_destroy(scheduler);
}

static void a_shape_that_does_not_fit_holds_no_other_back(void **state) {
    scheduler *scheduler = house("cpu=2,gpu=1", 1, 3);
    ask(scheduler, 1, 1, "gpu=1");
    granted(scheduler, 1, 1);
    ask(scheduler, 1, 2, "gpu=1");
    ask(scheduler, 1, 3, "cpu=1");
    ask(scheduler, 1, 4, "cpu=1");
    granted(scheduler, 1, 3); /* in their order */
    granted(scheduler, 1, 4);
    nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void resources_are_fractions(void **state) {
    scheduler *scheduler = house("gpu=1", 1, 3);
    for (uint64_t i = 1; i <= 3; i++) ask(scheduler, 1, i, "gpu=0.4");
    granted(scheduler, 1, 1);
    granted(scheduler, 1, 2);
    assert_int_equal(free_milli(scheduler, "gpu"), 200);
    nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void what_needs_nothing_needs_a_worker_only(void **state) {
    scheduler *scheduler = house("cpu=1", 1, 1);
    ask(scheduler, 1, 1, "");
    ask(scheduler, 1, 2, "");
    granted(scheduler, 1, 1);
    next(scheduler, SCHEDULER_SPAWN);
    nothing(scheduler);
    scheduler_worker_add(scheduler, 102, PROGRAM);
    granted(scheduler, 1, 2);
    scheduler_destroy(scheduler);
}

static void the_impossible_waits_and_disturbs_nobody(void **state) {
    scheduler *scheduler = house("cpu=2", 2, 2);
    resources gpu = amount("gpu=0.001"), three = amount("cpu=3"), two = amount("cpu=2"), none = amount("");
    assert_true(scheduler_impossible(scheduler, &gpu) && scheduler_impossible(scheduler, &three));
    assert_false(scheduler_impossible(scheduler, &two) || scheduler_impossible(scheduler, &none));
    ask(scheduler, 2, 9, "cpu=1");
    granted(scheduler, 2, 9);
    assert_false(scheduler_impossible(scheduler, &two)); /* what is taken comes back */
    ask(scheduler, 1, 1, "gpu=1");
    ask(scheduler, 1, 2, "cpu=3");
    nothing(scheduler); /* no spawn, no reclaim */
    ask(scheduler, 1, 3, "cpu=1");
    granted(scheduler, 1, 3);
    assert_int_equal(scheduler_stats_now(scheduler).waiting, 2);
    scheduler_cancel(scheduler, 1, 1);
    scheduler_cancel(scheduler, 1, 2);
    assert_int_equal(scheduler_stats_now(scheduler).waiting, 0);
    scheduler_destroy(scheduler);
}

/* ---- Spawning. */

static void workers_are_started_ahead(void **state) {
    scheduler *scheduler = machine("cpu=4", 3);
    nothing(scheduler); /* there is no program yet */
    scheduler_client_add(scheduler, 1, PROGRAM);
    for (int i = 0; i < 3; i++) assert_int_equal(next(scheduler, SCHEDULER_SPAWN).program, PROGRAM);
    nothing(scheduler);
    for (uint64_t i = 1; i <= 3; i++) scheduler_worker_add(scheduler, 100 + i, PROGRAM);
    nothing(scheduler);
    scheduler_worker_gone(scheduler, 102);
    next(scheduler, SCHEDULER_SPAWN);
    nothing(scheduler);
    scheduler_spawn_failed(scheduler, PROGRAM);
    next(scheduler, SCHEDULER_SPAWN);
    nothing(scheduler);
    scheduler_client_add(scheduler, 2, PROGRAM + 1);
    for (int i = 0; i < 3; i++) assert_int_equal(next(scheduler, SCHEDULER_SPAWN).program, PROGRAM + 1);
    nothing(scheduler);
    assert_int_equal(scheduler_stats_now(scheduler).starting, 4);
    scheduler_destroy(scheduler);
}

static void as_many_are_spawned_as_can_run(void **state) {
    scheduler *scheduler = house("cpu=3", 2, 1);
    for (uint64_t i = 0; i < 10; i++) ask(scheduler, 1 + i % 2, 10 + i, "cpu=1");
    granted(scheduler, 1, 10);
    next(scheduler, SCHEDULER_SPAWN);
    next(scheduler, SCHEDULER_SPAWN);
    nothing(scheduler);
    scheduler_worker_add(scheduler, 102, PROGRAM);
    granted(scheduler, 2, 11);
    nothing(scheduler);
    scheduler_spawn_failed(scheduler, PROGRAM); /* the third does not come */
    next(scheduler, SCHEDULER_SPAWN);
    nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void programs_do_not_share_workers(void **state) {
    scheduler *scheduler = machine("cpu=2", 0);
    scheduler_client_add(scheduler, 1, 1);
    scheduler_client_add(scheduler, 2, 2);
    scheduler_worker_add(scheduler, 101, 1);
    ask(scheduler, 2, 5, "cpu=1");
    assert_int_equal(next(scheduler, SCHEDULER_SPAWN).program, 2);
    nothing(scheduler);
    ask(scheduler, 1, 6, "cpu=1"); /* younger, but its program has a worker */
    assert_int_equal(granted(scheduler, 1, 6).worker, 101);
    scheduler_worker_add(scheduler, 102, 2);
    assert_int_equal(granted(scheduler, 2, 5).worker, 102);
    scheduler_destroy(scheduler);
}

/* ---- Blocking. */

static void a_blocked_worker_lends_what_it_has(void **state) {
    scheduler *scheduler = house("cpu=1", 1, 2);
    scheduler_client_add(scheduler, 101, PROGRAM); /* the worker's own tasks */
    ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision parent = granted(scheduler, 1, 1);
    ask(scheduler, 101, 2, "cpu=1");
    assert_int_equal(next(scheduler, SCHEDULER_RECLAIM).lease,
                     parent.lease); /* it is not idle, nobody knows that here */
    nothing(scheduler);
    scheduler_block(scheduler, parent.worker, true);
    scheduler_block(scheduler, parent.worker, true); /* once only */
    assert_int_equal(free_milli(scheduler, "cpu"), 1000);
    scheduler_decision child = granted(scheduler, 101, 2);
    assert_int_equal(child.worker, 102);
    scheduler_block(scheduler, parent.worker, false);
    assert_int_equal(free_milli(scheduler, "cpu"), -1000); /* overdrawn: granted to nobody */
    ask(scheduler, 1, 3, "cpu=0.001");
    assert_int_equal(scheduler_stats_now(scheduler).waiting, 1);
    scheduler_decision decision;
    while (scheduler_next(scheduler, &decision)) assert_int_equal(decision.verb, SCHEDULER_RECLAIM);
    give_back(scheduler, &child);
    nothing(scheduler);
    give_back(scheduler, &parent);
    granted(scheduler, 1, 3);
    assert_int_equal(free_milli(scheduler, "cpu"), 999);
    scheduler_destroy(scheduler);
}

/* Nested tasks, each waiting for its child, never wait for their own parent. */
static void nesting_goes_as_deep_as_it_likes(void **state) {
    enum { DEPTH = 40 };
    scheduler *scheduler = house("cpu=1", 1, 0);
    uint64_t client = 1;
    scheduler_decision leases[DEPTH];
    for (uint64_t i = 0; i < DEPTH; i++) {
        ask(scheduler, client, i, "cpu=1");
        next(scheduler, SCHEDULER_SPAWN);
        nothing(scheduler);
        scheduler_client_add(scheduler, 101 + i, PROGRAM);
        scheduler_worker_add(scheduler, 101 + i, PROGRAM);
        leases[i] = granted(scheduler, client, i);
        client = leases[i].worker;
        scheduler_block(scheduler, client, true);
    }
    for (size_t i = DEPTH; i-- > 0;) {
        scheduler_block(scheduler, leases[i].worker, false);
        give_back(scheduler, &leases[i]);
        scheduler_check(scheduler);
    }
    assert_int_equal(free_milli(scheduler, "cpu"), 1000);
    assert_int_equal(scheduler_stats_now(scheduler).idle, DEPTH);
    scheduler_destroy(scheduler);
}

static void one_that_blocks_without_a_lease_is_not_idle(void **state) {
    scheduler *scheduler = house("cpu=1", 2, 1);
    scheduler_block(scheduler, 999, true);
    ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision grant = granted(scheduler, 1, 1);
    scheduler_block(scheduler, 101, true);
    give_back(scheduler, &grant); /* released while it is lent: given once */
    assert_int_equal(free_milli(scheduler, "cpu"), 1000);
    assert_int_equal(scheduler_stats_now(scheduler).idle, 0);
    ask(scheduler, 2, 2, "cpu=1"); /* what it still runs may wait for this very request: another worker must come */
    next(scheduler, SCHEDULER_SPAWN);
    nothing(scheduler);
    scheduler_block(scheduler, 101, false);
    assert_int_equal(granted(scheduler, 2, 2).worker, 101);
    assert_int_equal(free_milli(scheduler, "cpu"), 0);
    scheduler_destroy(scheduler);
}

static void an_actor_lends_too(void **state) {
    scheduler *scheduler = house("cpu=1", 1, 2);
    ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision grant = granted(scheduler, 1, 1);
    resources one = amount("cpu=1");
    assert_int_equal(scheduler_keep(scheduler, 1, grant.lease, &one), MR_OK);
    ask(scheduler, 1, 2, "cpu=1"); /* a task that the actor waits for */
    nothing(scheduler);
    scheduler_block(scheduler, grant.worker, true);
    granted(scheduler, 1, 2);
    scheduler_block(scheduler, grant.worker, false);
    assert_int_equal(free_milli(scheduler, "cpu"), -1000);
    scheduler_destroy(scheduler);
}

/* ---- Nobody starves. */

/* Small requests come all the time, and a large one is never the one that fits. */
static void a_large_request_is_passed_so_often_and_no_more(void **state) {
    scheduler *scheduler = house("cpu=2", 3, 2);
    ask(scheduler, 1, 1, "cpu=1");
    ask(scheduler, 2, 1, "cpu=1");
    scheduler_decision held[] = {granted(scheduler, 1, 1), granted(scheduler, 2, 1)};
    ask(scheduler, 3, 1, "cpu=2");
    next(scheduler, SCHEDULER_RECLAIM);
    next(scheduler, SCHEDULER_RECLAIM);
    for (uint64_t i = 0; i < SCHEDULER_PATIENCE; i++) {
        uint64_t client = 1 + i % 2;
        ask(scheduler, client, 2 + i, "cpu=1");
        give_back(scheduler, &held[i % 2]);
        held[i % 2] = granted(scheduler, client, 2 + i);
        next(scheduler, SCHEDULER_RECLAIM);
        nothing(scheduler);
    }
    ask(scheduler, 1, 90, "cpu=1");
    give_back(scheduler, &held[0]);
    nothing(scheduler); /* it is kept for the large one */
    give_back(scheduler, &held[1]);
    scheduler_decision large = granted(scheduler, 3, 1);
    give_back(scheduler, &large);
    granted(scheduler, 1, 90);
    scheduler_destroy(scheduler);
}

static void what_actors_hold_is_not_waited_for(void **state) {
    scheduler *scheduler = house("cpu=2", 2, 3);
    ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision grant = granted(scheduler, 1, 1);
    resources one = amount("cpu=1");
    assert_int_equal(scheduler_keep(scheduler, 1, grant.lease, &one), MR_OK);
    ask(scheduler, 2, 1, "cpu=2");
    for (uint64_t i = 0; i < 3 * SCHEDULER_PATIENCE; i++) {
        ask(scheduler, 1, 2 + i, "cpu=1");
        scheduler_decision small = granted(scheduler, 1, 2 + i);
        nothing(scheduler);
        give_back(scheduler, &small);
    }
    scheduler_worker_gone(scheduler, grant.worker);
    granted(scheduler, 2, 1);
    scheduler_destroy(scheduler);
}

/* ---- Reclaiming. */

static void the_richest_is_asked_for_one(void **state) {
    scheduler *scheduler = house("cpu=3", 3, 3);
    ask(scheduler, 1, 1, "cpu=1");
    ask(scheduler, 2, 2, "cpu=1");
    ask(scheduler, 2, 3, "cpu=1");
    scheduler_decision grants[3] = {granted(scheduler, 1, 1), granted(scheduler, 2, 2), granted(scheduler, 2, 3)};
    ask(scheduler, 3, 4, "cpu=1");
    scheduler_decision asked = next(scheduler, SCHEDULER_RECLAIM);
    assert_int_equal(asked.client, 2);
    assert_true(asked.lease == grants[1].lease || asked.lease == grants[2].lease);
    nothing(scheduler); /* once */
    assert_int_equal(scheduler_release(scheduler, 2, asked.lease, true), MR_OK);
    granted(scheduler, 3, 4);
    ask(scheduler, 3, 5, "cpu=1"); /* everybody has one: nobody is asked */
    nothing(scheduler);
    scheduler_destroy(scheduler);
}

/* One lease is not enough for a request that needs two. */
static void as_many_are_asked_for_as_are_needed(void **state) {
    scheduler *scheduler = house("cpu=4", 2, 5);
    for (uint64_t i = 1; i <= 4; i++) {
        ask(scheduler, 1, i, "cpu=1");
        granted(scheduler, 1, i);
    }
    ask(scheduler, 2, 9, "cpu=2");
    scheduler_decision first = next(scheduler, SCHEDULER_RECLAIM), second = next(scheduler, SCHEDULER_RECLAIM);
    assert_true(first.lease != second.lease && first.client == 1 && second.client == 1);
    nothing(scheduler);
    give_back(scheduler, &first);
    nothing(scheduler);
    give_back(scheduler, &second);
    granted(scheduler, 2, 9);
    scheduler_destroy(scheduler);
}

/* What one was asked for and another got is asked for again. */
static void a_request_that_was_overtaken_is_not_forgotten(void **state) {
    scheduler *scheduler = house("cpu=2", 3, 2);
    for (uint64_t i = 1; i <= 2; i++) {
        ask(scheduler, 1, i, "cpu=1");
        granted(scheduler, 1, i);
    }
    ask(scheduler, 2, 3, "cpu=1");
    scheduler_decision asked = next(scheduler, SCHEDULER_RECLAIM);
    scheduler_client_gone(scheduler, 2);
    scheduler_client_add(scheduler, 2, PROGRAM);
    ask(scheduler, 3, 4, "cpu=1"); /* client 2 went, but the lease comes all the same */
    ask(scheduler, 2, 5, "cpu=1");
    nothing(scheduler); /* both count on it */
    give_back(scheduler, &asked);
    scheduler_decision third = granted(scheduler, 3, 4);
    scheduler_decision more = next(scheduler, SCHEDULER_RECLAIM);
    assert_true(more.client == 1 || more.client == 3);
    nothing(scheduler);
    assert_int_equal(scheduler_release(scheduler, more.client, more.lease, true), MR_OK);
    granted(scheduler, 2, 5);
    assert_true(third.lease != 0);
    scheduler_destroy(scheduler);
}

/* A lease whose resources nobody waits for stays where it is. */
static void only_what_helps_is_asked_for(void **state) {
    scheduler *scheduler = house("cpu=2,gpu=1", 3, 3);
    ask(scheduler, 1, 1, "cpu=1");
    ask(scheduler, 1, 2, "cpu=1");
    granted(scheduler, 1, 1);
    granted(scheduler, 1, 2);
    ask(scheduler, 2, 3, "gpu=1");
    scheduler_decision gpu = granted(scheduler, 2, 3);
    ask(scheduler, 3, 4, "gpu=1");
    assert_int_equal(next(scheduler, SCHEDULER_RECLAIM).lease, gpu.lease);
    nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void what_is_lent_is_not_asked_for(void **state) {
    scheduler *scheduler = house("cpu=1", 3, 3);
    ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision parent = granted(scheduler, 1, 1);
    scheduler_block(scheduler, parent.worker, true);
    ask(scheduler, 2, 2, "cpu=1");
    scheduler_decision other = granted(scheduler, 2, 2);
    ask(scheduler, 3, 3, "cpu=1");
    assert_int_equal(next(scheduler, SCHEDULER_RECLAIM).lease, other.lease);
    nothing(scheduler);
    scheduler_destroy(scheduler);
}

/* ---- Actors. */

static void a_kept_worker_is_out_of_the_pool(void **state) {
    scheduler *scheduler = house("cpu=2", 2, 2);
    ask(scheduler, 1, 1, "cpu=1");
    scheduler_decision grant = granted(scheduler, 1, 1);
    resources half = amount("cpu=0.5");
    assert_int_equal(scheduler_keep(scheduler, 2, grant.lease, &half), MR_NOT_FOUND);
    assert_int_equal(scheduler_keep(scheduler, 1, grant.lease, &half), MR_OK);
    scheduler_check(scheduler);
    assert_int_equal(free_milli(scheduler, "cpu"), 1500);
    assert_int_equal(scheduler_release(scheduler, 1, grant.lease, true), MR_NOT_FOUND);
    assert_int_equal(scheduler_stats_now(scheduler).leases, 0);
    assert_int_equal(scheduler_stats_now(scheduler).idle, 1);
    scheduler_client_gone(scheduler, 1); /* it does not go with who asked for it */
    assert_int_equal(free_milli(scheduler, "cpu"), 1500);
    scheduler_block(scheduler, grant.worker, true);
    assert_int_equal(free_milli(scheduler, "cpu"), 2000);
    scheduler_worker_gone(scheduler, grant.worker);
    assert_int_equal(free_milli(scheduler, "cpu"), 2000);
    scheduler_destroy(scheduler);
}

static void kept_workers_are_replaced(void **state) {
    scheduler *scheduler = machine("cpu=2", 1);
    scheduler_client_add(scheduler, 1, PROGRAM);
    next(scheduler, SCHEDULER_SPAWN);
    scheduler_worker_add(scheduler, 101, PROGRAM);
    ask(scheduler, 1, 1, "");
    scheduler_decision grant = granted(scheduler, 1, 1);
    nothing(scheduler);
    assert_int_equal(scheduler_keep(scheduler, 1, grant.lease, &(resources){0}), MR_OK);
    next(scheduler, SCHEDULER_SPAWN);
    nothing(scheduler);
    scheduler_destroy(scheduler);
}

/* ---- Deaths. */

static void a_client_takes_its_requests_and_leases_along(void **state) {
    scheduler *scheduler = house("cpu=2", 2, 2);
    ask(scheduler, 1, 1, "cpu=1");
    ask(scheduler, 1, 2, "cpu=1");
    ask(scheduler, 1, 3, "cpu=1");
    scheduler_decision lent = granted(scheduler, 1, 1);
    granted(scheduler, 1, 2);
    scheduler_block(scheduler, lent.worker, true);
    scheduler_client_gone(scheduler, 1);
    scheduler_client_gone(scheduler, 1);
    scheduler_check(scheduler);
    scheduler_stats stats = scheduler_stats_now(scheduler);
    assert_true(stats.leases == 0 && stats.waiting == 0 && stats.idle == 0 && stats.clients == 1);
    assert_int_equal(free_milli(scheduler, "cpu"), 2000);
    scheduler_cancel(scheduler, 1, 3);
    assert_int_equal(scheduler_release(scheduler, 1, lent.lease, true), MR_NOT_FOUND);
    uint64_t ended = next(scheduler, SCHEDULER_END).worker; /* who knows what they still do for it */
    assert_int_equal(ended + next(scheduler, SCHEDULER_END).worker, 101 + 102);
    nothing(scheduler);
    ask(scheduler, 2, 4, "cpu=2");
    next(scheduler, SCHEDULER_SPAWN);
    scheduler_worker_add(scheduler, 103, PROGRAM);
    granted(scheduler, 2, 4);
    scheduler_destroy(scheduler);
}

static void a_worker_takes_its_lease_along(void **state) {
    for (int blocked = 0; blocked < 2; blocked++) {
        scheduler *scheduler = house("cpu=1", 1, 1);
        ask(scheduler, 1, 1, "cpu=1");
        ask(scheduler, 1, 2, "cpu=1");
        scheduler_decision grant = granted(scheduler, 1, 1);
        if (blocked) scheduler_block(scheduler, grant.worker, true);
        scheduler_worker_gone(scheduler, grant.worker);
        scheduler_check(scheduler);
        assert_int_equal(free_milli(scheduler, "cpu"), 1000);
        assert_int_equal(scheduler_release(scheduler, 1, grant.lease, true), MR_NOT_FOUND);
        next(scheduler, SCHEDULER_SPAWN); /* for the one that waits */
        nothing(scheduler);
        scheduler_worker_add(scheduler, 102, PROGRAM);
        granted(scheduler, 1, 2);
        scheduler_destroy(scheduler);
    }
}

static void a_cancelled_request_is_not_granted(void **state) {
    scheduler *scheduler = house("cpu=1", 2, 1);
    ask(scheduler, 1, 1, "cpu=1");
    ask(scheduler, 2, 1, "cpu=1"); /* tickets are the client's own */
    scheduler_cancel(scheduler, 1, 1);
    scheduler_cancel(scheduler, 1, 99);
    scheduler_cancel(scheduler, 99, 1);
    scheduler_decision grant = granted(scheduler, 2, 1);
    scheduler_cancel(scheduler, 2, 1); /* too late, no harm */
    assert_int_equal(free_milli(scheduler, "cpu"), 0);
    give_back(scheduler, &grant);
    nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void a_machine_ends_in_any_state(void **state) {
    scheduler *scheduler = house("cpu=2", 2, 3);
    for (uint64_t i = 1; i <= 3; i++) ask(scheduler, 1, i, "cpu=1");
    scheduler_decision one = granted(scheduler, 1, 1), two = granted(scheduler, 1, 2);
    scheduler_block(scheduler, one.worker, true);
    resources need = amount("cpu=1");
    assert_int_equal(scheduler_keep(scheduler, 1, two.lease, &need), MR_OK);
    ask(scheduler, 2, 4, "cpu=1");
    scheduler_destroy(scheduler); /* a sanitizer counts */
}

/* ---- Several programs. */

enum { OTHER = 2 };

/* Two programs on a machine of 4 CPUs, four workers each. The first has the clients 1, 2 and 3, the other client 4. */
static scheduler *two_programs(void) {
    scheduler *scheduler = house("cpu=4", 3, 4);
    scheduler_client_add(scheduler, 4, OTHER);
    for (uint64_t i = 1; i <= 4; i++) scheduler_worker_add(scheduler, 200 + i, OTHER);
    return scheduler;
}

static void a_program_that_floods_starves_nobody(void **state) {
    scheduler *scheduler = two_programs();
    for (uint64_t i = 0; i < 60; i++) ask(scheduler, 1 + i % 3, 100 + i, "cpu=1");
    ask(scheduler, 4, 1, "cpu=1");
    ask(scheduler, 4, 2, "cpu=1");
    granted(scheduler, 1, 100);
    granted(scheduler, 4, 1); /* three clients or one: a program is a program */
    granted(scheduler, 2, 101);
    granted(scheduler, 4, 2);
    assert_true(next(scheduler, SCHEDULER_RECLAIM).client <= 2); /* for the third client of the same program */
    nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void a_late_program_gets_its_half(void **state) {
    scheduler *scheduler = two_programs();
    for (uint64_t i = 0; i < 4; i++) ask(scheduler, 1 + i % 3, 100 + i, "cpu=1");
    for (int i = 0; i < 4; i++) next(scheduler, SCHEDULER_GRANT);
    ask(scheduler, 4, 1, "cpu=1");
    ask(scheduler, 4, 2, "cpu=1");
    ask(scheduler, 4, 3, "cpu=1");
    scheduler_decision asked[2]; /* clients have one or two each, but the program has four */
    for (size_t i = 0; i < 2; i++) {
        asked[i] = next(scheduler, SCHEDULER_RECLAIM);
        assert_true(asked[i].client >= 1 && asked[i].client <= 3);
    }
    nothing(scheduler); /* two each is fair */
    for (size_t i = 0; i < 2; i++) {
        give_back(scheduler, &asked[i]);
        granted(scheduler, 4, 1 + i);
    }
    nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void starts_are_few_at_a_time_and_shared(void **state) {
    scheduler *scheduler = machine("cpu=1", 0);
    uint32_t starts[3] = {0};
    scheduler_client_add(scheduler, 1, PROGRAM);
    for (uint64_t i = 0; i < 100; i++) ask(scheduler, 1, i, "");
    for (int i = 0; i < SCHEDULER_STARTING_MAX; i++) next(scheduler, SCHEDULER_SPAWN);
    nothing(scheduler);
    scheduler_client_add(scheduler, 2, OTHER);
    for (uint64_t i = 0; i < 100; i++) ask(scheduler, 2, i, "");
    for (int i = 0; i < SCHEDULER_STARTING_MAX; i++) {
        scheduler_spawn_failed(scheduler, PROGRAM);
        starts[next(scheduler, SCHEDULER_SPAWN).program]++;
    }
    assert_int_equal(starts[OTHER], SCHEDULER_STARTING_MAX / 2);
    scheduler_destroy(scheduler);
}

static void a_barred_program_starts_nothing(void **state) {
    scheduler *scheduler = machine("cpu=1", 1);
    scheduler_client_add(scheduler, 1, PROGRAM);
    scheduler_bar(scheduler, PROGRAM, true);
    ask(scheduler, 1, 1, "cpu=1");
    nothing(scheduler);
    scheduler_bar(scheduler, PROGRAM, false);
    next(scheduler, SCHEDULER_SPAWN);
    nothing(scheduler);
    scheduler_destroy(scheduler);
}

static void a_program_that_ended_starts_nothing_ahead(void **state) {
    scheduler *scheduler = machine("cpu=2", 2);
    scheduler_client_add(scheduler, 1, PROGRAM);
    next(scheduler, SCHEDULER_SPAWN);
    next(scheduler, SCHEDULER_SPAWN);
    scheduler_worker_add(scheduler, 101, PROGRAM);
    scheduler_program_ended(scheduler, PROGRAM);
    scheduler_spawn_failed(scheduler, PROGRAM);
    nothing(scheduler);
    assert_true(scheduler_program_runs(scheduler, PROGRAM));
    ask(scheduler, 1, 1, "cpu=1"); /* an actor that outlives it has tasks */
    ask(scheduler, 1, 2, "cpu=1");
    granted(scheduler, 1, 1);
    next(scheduler, SCHEDULER_SPAWN);
    scheduler_client_gone(scheduler, 1);
    assert_int_equal(next(scheduler, SCHEDULER_END).worker, 101);
    scheduler_spawn_failed(scheduler, PROGRAM); /* the last that is known of it */
    scheduler_check(scheduler);
    assert_false(scheduler_program_runs(scheduler, PROGRAM));
    scheduler_spawn_failed(scheduler, PROGRAM);
    scheduler_bar(scheduler, PROGRAM, true);
    nothing(scheduler);
    scheduler_destroy(scheduler);
}

/* ---- Everything by chance, against a plain account of what must be. */

enum { CLIENTS = 5, TICKETS = 40, WORKERS_MAX = 400, STEPS = 60000 };

typedef enum ticket_state { UNUSED, WAITING, LEASED } ticket_state;

typedef struct model {
    scheduler *scheduler;
    rng rng;
    struct {
        ticket_state state;
        uint64_t lease, worker;
    } tickets[CLIENTS][TICKETS];
    uint64_t workers[WORKERS_MAX];
    bool blocked[WORKERS_MAX];
    size_t worker_count;
    uint64_t next_worker;
    int starting;
    uint32_t spent; /* workers that are to end, and have not yet */
    uint64_t grants, reclaims, ends;
} model;

static void forget_worker(model *model, uint64_t worker) {
    for (size_t c = 0; c < CLIENTS; c++)
        for (size_t t = 0; t < TICKETS; t++)
            if (model->tickets[c][t].state == LEASED && model->tickets[c][t].worker == worker)
                model->tickets[c][t].state = UNUSED;
    for (size_t i = 0; i < model->worker_count; i++)
        if (model->workers[i] == worker) {
            model->workers[i] = model->workers[--model->worker_count];
            model->blocked[i--] = model->blocked[model->worker_count];
        }
}

/* It is to end: it does so now, before the scheduler says so, or then. */
static void lose_worker(model *model, uint64_t worker) {
    forget_worker(model, worker);
    if (rng_chance(&model->rng, 0.5))
        scheduler_worker_gone(model->scheduler, worker);
    else
        model->spent++;
}

static void take_decisions(model *model) {
    scheduler_decision decision;
    for (int left = (int)rng_below(&model->rng, 6); left > 0 && scheduler_next(model->scheduler, &decision); left--) {
        scheduler_check(model->scheduler);
        if (decision.verb == SCHEDULER_SPAWN) model->starting++;
        if (decision.verb == SCHEDULER_RECLAIM) model->reclaims++;
        if (decision.verb == SCHEDULER_END) {
            scheduler_worker_gone(model->scheduler, decision.worker);
            model->spent--;
            model->ends++;
        }
        if (decision.verb != SCHEDULER_GRANT) continue;
        model->grants++;
        assert_true(decision.client < CLIENTS && decision.ticket < TICKETS);
        assert_int_equal(model->tickets[decision.client][decision.ticket].state, WAITING); /* answered once */
        bool known = false;
        for (size_t i = 0; i < model->worker_count; i++) known |= model->workers[i] == decision.worker;
        assert_true(known);
        for (size_t c = 0; c < CLIENTS; c++)
            for (size_t t = 0; t < TICKETS; t++)
                assert_false(model->tickets[c][t].state == LEASED && model->tickets[c][t].worker == decision.worker);
        model->tickets[decision.client][decision.ticket].state = LEASED;
        model->tickets[decision.client][decision.ticket].lease = decision.lease;
        model->tickets[decision.client][decision.ticket].worker = decision.worker;
    }
}

static void change_ticket(model *model, uint64_t client, uint64_t ticket) {
    static const char *const needs[] = {"cpu=1", "cpu=0.5", "gpu=1", "cpu=2", "", "cpu=1,gpu=0.25", "cpu=9"};
    uint64_t lease = model->tickets[client][ticket].lease, worker = model->tickets[client][ticket].worker;
    switch (model->tickets[client][ticket].state) {
    case UNUSED:
        ask(model->scheduler, client, ticket, needs[rng_below(&model->rng, 7)]);
        model->tickets[client][ticket].state = WAITING;
        return;
    case WAITING:
        if (!rng_chance(&model->rng, 0.3)) return;
        scheduler_cancel(model->scheduler, client, ticket);
        break;
    case LEASED: {
        bool keep = rng_chance(&model->rng, 0.9);
        assert_int_equal(scheduler_release(model->scheduler, client, lease, keep), MR_OK);
        if (!keep) lose_worker(model, worker);
        break;
    }
    }
    model->tickets[client][ticket].state = UNUSED;
}

static void step(model *model) {
    uint64_t client = rng_below(&model->rng, CLIENTS), what = rng_below(&model->rng, 100);
    uint64_t worker = model->worker_count == 0 ? 0 : model->workers[rng_below(&model->rng, model->worker_count)];
    if (what < 60) {
        change_ticket(model, client, rng_below(&model->rng, TICKETS));
    } else if (what < 75) {
        bool blocked = rng_chance(&model->rng, 0.5);
        scheduler_block(model->scheduler, worker, blocked);
        for (size_t i = 0; i < model->worker_count; i++)
            if (model->workers[i] == worker) model->blocked[i] = blocked;
    } else if (what < 90 && model->starting > 0) {
        model->starting--;
        if (rng_chance(&model->rng, 0.2) || model->worker_count == WORKERS_MAX) {
            scheduler_spawn_failed(model->scheduler, PROGRAM);
        } else {
            scheduler_worker_add(model->scheduler, model->next_worker, PROGRAM);
            model->blocked[model->worker_count] = false;
            model->workers[model->worker_count++] = model->next_worker++;
        }
    } else if (what < 95) {
        scheduler_worker_gone(model->scheduler, worker);
        forget_worker(model, worker);
    } else if (what < 96) {
        scheduler_client_gone(model->scheduler, client);
        for (size_t i = 0; i < TICKETS; i++)
            if (model->tickets[client][i].state == LEASED) lose_worker(model, model->tickets[client][i].worker);
        memset(model->tickets[client], 0, sizeof model->tickets[client]);
        scheduler_client_add(model->scheduler, client, PROGRAM);
    }
}

static bool is_leased(const model *model, uint64_t worker) {
    for (size_t c = 0; c < CLIENTS; c++)
        for (size_t t = 0; t < TICKETS; t++)
            if (model->tickets[c][t].state == LEASED && model->tickets[c][t].worker == worker) return true;
    return false;
}

static void chance_breaks_no_rule(void **state) {
    static model model;
    model.scheduler = machine("cpu=4,gpu=2", 2);
    model.next_worker = 100;
    rng_init(&model.rng, 7);
    for (uint64_t i = 0; i < CLIENTS; i++) scheduler_client_add(model.scheduler, i, PROGRAM);
    for (int i = 0; i < STEPS; i++) {
        step(&model);
        scheduler_check(model.scheduler);
        take_decisions(&model);
        uint32_t waiting = 0, leased = 0;
        for (size_t c = 0; c < CLIENTS; c++)
            for (size_t t = 0; t < TICKETS; t++) {
                waiting += model.tickets[c][t].state == WAITING;
                leased += model.tickets[c][t].state == LEASED;
            }
        scheduler_stats stats = scheduler_stats_now(model.scheduler);
        assert_int_equal(stats.waiting, waiting);
        assert_int_equal(stats.leases, leased);
        assert_int_equal(stats.workers, model.worker_count + model.spent);
        assert_int_equal(stats.starting, model.starting);
        uint32_t stuck = 0; /* without a lease, and blocked */
        for (size_t w = 0; w < model.worker_count; w++)
            stuck += model.blocked[w] && !is_leased(&model, model.workers[w]);
        assert_int_equal(stats.idle, model.worker_count - leased - stuck);
    }
    assert_true(model.grants > STEPS / 100 && model.reclaims > 10 && model.ends > 10);
    scheduler_destroy(model.scheduler);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_granted_and_released),
        cmocka_unit_test(a_worker_that_is_not_kept_is_not_used_again),
        cmocka_unit_test(the_poorest_client_is_next),
        cmocka_unit_test(who_waits_longest_is_first_among_equals),
        cmocka_unit_test(a_shape_that_does_not_fit_holds_no_other_back),
        cmocka_unit_test(resources_are_fractions),
        cmocka_unit_test(what_needs_nothing_needs_a_worker_only),
        cmocka_unit_test(the_impossible_waits_and_disturbs_nobody),
        cmocka_unit_test(workers_are_started_ahead),
        cmocka_unit_test(as_many_are_spawned_as_can_run),
        cmocka_unit_test(programs_do_not_share_workers),
        cmocka_unit_test(a_blocked_worker_lends_what_it_has),
        cmocka_unit_test(nesting_goes_as_deep_as_it_likes),
        cmocka_unit_test(one_that_blocks_without_a_lease_is_not_idle),
        cmocka_unit_test(an_actor_lends_too),
        cmocka_unit_test(a_large_request_is_passed_so_often_and_no_more),
        cmocka_unit_test(what_actors_hold_is_not_waited_for),
        cmocka_unit_test(the_richest_is_asked_for_one),
        cmocka_unit_test(as_many_are_asked_for_as_are_needed),
        cmocka_unit_test(a_request_that_was_overtaken_is_not_forgotten),
        cmocka_unit_test(only_what_helps_is_asked_for),
        cmocka_unit_test(what_is_lent_is_not_asked_for),
        cmocka_unit_test(a_kept_worker_is_out_of_the_pool),
        cmocka_unit_test(kept_workers_are_replaced),
        cmocka_unit_test(a_client_takes_its_requests_and_leases_along),
        cmocka_unit_test(a_worker_takes_its_lease_along),
        cmocka_unit_test(a_cancelled_request_is_not_granted),
        cmocka_unit_test(a_machine_ends_in_any_state),
        cmocka_unit_test(a_program_that_floods_starves_nobody),
        cmocka_unit_test(a_late_program_gets_its_half),
        cmocka_unit_test(starts_are_few_at_a_time_and_shared),
        cmocka_unit_test(a_barred_program_starts_nothing),
        cmocka_unit_test(a_program_that_ended_starts_nothing_ahead),
        cmocka_unit_test(chance_breaks_no_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
