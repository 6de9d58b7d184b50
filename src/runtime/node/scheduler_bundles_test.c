/* scheduler_bundles_test.c — rules of scheduler.h about placement groups; then random operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tests/support/scheduler_fixture.h"

/* Adds a group of one or two bundles, given as texts. */
static void add(scheduler *scheduler, uint64_t group, uint64_t ticket, const char *one, const char *other) {
    resources bundles[2] = {scheduler_fixture_amount(one), scheduler_fixture_amount(other == NULL ? "" : other)};
    scheduler_place place = {.client = 1, .ticket = ticket};
    assert_int_equal(scheduler_group_add(scheduler, group, bundles, other == NULL ? 1 : 2, &place), MR_OK);
    scheduler_check(scheduler);
}

static void placed(scheduler *scheduler, uint64_t ticket) {
    scheduler_decision decision = scheduler_fixture_next(scheduler, SCHEDULER_PLACED);
    assert_int_equal(decision.client, 1);
    assert_int_equal(decision.ticket, ticket);
}

static void ask_in(scheduler *scheduler, uint64_t client, uint64_t ticket, const char *need, uint64_t group,
                   uint32_t bundle) {
    resources wanted = scheduler_fixture_amount(need);
    wanted.group = group;
    wanted.bundle = bundle;
    scheduler_request(scheduler, client, ticket, &wanted);
}

static void a_group_is_set_aside_as_a_whole(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=4", 2, 4);
    add(scheduler, 7, 1, "cpu=1", "cpu=2");
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 4000); /* not reserved before PLACED */
    placed(scheduler, 1);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 1000);
    add(scheduler, 8, 2, "cpu=1", "cpu=1"); /* one bundle would fit, both do not */
    scheduler_fixture_nothing(scheduler);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 1000);
    scheduler_group_remove(scheduler, 7);
    placed(scheduler, 2);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 2000);
    scheduler_destroy(scheduler);
}

static void requests_are_met_from_their_bundle(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=4", 2, 4);
    ask_in(scheduler, 2, 0, "cpu=4", 0, 0);
    scheduler_fixture_granted(scheduler, 2, 0); /* the machine is full */
    scheduler_decision none;
    add(scheduler, 7, 1, "cpu=1", "cpu=2");
    while (scheduler_next(scheduler, &none)) assert_int_equal(none.verb, SCHEDULER_RECLAIM);
    assert_int_equal(scheduler_release(scheduler, 2, 1, true), MR_OK);
    placed(scheduler, 1);
    ask_in(scheduler, 2, 1, "cpu=2", 7, 0); /* only bundle 2 has 2 CPUs */
    scheduler_decision second = scheduler_fixture_granted(scheduler, 2, 1);
    ask_in(scheduler, 2, 2, "cpu=1", 7, 2); /* bundle 2 is full */
    ask_in(scheduler, 2, 3, "cpu=1", 7, 0);
    scheduler_decision first = scheduler_fixture_granted(scheduler, 2, 3);
    scheduler_fixture_nothing(scheduler);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 1000);
    scheduler_fixture_give_back(scheduler, &first);
    scheduler_fixture_nothing(scheduler);
    scheduler_fixture_give_back(scheduler, &second);
    scheduler_fixture_granted(scheduler, 2, 2);
    scheduler_destroy(scheduler);
}

static void a_bundle_that_another_has_is_asked_for(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=4", 3, 4);
    add(scheduler, 7, 1, "cpu=1", NULL);
    placed(scheduler, 1);
    ask_in(scheduler, 2, 1, "cpu=1", 7, 1);
    scheduler_decision has = scheduler_fixture_granted(scheduler, 2, 1);
    ask_in(scheduler, 3, 1, "cpu=1", 7, 1);
    scheduler_decision asked = scheduler_fixture_next(scheduler, SCHEDULER_RECLAIM);
    assert_int_equal(asked.client, 2);
    assert_int_equal(asked.lease, has.lease);
    /* although the machine has room, no worker is started and no other lease is reclaimed */
    scheduler_fixture_nothing(scheduler);
    scheduler_fixture_give_back(scheduler, &has);
    scheduler_fixture_granted(scheduler, 3, 1);
    scheduler_destroy(scheduler);
}

static void workers_of_a_group_end_with_it(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=4", 2, 3);
    add(scheduler, 7, 1, "cpu=1", "cpu=1");
    placed(scheduler, 1);
    ask_in(scheduler, 2, 1, "cpu=1", 7, 1);
    scheduler_decision leased = scheduler_fixture_granted(scheduler, 2, 1);
    ask_in(scheduler, 1, 2, "cpu=1", 7, 2);
    scheduler_decision kept = scheduler_fixture_granted(scheduler, 1, 2);
    resources need = scheduler_fixture_amount("cpu=1");
    need.group = 7;
    assert_int_equal(scheduler_keep(scheduler, 1, kept.lease, &need), MR_OK);
    ask_in(scheduler, 2, 3, "cpu=1", 7, 0); /* waits */
    ask_in(scheduler, 2, 4, "cpu=1", 7, 0); /* refused, then cancelled before REFUSE */
    scheduler_group_remove(scheduler, 7);
    scheduler_cancel(scheduler, 2, 4);
    assert_int_equal(scheduler_fixture_free_milli(scheduler, "cpu"), 4000);
    uint64_t ended[2];
    for (int i = 0; i < 2; i++) {
        scheduler_decision end = scheduler_fixture_next(scheduler, SCHEDULER_END);
        assert_true(end.evicted);
        ended[i] = end.worker;
    }
    assert_true(ended[0] == leased.worker && ended[1] == kept.worker);
    scheduler_decision refused = scheduler_fixture_next(scheduler, SCHEDULER_REFUSE);
    assert_int_equal(refused.client, 2);
    assert_int_equal(refused.ticket, 3);
    scheduler_fixture_nothing(scheduler);
    scheduler_worker_gone(scheduler, leased.worker);
    scheduler_worker_gone(scheduler, kept.worker);
    scheduler_check(scheduler);
    scheduler_destroy(scheduler);
}

static void needs_that_no_bundle_has_are_told(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=4", 2, 1);
    add(scheduler, 7, 1, "cpu=1", "cpu=2");
    resources need = scheduler_fixture_amount("cpu=2");
    need.group = 7;
    assert_int_equal(scheduler_group_fits(scheduler, &need), MR_OK);
    need.bundle = 1;
    assert_int_equal(scheduler_group_fits(scheduler, &need), MR_INVALID);
    need.bundle = 3;
    assert_int_equal(scheduler_group_fits(scheduler, &need), MR_INVALID);
    need.group = 8;
    assert_int_equal(scheduler_group_fits(scheduler, &need), MR_NOT_FOUND);
    resources bundle = scheduler_fixture_amount("cpu=1");
    scheduler_place again = {.client = 1, .ticket = 9};
    assert_int_equal(scheduler_group_add(scheduler, 7, &bundle, 1, &again), MR_EXISTS);
    scheduler_destroy(scheduler);
}

static void apart_is_never_on_one_machine(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=4", 1, 1);
    resources bundles[] = {scheduler_fixture_amount("cpu=1"), scheduler_fixture_amount("cpu=1")};
    scheduler_place place = {.client = 1, .ticket = 1, .apart = true};
    assert_int_equal(scheduler_group_add(scheduler, 7, bundles, 2, &place), MR_OK);
    scheduler_fixture_nothing(scheduler);
    place.ticket = 2;
    assert_int_equal(scheduler_group_add(scheduler, 8, bundles, 1, &place), MR_OK);
    placed(scheduler, 2);
    scheduler_destroy(scheduler);
}

/* A group of the whole machine is placed, although small requests never end. */
static void a_group_does_not_starve(void **state) {
    scheduler *scheduler = scheduler_fixture_house("cpu=2", 3, 2);
    uint64_t ticket = 100;
    scheduler_decision has[2], next;
    for (int i = 0; i < 2; i++) scheduler_fixture_ask(scheduler, 2, ticket++, "cpu=1");
    for (int i = 0; i < 2; i++) has[i] = scheduler_fixture_next(scheduler, SCHEDULER_GRANT);
    add(scheduler, 7, 1, "cpu=2", NULL);
    bool is_placed = false;
    for (int i = 0; i < 4 * SCHEDULER_PATIENCE && !is_placed; i++) {
        scheduler_fixture_ask(scheduler, 3, ticket++, "cpu=1");
        scheduler_fixture_give_back(scheduler, &has[i % 2]);
        has[i % 2].lease = 0;
        while (scheduler_next(scheduler, &next)) {
            is_placed |= next.verb == SCHEDULER_PLACED;
            if (next.verb == SCHEDULER_GRANT) has[i % 2] = next;
        }
        if (has[i % 2].lease != 0) continue;
        if (is_placed) break;
        scheduler_fixture_give_back(scheduler, &has[(i + 1) % 2]); /* its client was asked to return it */
        while (scheduler_next(scheduler, &next)) is_placed |= next.verb == SCHEDULER_PLACED;
        break;
    }
    assert_true(is_placed);
    scheduler_destroy(scheduler);
}

/* ---- Random operations: grants never exceed their bundle, no request is lost, and all resources are free at the
 * end. */

enum { CLIENTS = 4, GROUPS = 6, TICKETS = 24, STEPS = 40000 };

typedef enum ticket_state { UNUSED, WAITING, LEASED } ticket_state;

typedef struct model {
    scheduler *scheduler;
    rng rng;
    struct {
        ticket_state state;
        uint64_t lease, worker, group;
    } tickets[CLIENTS][TICKETS];
    uint64_t groups[GROUPS]; /* 0: none */
    uint64_t next_group, next_worker, placings;
    uint64_t placed, refused, evicted;
} model;

static void drop_group(model *model, size_t index) {
    uint64_t group = model->groups[index];
    scheduler_group_remove(model->scheduler, group);
    model->groups[index] = 0;
}

static void change_group(model *model) {
    static const char *const amounts[] = {"cpu=1", "cpu=2", "cpu=1,gpu=1", "cpu=0.5"};
    size_t index = rng_below(&model->rng, GROUPS);
    if (model->groups[index] != 0) {
        drop_group(model, index);
        return;
    }
    resources bundles[3];
    uint32_t count = 1 + (uint32_t)rng_below(&model->rng, 3);
    for (uint32_t i = 0; i < count; i++) bundles[i] = scheduler_fixture_amount(amounts[rng_below(&model->rng, 4)]);
    scheduler_place place = {.client = 0, .ticket = TICKETS + model->placings++};
    model->groups[index] = ++model->next_group;
    assert_int_equal(scheduler_group_add(model->scheduler, model->groups[index], bundles, count, &place), MR_OK);
}

static void change_ticket(model *model, uint64_t client, uint64_t ticket) {
    static const char *const needs[] = {"cpu=1", "cpu=0.5", "gpu=1", "cpu=2", ""};
    resources need = scheduler_fixture_amount(needs[rng_below(&model->rng, 5)]);
    switch (model->tickets[client][ticket].state) {
    case UNUSED:
        if (rng_chance(&model->rng, 0.7)) need.group = model->groups[rng_below(&model->rng, GROUPS)];
        if (need.group != 0) need.bundle = (uint32_t)rng_below(&model->rng, 4);
        if (need.group != 0 && scheduler_group_fits(model->scheduler, &need) != MR_OK) return;
        model->tickets[client][ticket].state = WAITING;
        model->tickets[client][ticket].group = need.group;
        scheduler_request(model->scheduler, client, ticket, &need);
        return;
    case WAITING: scheduler_cancel(model->scheduler, client, ticket); break;
    case LEASED: {
        mr_status status = scheduler_release(model->scheduler, client, model->tickets[client][ticket].lease,
                                             rng_chance(&model->rng, 0.9));
        assert_true(status == MR_OK || status == MR_NOT_FOUND); /* evicted; the client is not informed yet */
        break;
    }
    }
    model->tickets[client][ticket].state = UNUSED;
}

static void lose_worker(model *model, uint64_t worker) {
    scheduler_worker_gone(model->scheduler, worker);
    for (size_t c = 0; c < CLIENTS; c++)
        for (size_t t = 0; t < TICKETS; t++)
            if (model->tickets[c][t].state == LEASED && model->tickets[c][t].worker == worker)
                model->tickets[c][t].state = UNUSED;
}

static void give_back(model *model, const scheduler_decision *asked) {
    for (size_t t = 0; t < TICKETS; t++)
        if (model->tickets[asked->client][t].state == LEASED && model->tickets[asked->client][t].lease == asked->lease)
            change_ticket(model, asked->client, t);
}

static void take_decisions(model *model) {
    scheduler_decision decision;
    while (scheduler_next(model->scheduler, &decision)) {
        scheduler_check(model->scheduler);
        if (decision.verb == SCHEDULER_SPAWN)
            scheduler_worker_add(model->scheduler, model->next_worker++, SCHEDULER_FIXTURE_PROGRAM);
        if (decision.verb == SCHEDULER_RECLAIM) give_back(model, &decision);
        if (decision.verb == SCHEDULER_PLACED) model->placed++;
        if (decision.verb == SCHEDULER_END) {
            model->evicted += decision.evicted;
            lose_worker(model, decision.worker);
        }
        if (decision.verb != SCHEDULER_GRANT && decision.verb != SCHEDULER_REFUSE) continue;
        if (decision.ticket >= TICKETS) continue; /* request of a group that was removed before its placement */
        assert_int_equal(model->tickets[decision.client][decision.ticket].state, WAITING);
        model->refused += decision.verb == SCHEDULER_REFUSE;
        model->tickets[decision.client][decision.ticket].state = decision.verb == SCHEDULER_GRANT ? LEASED : UNUSED;
        model->tickets[decision.client][decision.ticket].lease = decision.lease;
        model->tickets[decision.client][decision.ticket].worker = decision.worker;
    }
}

static void chance_breaks_no_rule(void **state) {
    static model model;
    model.scheduler = scheduler_fixture_machine("cpu=6,gpu=2", 0);
    model.next_worker = 100;
    rng_init(&model.rng, 11);
    for (uint64_t i = 0; i < CLIENTS; i++) scheduler_client_add(model.scheduler, i, SCHEDULER_FIXTURE_PROGRAM);
    for (int i = 0; i < STEPS; i++) {
        uint64_t what = rng_below(&model.rng, 100), worker = 100 + rng_below(&model.rng, model.next_worker - 99);
        if (what < 20) change_group(&model);
        if (what >= 20 && what < 85)
            change_ticket(&model, rng_below(&model.rng, CLIENTS), rng_below(&model.rng, TICKETS));
        if (what >= 85 && what < 97) scheduler_block(model.scheduler, worker, rng_chance(&model.rng, 0.4));
        if (what >= 97) lose_worker(&model, worker);
        scheduler_check(model.scheduler);
        if (rng_chance(&model.rng, 0.7)) take_decisions(&model);
    }
    assert_true(model.placed > STEPS / 50 && model.refused > STEPS / 200 && model.evicted > STEPS / 200);
    for (size_t i = 0; i < GROUPS; i++) drop_group(&model, i);
    for (uint64_t i = 0; i < CLIENTS; i++) scheduler_client_gone(model.scheduler, i);
    take_decisions(&model);
    for (uint64_t worker = 100; worker < model.next_worker; worker++) scheduler_worker_gone(model.scheduler, worker);
    assert_int_equal(scheduler_fixture_free_milli(model.scheduler, "cpu"), 6000);
    assert_int_equal(scheduler_fixture_free_milli(model.scheduler, "gpu"), 2000);
    scheduler_destroy(model.scheduler);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_set_aside_as_a_whole),
        cmocka_unit_test(requests_are_met_from_their_bundle),
        cmocka_unit_test(a_bundle_that_another_has_is_asked_for),
        cmocka_unit_test(workers_of_a_group_end_with_it),
        cmocka_unit_test(needs_that_no_bundle_has_are_told),
        cmocka_unit_test(apart_is_never_on_one_machine),
        cmocka_unit_test(a_group_does_not_starve),
        cmocka_unit_test(chance_breaks_no_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
