/* runtime_sweep_test.c — a driver under a mixed load of large values whose node is killed, or which is interrupted, at
 * each step of its processes (every failpoint).
 *
 *   the node, its spill thread included, dies at a point: the driver gets that error, and nothing is left
 *   Ctrl-C reaches the driver exactly at a point: the driver ends, and nothing is left
 *
 * Needs a build with failpoints. The node gets its failpoint through the environment, which the driver itself has read
 * before; failpoints that only a node passes are not tried in others. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "tests/support/chaos_load.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/test_child.h"

enum { NODE_GONE = 3, LOAD_MS = 400, STORE_BYTES = 16 << 20, POINTS_MAX = 256 };

typedef struct visit {
    runtime_fixture *fixture;
    char point[64], spec[128];
} visit;

static mr_context *mr;
static _Atomic bool over;

static void time_is_over(int signal) { atomic_store(&over, true); }

static chaos_end load_for_a_while(uint64_t seed) {
    chaos_load load;
    struct itimerval once = {.it_value.tv_usec = LOAD_MS * 1000};
    signal(SIGALRM, time_is_over);
    setitimer(ITIMER_REAL, &once, NULL);
    chaos_load_init(&load, mr, seed);
    load.node_may_die = true;
    return chaos_load_run(&load, &over);
}

static mr_status open_runtime(const runtime_fixture *fixture) {
    runtime_fixture_enter(fixture);
    return mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = STORE_BYTES, .name_space = "chaos"), &mr);
}

/* The failpoints whose names begin with one of these. */
static size_t points_of(const char *const *prefixes, const char **names) {
    size_t count = 0;
    for (size_t i = 0; i < failpoint_count() && count < POINTS_MAX; i++) {
        const char *name = failpoint_at(i)->name;
        bool wanted = false, known = false;
        for (size_t j = 0; prefixes[j] != NULL; j++) wanted |= strncmp(name, prefixes[j], strlen(prefixes[j])) == 0;
        for (size_t j = 0; j < count; j++) known |= strcmp(names[j], name) == 0;
        if (wanted && !known) names[count++] = name;
    }
    return count;
}

/* ---- The node dies. */

static int lose_the_node(void *argument) {
    const visit *visit = argument;
    setenv("MINIRAY_FAILPOINT", visit->spec, 1);
    if (open_runtime(visit->fixture) != MR_OK) {
        if (strstr(mr_last_error(), "node") != NULL) return NODE_GONE;
        fprintf(stderr, "%s: mr_init: %s\n", visit->spec, mr_last_error());
        return 1;
    }
    chaos_end end = load_for_a_while(7);
    mr_shutdown(mr);
    return end == CHAOS_WRONG ? 1 : end == CHAOS_NODE_GONE ? NODE_GONE : 0;
}

static void a_node_that_is_killed_anywhere(void **state) {
    static const char *const prefixes[] = {"hub.", "store.vault", "store.spill", "watermark.", NULL};
    const char *names[POINTS_MAX];
    size_t count = points_of(prefixes, names), died = 0;
    int64_t worst_ms = 0;
    if (failpoint_count() == 0) skip();
    assert_true(count > 10);
    for (size_t i = 0; i < count; i++) {
        visit visit = {.fixture = *state};
        snprintf(visit.spec, sizeof visit.spec, "%s=kill@%zu", names[i], 1 + i % 3);
        int code = test_child_run(lose_the_node, &visit, RUNTIME_FIXTURE_CHILD_MS);
        if (code != 0 && code != NODE_GONE) fail_msg("%s: the program ended with %d", visit.spec, code);
        int64_t took = runtime_fixture_gone_after_ms(*state, runtime_fixture_now_ms());
        if (took < 0) fail_msg("%s: something is left", visit.spec);
        if (took > worst_ms) worst_ms = took;
        died += code == NODE_GONE;
    }
    print_message("    %zu points, the node died at %zu; all gone %lld ms after the program at most\n", count, died,
                  (long long)worst_ms);
    assert_true(died > 5);
}

/* ---- Ctrl-C. */

static int stop_at_a_point(void *argument) {
    const visit *visit = argument;
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL); /* shells start background processes with SIGINT ignored */
    if (open_runtime(visit->fixture) != MR_OK) return 1;
    if (failpoint_arm(visit->spec) != MR_OK) return 2;
    chaos_end end = load_for_a_while(11);
    failpoint_disarm_all();
    mr_shutdown(mr);
    return end == CHAOS_DONE ? 0 : 1;
}

static void an_interrupt_anywhere(void **state) {
    static const char *const prefixes[] = {"store.", "runtime.", "port.", "guest.", "ring.", NULL};
    const char *names[POINTS_MAX];
    size_t count = points_of(prefixes, names), hit = 0;
    int64_t worst_ms = 0;
    if (failpoint_count() == 0) skip();
    assert_true(count > 20);
    for (size_t i = 0; i < count; i++) {
        visit visit = {.fixture = *state};
        snprintf(visit.spec, sizeof visit.spec, "%s=stop@%zu", names[i], 1 + i % 3);
        pid_t pid = test_child_start(stop_at_a_point, &visit);
        bool stopped = test_child_stops(pid);
        int64_t start = runtime_fixture_now_ms();
        if (stopped) {
            kill(-pid, SIGINT);
            kill(pid, SIGCONT);
        }
        int code = test_child_wait(pid, RUNTIME_FIXTURE_GONE_MS);
        if (code != (stopped ? -SIGINT : 0)) fail_msg("%s: the program ended with %d", visit.spec, code);
        int64_t took = runtime_fixture_gone_after_ms(*state, start);
        if (took < 0) fail_msg("%s: something is left", visit.spec);
        if (stopped && took > worst_ms) worst_ms = took;
        hit += stopped;
    }
    print_message("    %zu points, the program passed %zu; all gone %lld ms after Ctrl-C at most\n", count, hit,
                  (long long)worst_ms);
    assert_true(hit > 10);
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(a_node_that_is_killed_anywhere),
        IN_A_WORLD(an_interrupt_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
