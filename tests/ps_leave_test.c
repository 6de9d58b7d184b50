/* ps_leave_test.c — ranks that leave and return, as processes, with every consistency: no rank waits for one that has
 * left, and each push is counted once. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/test_child.h"

enum { LEFT = 2 }; /* index of the number of ranks that have left */
enum { FIRST = 5, ALONE = 40, TOGETHER = 5, PATIENCE_MS = 60000 };

/* Arguments of a rank. The memory that the fixture shares with its workers (ps_fixture.h) has, by rank, the steps that
 * have counted. */
typedef struct part {
    ps_fixture *fixture;
    uint32_t rank;
    uint64_t steps;    /* least number of steps of this process */
    uint64_t left;     /* the rank continues until this many ranks have left, since they need it for their last round */
    bool leaves, dies; /* dies: ends without a message after it has left */
} part;

/* Two tables with the same pushes; in a mixed deployment the second one has no rounds. */
static mr_status open_sums(const part *part, mr_ps *ps, mr_ps_table *sums[2]) {
    mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = 1);
    MR_TRY(mr_ps_table_create(ps, "sum", &options, PS_FIXTURE_PATIENCE_US, &sums[0]));
    if (part->fixture->mixed) options.consistency = "ssp:1";
    return mr_ps_table_create(ps, "other", &options, PS_FIXTURE_PATIENCE_US, &sums[1]);
}

static bool goes_on(const part *part, uint64_t done) {
    return done < part->steps || __atomic_load_n(&part->fixture->progress[LEFT], __ATOMIC_ACQUIRE) < part->left;
}

/* Pulls, and adds one, in each step. */
static mr_status train(const part *part, mr_ps *ps, mr_ps_table *sums[2]) {
    const uint64_t key = 7;
    const float one = 1;
    float value;
    for (uint64_t done = 0, step; goes_on(part, done); done++) {
        mr_ps_ticket tickets[2];
        MR_TRY(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
        for (int i = 0; i < 2; i++) MR_TRY(mr_ps_pull(sums[i], &key, 1, &value, NULL, NULL, NULL));
        for (int i = 0; i < 2; i++) MR_TRY(mr_ps_push(sums[i], &key, 1, &one, NULL, NULL, &tickets[i]));
        MR_TRY(mr_ps_end(ps));
        for (int i = 0; i < 2; i++) MR_TRY(mr_ps_wait(ps, tickets[i], PS_FIXTURE_PATIENCE_US));
        __atomic_fetch_add(&part->fixture->progress[part->rank], 1, __ATOMIC_RELEASE);
    }
    return MR_OK;
}

static int work(void *argument) {
    const part *part = argument;
    mr_ps *ps;
    mr_ps_table *sums[2];
    TEST_CHILD_CHECK(mr_ps_connect(part->fixture->address, (int)part->rank, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK);
    TEST_CHILD_CHECK(open_sums(part, ps, sums) == MR_OK);
    mr_status status = train(part, ps, sums);
    if (status != MR_OK) fprintf(stderr, "rank %u: %s\n", part->rank, mr_last_error());
    TEST_CHILD_CHECK(status == MR_OK);
    if (part->leaves) status = mr_ps_leave(ps, PS_FIXTURE_PATIENCE_US);
    if (status != MR_OK) fprintf(stderr, "rank %u cannot leave: %s\n", part->rank, mr_last_error());
    TEST_CHILD_CHECK(status == MR_OK);
    if (part->leaves) TEST_CHILD_CHECK(mr_ps_leave(ps, PS_FIXTURE_PATIENCE_US) == MR_OK); /* the rank has left */
    if (part->leaves) __atomic_fetch_add(&part->fixture->progress[LEFT], 1, __ATOMIC_RELEASE);
    if (part->dies) kill(getpid(), SIGKILL);
    for (int i = 0; i < 2; i++) mr_ps_table_free(sums[i]);
    mr_ps_close(ps);
    return 0;
}

/* Run by the last process: checks the values, and that this rank may not leave within a step. The last rank may not
 * leave the rounds. */
static int look(void *argument) {
    const part *part = argument;
    mr_ps *ps;
    mr_ps_table *sums[2];
    uint64_t step;
    const uint64_t key = 7, *done = part->fixture->progress;
    const bool rounds = part->fixture->consistency == MR_PS_BSP;
    float value = 0;
    TEST_CHILD_CHECK(mr_ps_connect(part->fixture->address, (int)part->rank, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK);
    TEST_CHILD_CHECK(open_sums(part, ps, sums) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_leave(ps, MR_FOREVER) == (rounds ? MR_DENIED : MR_OK));
    TEST_CHILD_CHECK(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_leave(ps, PS_FIXTURE_PATIENCE_US) == MR_DENIED); /* a step is open */
    for (int i = 0; i < 2; i++) {
        TEST_CHILD_CHECK(mr_ps_pull(sums[i], &key, 1, &value, NULL, NULL, NULL) == MR_OK);
        if (value != (float)(done[0] + done[1]))
            fprintf(stderr, "%g of %d and %d\n", value, (int)done[0], (int)done[1]);
        TEST_CHILD_CHECK(value == (float)(done[0] + done[1]));
    }
    for (int i = 0; i < 2; i++) mr_ps_table_free(sums[i]);
    mr_ps_close(ps);
    return 0;
}

static void begin(ps_fixture *fixture) {
    assert_true(ps_fixture_init(fixture));
    assert_true(ps_fixture_start_scheduler(fixture));
    for (uint32_t i = 0; i < fixture->servers; i++) ps_fixture_start_server(fixture, i);
}

static void leave_and_come_back(mr_ps_consistency consistency, bool mixed) {
    ps_fixture fixture = {
        .servers = 2, .workers = 2, .slots = 4, .copies = 2, .consistency = consistency, .mixed = mixed};
    begin(&fixture);
    part stays = {.fixture = &fixture, .rank = 0, .steps = ALONE, .left = 2};
    part goes = {.fixture = &fixture, .rank = 1, .steps = FIRST, .leaves = true, .dies = true};
    part back = {.fixture = &fixture, .rank = 1, .steps = TOGETHER, .leaves = true};
    fixture.worker[0] = test_child_start(work, &stays);
    assert_int_equal(test_child_run(work, &goes, PATIENCE_MS), -SIGKILL);
    fixture.killed++;
    int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US;
    while (__atomic_load_n(&fixture.progress[0], __ATOMIC_ACQUIRE) < ALONE) {
        assert_true(clock_now_us(clock_real()) < until_us); /* no rank waits for ranks that have left */
        usleep(2000);
    }
    assert_int_equal(test_child_run(work, &back, PATIENCE_MS), 0);
    assert_int_equal(test_child_wait(fixture.worker[0], PATIENCE_MS), 0);
    fixture.worker[0] = 0;
    assert_int_equal(fixture.progress[1], FIRST + TOGETHER);
    assert_int_equal(test_child_run(look, &stays, PATIENCE_MS), 0);
    assert_true(ps_fixture_fini(&fixture));
}

static void ranks_leave_the_rounds_and_come_back(void **state) { leave_and_come_back(MR_PS_BSP, false); }
static void ranks_leave_with_a_bound_and_come_back(void **state) { leave_and_come_back(MR_PS_SSP, false); }
static void ranks_leave_without_a_bound_and_come_back(void **state) { leave_and_come_back(MR_PS_ASP, false); }
static void ranks_leave_a_mixed_deployment_and_come_back(void **state) { leave_and_come_back(MR_PS_BSP, true); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_leave_the_rounds_and_come_back),
        cmocka_unit_test(ranks_leave_with_a_bound_and_come_back),
        cmocka_unit_test(ranks_leave_without_a_bound_and_come_back),
        cmocka_unit_test(ranks_leave_a_mixed_deployment_and_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
