/* ps_misuse_test.c — a worker's connection: what cannot be is said in words, nothing hangs, threads share it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/ps_world.h"

enum { THREADS = 4, PUSHES = 200, SHORT_US = 300000 };

static ps_world begin(mr_ps_consistency consistency, uint32_t workers) {
    ps_world world = {.servers = 1, .workers = workers, .slots = 3, .copies = 1, .consistency = consistency};
    assert_true(ps_world_init(&world));
    assert_true(ps_world_start_scheduler(&world));
    ps_world_start_server(&world, 0);
    world.workers = 0; /* this process is all of them */
    return world;
}

static mr_ps *connect_to(const ps_world *world, int rank) {
    mr_ps *ps = NULL;
    mr_status status = mr_ps_connect(world->address, rank, PS_WORLD_PATIENCE_US, &ps);
    if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    assert_int_equal(status, MR_OK);
    return ps;
}

static uint64_t step_of(mr_ps *ps) {
    uint64_t step = 0;
    assert_int_equal(mr_ps_begin(ps, PS_WORLD_PATIENCE_US, &step), MR_OK);
    return step;
}

static void assert_said(const char *words) {
    if (strstr(mr_last_error(), words) == NULL) fprintf(stderr, "'%s' is not in: %s\n", words, mr_last_error());
    assert_non_null(strstr(mr_last_error(), words));
}

static void who_cannot_connect_is_told_why(void **state) {
    ps_world world = {.servers = 1, .workers = 1, .slots = 1, .copies = 1};
    mr_ps *ps = NULL;
    mr_ps_chart *chart = NULL;
    assert_int_equal(mr_ps_connect("nowhere", 0, 0, &ps), MR_INVALID);
    assert_int_equal(mr_ps_connect("tcp:127.0.0.1:1", -2, 0, &ps), MR_INVALID);
    assert_int_equal(mr_ps_connect("tcp:127.0.0.1:1", 0, -1, &ps), MR_INVALID);
    assert_true(ps_world_init(&world));
    assert_int_equal(mr_ps_connect(world.address, 0, SHORT_US, &ps), MR_TIMEOUT);
    assert_said("no scheduler answers at unix:");
    assert_int_equal(mr_ps_chart_get(world.address, SHORT_US, &chart), MR_TIMEOUT);
    assert_said("no scheduler answers at unix:");
    assert_true(ps_world_start_scheduler(&world));
    assert_int_equal(mr_ps_connect(world.address, 0, SHORT_US, &ps), MR_TIMEOUT);
    assert_said("waits for servers");
    assert_int_equal(mr_ps_chart_get(world.address, PS_WORLD_PATIENCE_US, &chart), MR_OK);
    assert_int_equal(chart->number, 0);
    mr_ps_chart_free(chart);
    ps_world_start_server(&world, 0);
    assert_int_equal(mr_ps_connect(world.address, 1, PS_WORLD_PATIENCE_US, &ps), MR_NOT_FOUND);
    assert_said("there is no rank 1");
    assert_null(ps);
    assert_true(ps_world_fini(&world));
}

static void roles_check_their_options(void **state) {
    static const mr_ps_scheduler_options good = {
        .listen = "unix:/nowhere/at/all", .folder = "/proc/nothing", .workers = 1, .servers = 1};
    mr_ps_scheduler_options bad = good;
    bad.folder = NULL;
    assert_int_equal(mr_ps_run_scheduler(&bad), MR_INVALID);
    assert_said("folder");
    bad = good;
    bad.copies = 2;
    assert_int_equal(mr_ps_run_scheduler(&bad), MR_INVALID);
    assert_said("copies");
    bad = good;
    bad.slots = 1 << 20;
    assert_int_equal(mr_ps_run_scheduler(&bad), MR_INVALID);
    assert_said("slots");
    bad = good;
    bad.listen = "tcp:1.2.3.4:0";
    assert_int_not_equal(mr_ps_run_scheduler(&bad), MR_OK);
    assert_int_equal(mr_ps_run_server(&(mr_ps_server_options){.scheduler = "nowhere"}), MR_INVALID);
    assert_int_equal(mr_ps_run_server(&(mr_ps_server_options){.scheduler = "unix:/x", .number = 1 << 20}), MR_INVALID);
}

static void requests_are_checked(void **state) {
    ps_world world = begin(MR_PS_BSP, 1);
    mr_ps *ps = connect_to(&world, MR_PS_ANY_RANK);
    float values[4] = {1, 2, 3, 4};
    mr_ps_ticket ticket;
    mr_ps_info info;
    mr_ps_info_get(ps, &info);
    assert_true(info.rank == 0 && info.ranks == 1 && info.slots == 3 && info.servers == 1 && info.copies == 1);
    assert_int_equal(mr_ps_push(ps, 0, values, 4, &ticket), MR_STALE);
    assert_said("no step is open");
    assert_int_equal(mr_ps_end(ps), MR_STALE);
    assert_int_equal(step_of(ps), 0);
    assert_int_equal(step_of(ps), 0);
    assert_int_equal(mr_ps_push(ps, 3, values, 4, &ticket), MR_INVALID);
    assert_said("there is no slot 3");
    assert_int_equal(mr_ps_push(ps, 0, values, 0, &ticket), MR_INVALID);
    assert_int_equal(mr_ps_push(ps, 0, values, SIZE_MAX, &ticket), MR_INVALID);
    assert_int_equal(mr_ps_pull(ps, 0, values, MR_PS_FLOATS_MAX + 1, &ticket), MR_INVALID);
    assert_int_equal(mr_ps_push(ps, 0, values, 4, &ticket), MR_OK);
    assert_int_equal(mr_ps_push(ps, 0, values, 4, &ticket), MR_EXISTS);
    assert_int_equal(mr_ps_end(ps), MR_OK);
    assert_int_equal(mr_ps_settle(ps, PS_WORLD_PATIENCE_US), MR_OK);
    assert_int_equal(mr_ps_wait(ps, ticket, 0), MR_OK);
    assert_int_equal(mr_ps_wait(ps, ticket, 0), MR_NOT_FOUND);
    assert_int_equal(step_of(ps), 1);
    float shown[6] = {9, 9, 9, 9, 9, 9};
    assert_int_equal(mr_ps_pull(ps, 0, shown, 6, NULL), MR_OK);
    assert_memory_equal(shown, ((const float[]){1, 2, 3, 4, 0, 0}), sizeof shown);
    mr_ps_close(ps);
    mr_ps_close(NULL);
    assert_true(ps_world_fini(&world));
}

/* Of two ranks one never comes. */
static void nothing_waits_for_ever(void **state) {
    ps_world world = begin(MR_PS_BSP, 2);
    mr_ps *ps = connect_to(&world, 0);
    const float value = 1;
    mr_ps_ticket ticket;
    uint64_t step;
    assert_int_equal(step_of(ps), 0);
    assert_int_equal(mr_ps_push(ps, 0, &value, 1, &ticket), MR_OK);
    assert_int_equal(mr_ps_end(ps), MR_OK);
    assert_int_equal(mr_ps_wait(ps, ticket, SHORT_US), MR_TIMEOUT);
    assert_said("is under way");
    assert_int_equal(mr_ps_begin(ps, SHORT_US, &step), MR_TIMEOUT);
    assert_said("step 1 cannot begin");
    assert_int_equal(mr_ps_settle(ps, SHORT_US), MR_TIMEOUT);
    assert_said("are not acknowledged");
    mr_ps_close(ps);
    assert_true(ps_world_fini(&world));
}

static void a_rank_is_played_by_the_last_who_came(void **state) {
    ps_world world = begin(MR_PS_BSP, 1);
    mr_ps *first = connect_to(&world, 0), *second = connect_to(&world, 0);
    uint64_t step;
    assert_int_equal(step_of(second), 0);
    assert_int_equal(mr_ps_begin(first, PS_WORLD_PATIENCE_US, &step), MR_EXISTS);
    assert_said("another process plays rank 0");
    mr_ps_close(first);
    mr_ps_close(second);
    assert_true(ps_world_fini(&world));
}

/* What nobody waits for arrives all the same, and is seen by another. */
static void pushes_arrive_while_their_program_does_other_things(void **state) {
    ps_world world = begin(MR_PS_ASP, 2);
    mr_ps *one = connect_to(&world, 0), *other = connect_to(&world, 1);
    mr_ps_ticket ticket;
    float pushed = 3, shown = 0;
    assert_int_equal(step_of(one), 0);
    assert_int_equal(step_of(other), 0);
    assert_int_equal(mr_ps_push(one, 1, &pushed, 1, &ticket), MR_OK);
    while (shown == 0) assert_int_equal(mr_ps_pull(other, 1, &shown, 1, NULL), MR_OK);
    assert_true(shown == 3);
    mr_ps_close(one); /* without waiting */
    mr_ps_close(other);
    assert_true(ps_world_fini(&world));
}

typedef struct task {
    mr_ps *ps;
    uint32_t slot;
    mr_status status;
} task;

static void *push_and_wait(void *argument) {
    task *task = argument;
    const float one = 1;
    float shown;
    for (int i = 0; i < PUSHES && task->status == MR_OK; i++) {
        mr_ps_ticket ticket;
        task->status = mr_ps_push(task->ps, task->slot, &one, 1, &ticket);
        if (task->status == MR_OK) task->status = mr_ps_wait(task->ps, ticket, PS_WORLD_PATIENCE_US);
        if (task->status == MR_OK) task->status = mr_ps_pull(task->ps, task->slot, &shown, 1, NULL);
    }
    return NULL;
}

static void threads_share_a_connection(void **state) {
    ps_world world = begin(MR_PS_ASP, 1);
    mr_ps *ps = connect_to(&world, 0);
    pthread_t threads[THREADS];
    task tasks[THREADS];
    assert_int_equal(step_of(ps), 0);
    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (task){ps, (uint32_t)i % 2, MR_OK};
        assert_int_equal(pthread_create(&threads[i], NULL, push_and_wait, &tasks[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) assert_int_equal(tasks[i].status, MR_OK);
    for (uint32_t slot = 0; slot < 2; slot++) {
        float sum = 0;
        assert_int_equal(mr_ps_pull(ps, slot, &sum, 1, NULL), MR_OK);
        assert_true(sum == THREADS / 2 * PUSHES);
    }
    mr_ps_close(ps);
    assert_true(ps_world_fini(&world));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_cannot_connect_is_told_why),
        cmocka_unit_test(roles_check_their_options),
        cmocka_unit_test(requests_are_checked),
        cmocka_unit_test(nothing_waits_for_ever),
        cmocka_unit_test(a_rank_is_played_by_the_last_who_came),
        cmocka_unit_test(pushes_arrive_while_their_program_does_other_things),
        cmocka_unit_test(threads_share_a_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
