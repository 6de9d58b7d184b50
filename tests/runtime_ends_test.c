/* runtime_ends_test.c — a driver, its node or a worker is killed at any instant of a driver's life: during start, work
 * and end, repeatedly. Whichever process was killed, nothing is left soon after: no process, no socket, no file. The
 * instants are random (MINIRAY_ENDS_SEED); MINIRAY_ENDS_ROUNDS sets their number. */
#include <poll.h>
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

#include "base/rng.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_child.h"

enum { NODE_GONE = 3, FLOATS = 1 << 16, ROUNDS = SANITIZED ? 5 : 12, LIFE_MS = SANITIZED ? 400 : 60, MORE_MS = 20 };

static mr_context *mr;

/* ---- The driver. */

/* Whether a result may end in this way after the death of a worker. */
static bool is_a_workers(mr_status status) {
    return status == MR_OK || status == MR_WORKER_DIED || status == MR_ACTOR_DIED || status == MR_OBJECT_LOST;
}

static mr_status take(mr_ref ref) {
    mr_value value;
    mr_status status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
    mr_release(mr, ref);
    if (status == MR_OK) mr_value_release(&value);
    return is_a_workers(status) ? MR_OK : status;
}

static mr_status work(void) {
    static float data[FLOATS];
    mr_actor actor;
    mr_ref large, sum, hello;
    mr_status status = mr_new_actor(mr, "Sleeper", &actor);
    if (status != MR_OK) return is_a_workers(status) ? MR_OK : status;
    MR_TRY(mr_put(mr, mr_vector(data, FLOATS), &large));
    MR_TRY(mr_call_task(mr, "add", &sum, mr_int(1), mr_int(2)));
    MR_TRY(mr_call_actor(mr, actor, "hello", &hello));
    MR_TRY(mr_call_task(mr, "pause_ms", NULL, mr_int(1)));
    MR_TRY(take(sum));
    MR_TRY(take(hello));
    MR_TRY(take(large));
    mr_actor_release(mr, actor);
    return MR_OK;
}

/* Runs work until killed. If the driver ends by itself, its error reports the node's death. */
static int live(void *argument) {
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL); /* shells start background processes with SIGINT ignored */
    runtime_fixture_enter(argument);
    TEST_CHILD_CHECK(runtime_fixture_ready(argument)); /* the test may kill the driver from here on */
    for (;;) {
        mr_status status = mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 16 << 20), &mr);
        for (int i = 0; i < 3 && status == MR_OK; i++) status = work();
        if (status != MR_OK && strstr(mr_last_error(), "node") != NULL) return NODE_GONE;
        if (status != MR_OK) fprintf(stderr, "%s: %s\n", mr_status_name(status), mr_last_error());
        TEST_CHILD_CHECK(status == MR_OK);
        mr_shutdown(mr);
    }
}

/* ---- Ways to end a driver. */

typedef struct life {
    runtime_fixture *fixture;
    pid_t program;
    int code;         /* expected exit status, */
    bool may_tell_of; /* NODE_GONE is allowed, too */
} life;

static bool kill_one(const life *life, const char *role) {
    int pids[16];
    size_t count = runtime_fixture_find(life->fixture, role, pids, 16);
    return count > 0 && kill(pids[0], SIGKILL) == 0;
}

static void interrupt(life *life) {
    kill(-life->program, SIGINT);
    life->code = -SIGINT;
}

static void kill_program(life *life) {
    kill(life->program, SIGKILL);
    life->code = -SIGKILL;
}

static void kill_worker(life *life) {
    (void)kill_one(life, "MINIRAY_BOOT=worker");
    poll(NULL, 0, MORE_MS);
    interrupt(life);
}

static void kill_node(life *life) {
    life->may_tell_of = true;
    if (kill_one(life, "MINIRAY_BOOT=node")) poll(NULL, 0, MORE_MS);
    interrupt(life); /* a driver that was about to end need not report the interrupt */
}

static void kill_both(life *life) {
    life->may_tell_of = true;
    (void)kill_one(life, "MINIRAY_BOOT=node");
    kill_program(life);
}

static uint64_t number_of(const char *variable, uint64_t missing) {
    const char *text = getenv(variable);
    return text == NULL ? missing : strtoull(text, NULL, 10);
}

static void end_often(runtime_fixture *fixture, const char *what, void (*end)(life *life)) {
    rng rng;
    uint64_t rounds = number_of("MINIRAY_ENDS_ROUNDS", ROUNDS);
    int64_t worst_ms = 0;
    rng_init(&rng, number_of("MINIRAY_ENDS_SEED", rng_system_seed()));
    for (uint64_t i = 0; i < rounds; i++) {
        life life = {.fixture = fixture, .program = test_child_start(live, fixture)};
        runtime_fixture_await(fixture);
        usleep((useconds_t)rng_below(&rng, LIFE_MS * 1000));
        int64_t start = runtime_fixture_now_ms();
        end(&life);
        int code = test_child_wait(life.program, RUNTIME_FIXTURE_CHILD_MS);
        if (code != life.code && !(life.may_tell_of && code == NODE_GONE))
            fail_msg("%s: the program ended with %d instead of %d", what, code, life.code);
        int64_t took = runtime_fixture_gone_after_ms(fixture, start);
        if (took < 0) fail_msg("%s: something is left", what);
        if (took > worst_ms) worst_ms = took;
    }
    print_message("    %s, %llu times: all gone after %lld ms at most\n", what, (unsigned long long)rounds,
                  (long long)worst_ms);
}

static void ctrl_c(void **state) { end_often(*state, "Ctrl-C", interrupt); }
static void the_program_is_killed(void **state) { end_often(*state, "kill -9 of the program", kill_program); }
static void a_worker_is_killed(void **state) { end_often(*state, "kill -9 of a worker", kill_worker); }
static void the_node_is_killed(void **state) { end_often(*state, "kill -9 of the node", kill_node); }
static void both_are_killed(void **state) { end_often(*state, "kill -9 of node and program", kill_both); }

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(ctrl_c),
        IN_A_WORLD(the_program_is_killed),
        IN_A_WORLD(a_worker_is_killed),
        IN_A_WORLD(the_node_is_killed),
        IN_A_WORLD(both_are_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
