/* ps_stop_test.c — what a worker is told when its parameter server ends: requests of a deployment that was stopped
 * fail at once, and continue when it is started again; killed processes, and a scheduler that is stopped alone, end
 * nothing. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

enum { SLOTS = 4, SERVERS = 2, TEXT = 512 };
#define A_WHILE_US  INT64_C(1000000)
#define PATIENCE_US PS_FIXTURE_PATIENCE_US

typedef struct world {
    ps_fixture fixture;
    mr_ps *ps;
    mr_ps_table *table;
} world;

static const uint64_t key = 7;

static int setup(void **state) {
    static world world;
    world.fixture =
        (ps_fixture){.servers = SERVERS, .workers = 2, .slots = SLOTS, .copies = 1, .consistency = MR_PS_ASP};
    *state = &world;
    if (!ps_fixture_init(&world.fixture) || !ps_fixture_start_scheduler(&world.fixture)) return -1;
    for (uint32_t i = 0; i < SERVERS; i++) ps_fixture_start_server(&world.fixture, i);
    world.ps = ps_fixture_connect(&world.fixture, 0);
    const float one = 1;
    must(mr_ps_table_create(world.ps, "rows", &MR_OPTIONS(mr_ps_table_options, .dim = 1), PATIENCE_US, &world.table));
    must(mr_ps_push(world.table, &key, 1, &one, NULL, NULL, NULL));
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    mr_ps_table_free(world->table);
    mr_ps_close(world->ps);
    return ps_fixture_fini(&world->fixture) ? 0 : -1;
}

static void start(ps_fixture *fixture) {
    assert_true(ps_fixture_start_scheduler(fixture));
    for (uint32_t i = 0; i < SERVERS; i++) ps_fixture_start_server(fixture, i);
}

static void kill_servers(ps_fixture *fixture) {
    for (uint32_t i = 0; i < SERVERS; i++) ps_fixture_kill(fixture, &fixture->server[i]);
}

static float pulled(const world *world) {
    float value = -1;
    must(mr_ps_pull(world->table, &key, 1, &value, NULL, NULL, NULL));
    return value;
}

/* ---- A call that waits while something happens. */

typedef struct waiter {
    world *world;
    pthread_t thread;
    mr_status (*call)(world *world);
    mr_status status;
    char text[TEXT];
} waiter;

static mr_status wait_at_barrier(world *world) { return mr_ps_barrier(world->ps, "b", MR_PS_WORKERS, PATIENCE_US); }

/* The tables cannot be saved while one server of two is gone. */
static mr_status make_checkpoint(world *world) {
    uint64_t number;
    return mr_ps_checkpoint(world->fixture.address, PATIENCE_US, &number);
}

static void *wait(void *argument) {
    waiter *waiter = argument;
    waiter->status = waiter->call(waiter->world);
    snprintf(waiter->text, sizeof waiter->text, "%s", mr_last_error());
    return NULL;
}

static void begin_to_wait(waiter *waiter) { assert_int_equal(pthread_create(&waiter->thread, NULL, wait, waiter), 0); }

static void has(const char *text, const char *words) {
    if (strstr(text, words) == NULL) fprintf(stderr, "no '%s' in: %s\n", words, text);
    assert_non_null(strstr(text, words));
}

static void assert_ended(const world *world, const char *text, pid_t scheduler) {
    char expected[TEXT];
    snprintf(expected, sizeof expected,
             "the parameter server at %s has ended: its scheduler (process %d) was stopped by SIGTERM",
             world->fixture.address, (int)scheduler);
    has(text, expected);
    has(text, "start it again");
}

/* ---- Tests. */

static void requests_of_a_stopped_deployment_fail_at_once(void **state) {
    world *world = *state;
    ps_fixture *fixture = &world->fixture;
    const int64_t since_us = clock_now_us(clock_real());
    const float one = 1;
    float value;
    mr_ps_table *other;
    pid_t scheduler = fixture->scheduler;
    waiter waiter = {.world = world, .call = wait_at_barrier};
    begin_to_wait(&waiter);
    assert_true(ps_fixture_terminate(&fixture->scheduler));
    kill_servers(fixture);
    assert_int_equal(pthread_join(waiter.thread, NULL), 0);
    assert_int_equal(waiter.status, MR_PEER_DIED);
    assert_ended(world, waiter.text, scheduler);
    has(waiter.text, "barrier 'b' failed: the parameter server");
    has(waiter.text, "checkpoint ");
    const mr_status later[] = {mr_ps_pull(world->table, &key, 1, &value, NULL, NULL, NULL),
                               mr_ps_push(world->table, &key, 1, &one, NULL, NULL, NULL),
                               mr_ps_flush(world->ps, PATIENCE_US),
                               mr_ps_barrier(world->ps, "b", MR_PS_WORKERS, PATIENCE_US),
                               mr_ps_table_create(world->ps, "other", NULL, PATIENCE_US, &other)};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) assert_int_equal(later[i], MR_PEER_DIED);
    assert_ended(world, mr_last_error(), scheduler);
    has(mr_last_error(), "creating table 'other' failed: ");
    assert_true(clock_now_us(clock_real()) - since_us < PATIENCE_US / 2);

    start(fixture); /* the same connection goes on, as soon as it has reached the new processes */
    mr_status status;
    while ((status = mr_ps_pull(world->table, &key, 1, &value, NULL, NULL, NULL)) == MR_PEER_DIED) usleep(10000);
    if (status == MR_STALE)
        value = pulled(world); /* it was under way when the next generation began */
    else
        assert_int_equal(status, MR_OK);
    assert_true(value == 1 || value == 2); /* whether the refused push was sent first, is not known */
}

static void note(void *context, mr_status status) { atomic_store((_Atomic int *)context, (int)status); }

/* A program that never waits hears of it, too, and its memory is free then. */
static void callbacks_of_a_stopped_deployment_are_called(void **state) {
    world *world = *state;
    _Atomic int called = MR_BUSY, answered = MR_BUSY;
    const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .done = note, .context = &called);
    float *value = malloc(sizeof *value);
    mr_ps_ticket ticket;
    for (uint32_t i = 0; i < SERVERS; i++) kill(world->fixture.server[i], SIGSTOP);
    must(mr_ps_pull(world->table, &key, 1, value, NULL, &options, &ticket));
    must(mr_ps_send(world->ps, (mr_ps_peer){MR_PS_WORKERS, 1}, 1, 7, "", 0, note, &answered, NULL));
    kill_servers(&world->fixture);
    assert_true(ps_fixture_terminate(&world->fixture.scheduler));
    for (int64_t us = 0; atomic_load(&called) == MR_BUSY || atomic_load(&answered) == MR_BUSY;
         us += 10000, usleep(10000))
        assert_true(us < PATIENCE_US / 2);
    assert_int_equal(atomic_load(&called), MR_PEER_DIED);
    assert_int_equal(atomic_load(&answered), MR_PEER_DIED);
    free(value);
    assert_int_equal(mr_ps_wait(world->ps, ticket, PATIENCE_US), MR_PEER_DIED);
    assert_int_equal(mr_ps_wait(world->ps, ticket, PATIENCE_US), MR_NOT_FOUND); /* it was abandoned */
    start(&world->fixture);
    mr_status status;
    float now;
    while ((status = mr_ps_pull(world->table, &key, 1, &now, NULL, NULL, NULL)) == MR_PEER_DIED) usleep(10000);
    assert_true(status == MR_OK || status == MR_STALE);
}

static void a_question_to_a_stopped_scheduler_fails_at_once(void **state) {
    world *world = *state;
    const int64_t since_us = clock_now_us(clock_real());
    pid_t scheduler = world->fixture.scheduler;
    waiter waiter = {.world = world, .call = make_checkpoint};
    ps_fixture_kill(&world->fixture, &world->fixture.server[0]);
    begin_to_wait(&waiter);
    usleep(A_WHILE_US / 2); /* the question has arrived, or is asked in vain: then it times out */
    assert_true(ps_fixture_terminate(&world->fixture.scheduler));
    assert_int_equal(pthread_join(waiter.thread, NULL), 0);
    assert_int_equal(waiter.status, MR_PEER_DIED);
    assert_ended(world, waiter.text, scheduler);
    assert_true(clock_now_us(clock_real()) - since_us < PATIENCE_US / 2);
}

static void killed_processes_may_come_back(void **state) {
    world *world = *state;
    uint64_t number;
    float value;
    mr_ps_ticket ticket;
    must(mr_ps_checkpoint(world->fixture.address, PATIENCE_US, &number));
    kill_servers(&world->fixture);
    ps_fixture_kill(&world->fixture, &world->fixture.scheduler);
    must(mr_ps_pull(world->table, &key, 1, &value, NULL, NULL, &ticket));
    assert_int_equal(mr_ps_wait(world->ps, ticket, A_WHILE_US), MR_TIMEOUT);
    start(&world->fixture);
    assert_int_equal(mr_ps_wait(world->ps, ticket, PATIENCE_US), MR_STALE);
    assert_true(pulled(world) == 1);
}

static void a_scheduler_that_is_stopped_alone_ends_nothing(void **state) {
    world *world = *state;
    assert_true(ps_fixture_terminate(&world->fixture.scheduler));
    assert_true(pulled(world) == 1);
    assert_int_equal(mr_ps_barrier(world->ps, "b", MR_PS_WORKERS, A_WHILE_US), MR_TIMEOUT);
    has(mr_last_error(), "barrier 'b': ");
    has(mr_last_error(), "; the scheduler was stopped; what waits for it continues when it is started again");
    assert_true(pulled(world) == 1);
    assert_true(ps_fixture_start_scheduler(&world->fixture));
    mr_ps *other = ps_fixture_connect(&world->fixture, 1);
    struct world second = {.ps = other};
    waiter waiter = {.world = &second, .call = wait_at_barrier};
    begin_to_wait(&waiter);
    must(wait_at_barrier(world));
    assert_int_equal(pthread_join(waiter.thread, NULL), 0);
    assert_int_equal(waiter.status, MR_OK);
    mr_ps_close(other);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_WORLD(requests_of_a_stopped_deployment_fail_at_once),
        IN_WORLD(callbacks_of_a_stopped_deployment_are_called),
        IN_WORLD(a_question_to_a_stopped_scheduler_fails_at_once),
        IN_WORLD(killed_processes_may_come_back),
        IN_WORLD(a_scheduler_that_is_stopped_alone_ends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
