/* ps_unstepped_test.c — programs without steps: servers apply every push of every process of a rank exactly once, and
 * after a loss the next request of each connected worker returns MR_STALE, once. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

enum { PUSHES = 1000, DIM = 2, KEY = 7, SLOTS = 3, WAIT_MS = 60000 };

typedef struct client {
    mr_ps *ps;
    mr_ps_table *sums;
} client;

static client join(const ps_fixture *fixture) {
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = DIM);
    client client = {.ps = ps_fixture_connect(fixture, 0)};
    assert_non_null(client.ps);
    must(mr_ps_table_create(client.ps, "sums", &options, PS_FIXTURE_PATIENCE_US, &client.sums));
    return client;
}

static void leave(client *client) {
    must(mr_ps_flush(client->ps, PS_FIXTURE_PATIENCE_US));
    mr_ps_table_free(client->sums);
    mr_ps_close(client->ps);
}

static mr_status push(const client *client) {
    const uint64_t key = KEY;
    const float ones[DIM] = {1, 2};
    return mr_ps_push(client->sums, &key, 1, ones, NULL, NULL, NULL);
}

static mr_status pull(const client *client, float *out) {
    const uint64_t key = KEY;
    float values[DIM];
    MR_TRY(mr_ps_pull(client->sums, &key, 1, values, NULL, NULL, NULL));
    assert_true(values[1] == 2 * values[0]);
    *out = values[0];
    return MR_OK;
}

static void push_many(const client *client, int count) {
    for (int i = 0; i < count; i++) must(push(client));
}

static float sum(const client *client) {
    float found = -1;
    must(pull(client, &found));
    return found;
}

/* ---- Pushes of several processes of one rank. */

static int set_up(void **state) {
    static ps_fixture fixture;
    fixture = (ps_fixture){.servers = 1, .workers = 2, .slots = SLOTS, .copies = 1, .consistency = MR_PS_ASP};
    *state = &fixture;
    if (!ps_fixture_init(&fixture) || !ps_fixture_start_scheduler(&fixture)) return -1;
    ps_fixture_start_server(&fixture, 0);
    return 0;
}

static int tear_down(void **state) { return ps_fixture_fini(*state) ? 0 : -1; }

static void end_all(ps_fixture *fixture) {
    assert_true(ps_fixture_terminate(&fixture->server[0]));
    assert_true(ps_fixture_terminate(&fixture->scheduler));
}

static void start_all(ps_fixture *fixture) {
    assert_true(ps_fixture_start_scheduler(fixture));
    ps_fixture_start_server(fixture, 0);
}

static void pushes_after_a_restart_count(void **state) {
    ps_fixture *fixture = *state;
    uint64_t number;
    client client = join(fixture);
    push_many(&client, PUSHES);
    must(mr_ps_checkpoint(fixture->address, PS_FIXTURE_PATIENCE_US, &number));
    leave(&client);
    end_all(fixture);
    start_all(fixture);
    client = join(fixture);
    assert_true(sum(&client) == PUSHES); /* an end by SIGTERM loses nothing */
    push_many(&client, PUSHES);
    assert_true(sum(&client) == 2 * PUSHES);
    leave(&client);
}

static int push_and_die(void *address) {
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = DIM);
    client client;
    TEST_CHILD_CHECK(mr_ps_connect(address, 0, PS_FIXTURE_PATIENCE_US, &client.ps) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_table_create(client.ps, "sums", &options, PS_FIXTURE_PATIENCE_US, &client.sums) == MR_OK);
    for (int i = 0; i < PUSHES; i++) TEST_CHILD_CHECK(push(&client) == MR_OK);
    raise(SIGKILL);
    return 1;
}

static void a_rank_that_was_killed_is_followed_by_one_whose_pushes_count(void **state) {
    ps_fixture *fixture = *state;
    for (int turn = 1; turn <= 3; turn++) {
        pid_t pid = fork_server_start(&fixture->fork_server, push_and_die, fixture->address, sizeof fixture->address);
        assert_int_equal(test_child_wait(pid, WAIT_MS), -SIGKILL);
        fixture->killed++;
        client client = join(fixture);
        push_many(&client, PUSHES);
        assert_true(sum(&client) == turn * 2 * PUSHES);
        leave(&client);
    }
}

static void connections_one_after_the_other_add_up(void **state) {
    ps_fixture *fixture = *state;
    for (int turn = 1; turn <= 4; turn++) {
        client client = join(fixture);
        push_many(&client, turn % 2 == 0 ? PUSHES : 1);
        if (turn == 3) must(mr_ps_end(client.ps));
        push_many(&client, 1);
        leave(&client);
    }
    client client = join(fixture);
    assert_true(sum(&client) == 2 * PUSHES + 2 + 4);
    leave(&client);
}

/* A pull begins no step: a worker that pulls first still repeats the step in which an earlier process died. */
static void a_look_before_the_first_step_skips_nothing(void **state) {
    ps_fixture *fixture = *state;
    uint64_t step;
    client client = join(fixture);
    for (uint64_t i = 0; i < 3; i++) {
        must(mr_ps_begin(client.ps, PS_FIXTURE_PATIENCE_US, &step));
        assert_int_equal(step, i);
        push_many(&client, 2);
        if (i < 2) must(mr_ps_end(client.ps));
    }
    leave(&client); /* within step 2 */
    client = join(fixture);
    assert_true(sum(&client) == 6);
    must(mr_ps_begin(client.ps, PS_FIXTURE_PATIENCE_US, &step));
    assert_int_equal(step, 2);
    push_many(&client, 3); /* the servers already have two of these pushes */
    must(mr_ps_end(client.ps));
    assert_int_equal(push(&client), MR_STALE); /* a program with steps has to call mr_ps_begin */
    must(mr_ps_begin(client.ps, PS_FIXTURE_PATIENCE_US, &step));
    assert_int_equal(step, 3);
    assert_true(sum(&client) == 7);
    leave(&client);
    client = join(fixture);
    push_many(&client, 1); /* a program without steps repeats no push */
    assert_true(sum(&client) == 8);
    must(mr_ps_begin(client.ps, PS_FIXTURE_PATIENCE_US, &step));
    assert_int_equal(step, 3);
    leave(&client);
}

static void a_dropped_table_is_forgotten_without_steps(void **state) {
    ps_fixture *fixture = *state;
    client client = join(fixture);
    push_many(&client, 5);
    must(mr_ps_table_drop(client.sums, PS_FIXTURE_PATIENCE_US));
    mr_ps_table_free(client.sums);
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = DIM);
    must(mr_ps_table_create(client.ps, "sums", &options, PS_FIXTURE_PATIENCE_US, &client.sums));
    assert_true(sum(&client) == 0);
    push_many(&client, 1);
    assert_true(sum(&client) == 1);
    leave(&client);
}

/* ---- Losses. */

static void lose_the_server(ps_fixture *fixture) {
    assert_true(ps_fixture_full(fixture, 0, NULL));
    uint64_t generation = ps_fixture_generation(fixture);
    ps_fixture_kill(fixture, &fixture->server[0]);
    ps_fixture_start_server(fixture, 0);
    assert_true(ps_fixture_full(fixture, generation, NULL));
}

static void an_idle_program_is_told_of_a_loss_once(void **state) {
    ps_fixture *fixture = *state;
    client client = join(fixture), other = {.ps = ps_fixture_connect(fixture, 1)};
    float found;
    must(mr_ps_table_open(other.ps, "sums", PS_FIXTURE_PATIENCE_US, &other.sums));
    push_many(&client, 5);
    assert_true(sum(&other) == 5);
    lose_the_server(fixture);
    assert_int_equal(pull(&client, &found), MR_STALE);
    assert_said("acknowledged pushes are lost");
    assert_said("no checkpoint");
    assert_true(sum(&client) == 0);
    push_many(&client, 2);
    assert_true(sum(&client) == 2);
    assert_int_equal(push(&other), MR_STALE); /* the other connected worker gets MR_STALE, too */
    assert_said("no checkpoint");
    push_many(&other, 1);
    assert_true(sum(&other) == 3);
    leave(&client);
    leave(&other);
    client = join(fixture); /* a worker that connects later gets no MR_STALE */
    assert_true(sum(&client) == 3);
    leave(&client);
}

static void the_state_that_tables_continue_from_is_named(void **state) {
    ps_fixture *fixture = *state;
    uint64_t number;
    char words[64];
    client client = join(fixture);
    push_many(&client, 5);
    must(mr_ps_checkpoint(fixture->address, PS_FIXTURE_PATIENCE_US, &number));
    push_many(&client, 3);
    lose_the_server(fixture);
    assert_int_equal(push(&client), MR_STALE);
    snprintf(words, sizeof words, "continue from checkpoint %llu", (unsigned long long)number);
    assert_said(words);
    assert_true(sum(&client) == 5);
    push_many(&client, 3);
    assert_true(sum(&client) == 8);
    leave(&client);
}

/* The loss happens while no worker is connected: the next worker that makes a request gets MR_STALE, later ones do
 * not. */
static void a_new_process_is_told_of_a_loss(void **state) {
    ps_fixture *fixture = *state;
    float found;
    lose_the_server(fixture); /* no worker has pushed, so nothing is lost */
    client client = join(fixture);
    push_many(&client, 5);
    leave(&client);
    usleep(200000); /* time for the scheduler to notice the leave */
    lose_the_server(fixture);
    lose_the_server(fixture); /* two losses before a worker connects */
    client = join(fixture);   /* holds the rank, and ends before its first request */
    leave(&client);
    for (int turn = 0; turn < 3; turn++) {
        client = join(fixture);
        if (turn == 0) assert_int_equal(pull(&client, &found), MR_STALE);
        assert_true(sum(&client) == 0);
        leave(&client);
    }
}

/* Begins a step as a program with steps does, that is, again while a loss voids the step. */
static uint64_t begin_and_look(const client *client, float *found) {
    uint64_t step;
    mr_status status;
    do {
        must(mr_ps_begin(client->ps, PS_FIXTURE_PATIENCE_US, &step));
        status = pull(client, found);
    } while (status == MR_STALE);
    must(status);
    return step;
}

/* After a loss, mr_ps_begin returns the step to continue with. */
static void steps_say_where_to_go_on(void **state) {
    ps_fixture *fixture = *state;
    uint64_t step;
    float found;
    client client = join(fixture);
    for (int i = 0; i < 3; i++) {
        must(mr_ps_begin(client.ps, PS_FIXTURE_PATIENCE_US, &step));
        push_many(&client, 1);
        must(mr_ps_end(client.ps));
    }
    must(mr_ps_flush(client.ps, PS_FIXTURE_PATIENCE_US));
    lose_the_server(fixture);
    assert_int_equal(begin_and_look(&client, &found), 0);
    assert_true(found == 0);
    lose_the_server(fixture);
    assert_int_equal(push(&client), MR_STALE);
    assert_said("acknowledged pushes are lost");
    assert_int_equal(begin_and_look(&client, &found), 0);
    push_many(&client, 1);
    leave(&client);
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(pushes_after_a_restart_count),
        IN_A_WORLD(a_rank_that_was_killed_is_followed_by_one_whose_pushes_count),
        IN_A_WORLD(connections_one_after_the_other_add_up),
        IN_A_WORLD(a_look_before_the_first_step_skips_nothing),
        IN_A_WORLD(a_dropped_table_is_forgotten_without_steps),
        IN_A_WORLD(an_idle_program_is_told_of_a_loss_once),
        IN_A_WORLD(the_state_that_tables_continue_from_is_named),
        IN_A_WORLD(a_new_process_is_told_of_a_loss),
        IN_A_WORLD(steps_say_where_to_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
