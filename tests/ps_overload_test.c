/* ps_overload_test.c — large arrays with two replicas on an overloaded machine: pushes and pulls complete, with the
 * right bits. The controller may suspect servers meanwhile; it gives them more time then (cluster/detector.h), and
 * nothing large is sent again before it is known to be lost.
 *
 * MINIRAY_PS_BUSY processes keep the machine busy meanwhile. (With 200 of them on two CPUs a push of 12 MB took up to
 * 73 s when states and pushes were sent again and again, and 11 to 16 s when a link moved 512 KB in each turn of its
 * two processes: docs/decisions/023-a-duct-beside-the-socket.md.) */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/test_child.h"

enum { SLOTS = 5, ITEMS = 3 << 20, ROUNDS = 3, BUSY = 16, BUSY_MAX = 512 };
#define LONG_US INT64_C(150000000)

typedef struct crowd_of_busy {
    pid_t pids[BUSY_MAX];
    int count;
} crowd_of_busy;

static int keep_busy(void *argument) {
    volatile uint64_t count = 0;
    for (;;) count++;
    return 0;
}

static void start_busy(crowd_of_busy *busy) {
    const char *text = getenv("MINIRAY_PS_BUSY");
    int wanted = text == NULL ? BUSY : atoi(text);
    for (busy->count = 0; busy->count < wanted && busy->count < BUSY_MAX; busy->count++)
        busy->pids[busy->count] = test_child_start(keep_busy, NULL);
}

static void end_busy(crowd_of_busy *busy) {
    while (busy->count > 0) {
        kill(busy->pids[--busy->count], SIGKILL);
        (void)test_child_wait(busy->pids[busy->count], 60000);
    }
}

static mr_status wait_for(mr_ps *ps, mr_ps_ticket ticket, const char *what) {
    int64_t from_us = clock_now_us(clock_real());
    mr_status status = mr_ps_wait(ps, ticket, LONG_US);
    if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    printf("    %s %.2f s\n", what, (double)(clock_now_us(clock_real()) - from_us) / 1e6);
    return status;
}

static void play(mr_ps *ps, mr_ps_table *table, const float *values, float *shown, float times) {
    uint64_t step;
    mr_ps_ticket ticket;
    assert_int_equal(mr_ps_begin(ps, LONG_US, &step), MR_OK);
    assert_int_equal(mr_ps_push_array(table, 0, values, 0, ITEMS, NULL, &ticket), MR_OK);
    assert_int_equal(wait_for(ps, ticket, "pushed after"), MR_OK);
    assert_int_equal(mr_ps_pull_array(table, 0, shown, 0, ITEMS, NULL, &ticket), MR_OK);
    assert_int_equal(wait_for(ps, ticket, "pulled after"), MR_OK);
    size_t wrong = 0;
    for (size_t i = 0; i < ITEMS; i++) wrong += shown[i] != times * values[i];
    assert_int_equal(wrong, 0);
    assert_int_equal(mr_ps_end(ps), MR_OK);
}

static void large_arrays_come_through(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 1, .slots = SLOTS, .copies = 2, .consistency = MR_PS_ASP};
    const mr_ps_array array = {.name = "w", .dims = 1, .shape = {ITEMS}};
    const mr_ps_table_options options =
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1);
    float *values = xcalloc(ITEMS, sizeof *values), *shown = xcalloc(ITEMS, sizeof *shown);
    crowd_of_busy busy;
    mr_ps *ps;
    mr_ps_table *table;
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < fixture.servers; i++) ps_fixture_start_server(&fixture, i);
    fixture.workers = 0; /* this process is the worker */
    assert_int_equal(mr_ps_connect(fixture.address, 0, PS_FIXTURE_PATIENCE_US, &ps), MR_OK);
    assert_int_equal(mr_ps_table_create(ps, "dense", &options, PS_FIXTURE_PATIENCE_US, &table), MR_OK);
    for (size_t i = 0; i < ITEMS; i++) values[i] = (float)(i % 1000);
    start_busy(&busy);
    for (int i = 1; i <= ROUNDS; i++) play(ps, table, values, shown, (float)i);
    end_busy(&busy);
    free(values);
    free(shown);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_arrays_come_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
