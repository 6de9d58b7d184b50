/* scheduler_random_test.c — random operations under all rules of scheduler.h, compared with a simple model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tests/support/sanitized.h"
#include "tests/support/scheduler_fixture.h"

enum { CLIENTS = 5, TICKETS = 40, WORKERS_MAX = 400, STEPS = SANITIZED ? 12000 : 60000 };

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
    uint32_t spent; /* workers that will end */
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

/* A worker that will end, ends now (before END) or at END. */
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
        scheduler_fixture_ask(model->scheduler, client, ticket, needs[rng_below(&model->rng, 7)]);
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
            scheduler_spawn_failed(model->scheduler, SCHEDULER_FIXTURE_PROGRAM);
        } else {
            scheduler_worker_add(model->scheduler, model->next_worker, SCHEDULER_FIXTURE_PROGRAM);
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
        scheduler_client_add(model->scheduler, client, SCHEDULER_FIXTURE_PROGRAM);
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
    model.scheduler = scheduler_fixture_machine("cpu=4,gpu=2", 2);
    model.next_worker = 100;
    rng_init(&model.rng, 7);
    for (uint64_t i = 0; i < CLIENTS; i++) scheduler_client_add(model.scheduler, i, SCHEDULER_FIXTURE_PROGRAM);
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
        uint32_t stuck = 0; /* blocked workers without a lease */
        for (size_t w = 0; w < model.worker_count; w++)
            stuck += model.blocked[w] && !is_leased(&model, model.workers[w]);
        assert_int_equal(stats.idle, model.worker_count - leased - stuck);
    }
    assert_true(model.grants > STEPS / 100 && model.reclaims > 10 && model.ends > 10);
    scheduler_destroy(model.scheduler);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chance_breaks_no_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
