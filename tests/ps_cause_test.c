/* ps_cause_test.c — errors of waits that time out name the cause: ranks that others wait for, processes that are gone;
 * and the next step. Stalls are in ps_status_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

enum { SLOTS = 4, RANKS = 3, TEXT = 512 };
#define SLICE_US    INT64_C(200000)
#define LONG_US     INT64_C(1500000)
#define PATIENCE_US PS_FIXTURE_PATIENCE_US

static const uint64_t key = 7;
static const float one = 1;

static void start(ps_fixture *fixture) {
    assert_true(ps_fixture_init(fixture));
    assert_true(ps_fixture_start_scheduler(fixture));
    for (uint32_t i = 0; i < fixture->servers; i++) ps_fixture_start_server(fixture, i);
}

static mr_ps_table *rows_of(mr_ps *ps) {
    mr_ps_table *table;
    must(mr_ps_table_create(ps, "rows", &MR_OPTIONS(mr_ps_table_options, .dim = 1), PATIENCE_US, &table));
    return table;
}

static bool lacks(const char *words) { return strstr(mr_last_error(), words) == NULL; }

static void assert_more(const ps_fixture *fixture) {
    char command[TEXT];
    snprintf(command, sizeof command, "`miniray ps status --scheduler %s` shows more", fixture->address);
    assert_said(command);
}

/* Repeats a wait until its error has the words: the scheduler learns a step within PROCESS_STATE_US. */
#define WAIT_UNTIL_SAID(wait, words)         \
    do assert_int_equal((wait), MR_TIMEOUT); \
    while (lacks(words))

static void ranks_that_others_wait_for_are_named(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = RANKS, .slots = SLOTS, .copies = 1, .consistency = MR_PS_BSP};
    uint64_t step;
    mr_ps_ticket ticket;
    start(&fixture);
    mr_ps *ps = ps_fixture_connect(&fixture, 0), *other = ps_fixture_connect(&fixture, 1);
    mr_ps_table *table = rows_of(ps);
    must(mr_ps_begin(ps, PATIENCE_US, &step));
    must(mr_ps_push(table, &key, 1, &one, NULL, NULL, &ticket));
    assert_int_equal(mr_ps_wait(ps, ticket, LONG_US), MR_TIMEOUT);
    assert_said(
        "timed out after 1.5 s: push to table 'rows' is not done: pushes of a round are sent when the step ends; `");
    must(mr_ps_end(ps));
    WAIT_UNTIL_SAID(mr_ps_wait(ps, ticket, LONG_US), "rank 1 has not ended step 0, while this rank is at step 1");
    assert_said("push to table 'rows' is not done: ");
    assert_said("; no process holds rank 2, and rank 1 has");
    WAIT_UNTIL_SAID(mr_ps_begin(ps, LONG_US, &step), "no process holds rank 2, and rank 1 has not ended step 0");
    assert_more(&fixture);
    assert_int_equal(mr_ps_barrier(ps, "b", MR_PS_WORKERS, LONG_US), MR_TIMEOUT);
    assert_said(
        "timed out after 1.5 s: barrier 'b': ranks 1, 2 have not arrived; no process holds rank 2, and rank 1 has");

    assert_int_equal(mr_ps_begin(ps, SLICE_US, &step), MR_TIMEOUT); /* a slice of a longer wait asks nobody */
    assert_true(lacks("rank 1") && lacks("timed out"));
    mr_ps_explain(ps, 7 * SLICE_US);
    assert_said("timed out after 1.4 s: step 1 cannot begin: ");
    assert_said("; no process holds rank 2, and rank 1 has not ended step 0");
    assert_more(&fixture);
    mr_ps_table_free(table);
    mr_ps_close(other);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

/* Without rounds no rank waits for another, except at a barrier. */
static void ranks_that_nobody_waits_for_are_not_named(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = RANKS, .slots = SLOTS, .copies = 1, .consistency = MR_PS_ASP};
    float value;
    mr_ps_ticket ticket;
    start(&fixture);
    mr_ps *ps = ps_fixture_connect(&fixture, 0);
    mr_ps_table *table = rows_of(ps);
    assert_int_equal(mr_ps_barrier(ps, "b", MR_PS_WORKERS, LONG_US), MR_TIMEOUT);
    assert_said("; no process holds ranks 1 and 2; ");
    ps_fixture_kill(&fixture, &fixture.server[0]);
    must(mr_ps_pull(table, &key, 1, &value, NULL, NULL, &ticket));
    assert_int_equal(mr_ps_wait(ps, ticket, LONG_US), MR_TIMEOUT);
    assert_said("pull from table 'rows' is not done: 1 message has not been answered; server");
    assert_true(lacks("holds rank"));
    mr_ps_table_free(table);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

static void processes_that_are_gone_are_named(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 1, .slots = SLOTS, .copies = 1, .consistency = MR_PS_ASP};
    char gone[TEXT];
    uint64_t keys[SLOTS * SLOTS];
    float values[SLOTS * SLOTS];
    mr_ps_ticket ticket;
    mr_ps_table *other;
    start(&fixture);
    mr_ps *ps = ps_fixture_connect(&fixture, 0);
    mr_ps_table *table = rows_of(ps);
    for (uint64_t i = 0; i < SLOTS * SLOTS; i++) keys[i] = i;
    must(mr_ps_pull(table, keys, SLOTS * SLOTS, values, NULL, NULL, NULL));
    ps_fixture_kill(&fixture, &fixture.scheduler);
    snprintf(gone, sizeof gone, "the scheduler is gone (cannot connect to %s: Connection refused)", fixture.address);
    WAIT_UNTIL_SAID(mr_ps_table_create(ps, "other", NULL, LONG_US, &other), gone);
    assert_said("; what waits for it continues when it is started again");
    assert_int_equal(mr_ps_barrier(ps, "b", MR_PS_WORKERS, SLICE_US), MR_TIMEOUT); /* known without a question */
    assert_said(gone);
    for (uint32_t i = 0; i < 2; i++) ps_fixture_kill(&fixture, &fixture.server[i]);
    must(mr_ps_pull(table, keys, SLOTS * SLOTS, values, NULL, NULL, &ticket));
    WAIT_UNTIL_SAID(mr_ps_wait(ps, ticket, LONG_US),
                    ", and servers 0 and 1 are gone; what waits for them continues when they are");
    assert_said("pull from table 'rows' is not done: ");
    assert_said(gone);
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    assert_int_equal(mr_ps_wait(ps, ticket, PATIENCE_US), MR_STALE); /* there is no checkpoint */
    mr_ps_table_free(table);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_others_wait_for_are_named),
        cmocka_unit_test(ranks_that_nobody_waits_for_are_not_named),
        cmocka_unit_test(processes_that_are_gone_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
