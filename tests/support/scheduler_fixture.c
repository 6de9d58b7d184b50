/* scheduler_fixture.c — see scheduler_fixture.h. */
#include "tests/support/scheduler_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

resources scheduler_fixture_amount(const char *text) {
    resources made = {0};
    assert_int_equal(resources_parse(&made, text), MR_OK);
    return made;
}

scheduler *scheduler_fixture_machine(const char *total, uint32_t prestart) {
    resources all = scheduler_fixture_amount(total);
    return scheduler_create(&all, prestart);
}

void scheduler_fixture_ask(scheduler *scheduler, uint64_t client, uint64_t ticket, const char *need) {
    resources wanted = scheduler_fixture_amount(need);
    scheduler_request(scheduler, client, ticket, &wanted);
}

scheduler_decision scheduler_fixture_next(scheduler *scheduler, scheduler_verb verb) {
    scheduler_decision decision = {0};
    assert_true(scheduler_next(scheduler, &decision));
    assert_int_equal(decision.verb, verb);
    scheduler_check(scheduler);
    return decision;
}

scheduler_decision scheduler_fixture_granted(scheduler *scheduler, uint64_t client, uint64_t ticket) {
    scheduler_decision decision = scheduler_fixture_next(scheduler, SCHEDULER_GRANT);
    assert_int_equal(decision.client, client);
    assert_int_equal(decision.ticket, ticket);
    assert_true(decision.lease != 0);
    return decision;
}

void scheduler_fixture_nothing(scheduler *scheduler) {
    scheduler_decision decision;
    scheduler_check(scheduler);
    assert_false(scheduler_next(scheduler, &decision));
}

int64_t scheduler_fixture_free_milli(const scheduler *scheduler, const char *name) {
    scheduler_stats stats = scheduler_stats_now(scheduler);
    return resources_milli(&stats.free, name);
}

void scheduler_fixture_give_back(scheduler *scheduler, const scheduler_decision *grant) {
    assert_int_equal(scheduler_release(scheduler, grant->client, grant->lease, true), MR_OK);
}

scheduler *scheduler_fixture_house(const char *total, uint64_t clients, uint64_t workers) {
    scheduler *scheduler = scheduler_fixture_machine(total, 0);
    for (uint64_t i = 1; i <= clients; i++) scheduler_client_add(scheduler, i, SCHEDULER_FIXTURE_PROGRAM);
    for (uint64_t i = 1; i <= workers; i++) scheduler_worker_add(scheduler, 100 + i, SCHEDULER_FIXTURE_PROGRAM);
    return scheduler;
}
