/* runtime_settings_test.c — each option has its effect in the processes of mr_init: the driver, the node, the workers.
 * A driver under test is a child with the option in its environment. */
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

#include "base/log.h"
#include "runtime/process/context.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/test_child.h"

static mr_context *mr;

/* ---- Tasks and actors. */

MR_TASK(spins) { /* number of polls that this process made instead of sleeping */
    shm_transport_stats stats = shm_transport_stats_now(mr_call_context(call)->transport);
    return mr_return(call, mr_int((int64_t)(stats.spins_hit + stats.spins_missed)));
}

MR_TASK(say) { /* writes a log line of the given level */
    log_info("the worker says info");
    log_warn("the worker says warn");
    return mr_return(call, mr_nil());
}

MR_CREATE(Target) { return MR_OK; }
MR_METHOD(Target, pid) { return mr_return(call, mr_int(getpid())); }
MR_METHOD(Target, take) { return mr_return(call, mr_nil()); }

static bool int_of(mr_ref ref, int64_t *out) {
    mr_value value;
    mr_status status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
    mr_release(mr, ref);
    if (status != MR_OK) return false;
    status = mr_value_int(&value, out);
    mr_value_release(&value);
    return status == MR_OK;
}

/* ---- arena_bytes. */

static int see_the_arena(void *argument) {
    setenv("MINIRAY_ARENA_BYTES", "24M", 1);
    runtime_fixture_enter(argument);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1), &mr) == MR_OK);
    TEST_CHILD_CHECK(shm_transport_arena(mr->transport)->size == 24 << 20);
    mr_shutdown(mr);
    return 0;
}

static void the_arena_is_as_large_as_it_is_said(void **state) {
    assert_int_equal(test_child_run(see_the_arena, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

/* ---- ring_bytes, ring_bytes_max: the ring to a stopped process fills up. */

typedef struct ring_case {
    const runtime_fixture *fixture;
    const char *bytes, *bytes_max;
    int64_t grown; /* how often the ring may grow; nonzero: at least once */
} ring_case;

static int fill_a_ring(void *argument) {
    const ring_case *with = argument;
    static const char kilobyte[1024];
    mr_actor target;
    mr_ref ref;
    int64_t pid;
    setenv("MINIRAY_RING_BYTES", with->bytes, 1);
    setenv("MINIRAY_RING_BYTES_MAX", with->bytes_max, 1);
    TEST_CHILD_CHECK(runtime_fixture_open(with->fixture, &mr) == MR_OK);
    TEST_CHILD_CHECK(mr_new_actor(mr, "Target", &target) == MR_OK);
    TEST_CHILD_CHECK(mr_call_actor(mr, target, "pid", &ref) == MR_OK && int_of(ref, &pid));
    TEST_CHILD_CHECK(kill((pid_t)pid, SIGSTOP) == 0);
    for (int i = 0; i < 5000; i++)
        TEST_CHILD_CHECK(mr_call_actor(mr, target, "take", NULL, mr_bytes(kilobyte, sizeof kilobyte)) == MR_OK);
    mr_value value;
    TEST_CHILD_CHECK(mr_call_actor(mr, target, "pid", &ref) == MR_OK);
    TEST_CHILD_CHECK(mr_get(mr, ref, 200 * 1000, &value) == MR_TIMEOUT); /* all messages in flight have arrived */
    /* The runtime's helper thread polls the transport, too. */
    context_lock(mr);
    int64_t grown = (int64_t)shm_transport_stats_now(mr->transport).grown;
    context_unlock(mr);
    kill((pid_t)pid, SIGCONT);
    fprintf(stderr, "    ring_bytes %s, ring_bytes_max %s: grown %d times\n", with->bytes, with->bytes_max, (int)grown);
    TEST_CHILD_CHECK(grown <= with->grown && (with->grown == 0) == (grown == 0));
    TEST_CHILD_CHECK(int_of(ref, &pid));
    mr_shutdown(mr);
    return 0;
}

static void rings_begin_and_end_as_large_as_they_are_said(void **state) {
    ring_case cases[] = {
        {*state, "4k", "1M", 8},      /* the ring grows */
        {*state, "1M", "1M", 0},      /* the ring begins at its limit */
        {*state, "1M", "4M", 8},      /* the ring grows above 1 MB */
        {*state, "1048575", "1M", 0}, /* an invalid ring size is rounded up to the next valid one */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(test_child_run(fill_a_ring, &cases[i], RUNTIME_FIXTURE_CHILD_MS), 0);
}

/* ---- spin_us. */

static int never_spin(void *argument) {
    int64_t spins = -1;
    mr_ref ref;
    setenv("MINIRAY_SPIN_US", "0", 1);
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    for (int i = 0; i < 50; i++) TEST_CHILD_CHECK(runtime_works(mr));
    TEST_CHILD_CHECK(mr_call_task(mr, "spins", &ref) == MR_OK && int_of(ref, &spins));
    TEST_CHILD_CHECK(spins == 0);
    int64_t ms; /* this result is not ready at once, as earlier ones may be */
    TEST_CHILD_CHECK(mr_call_task(mr, "pause_ms", &ref, mr_int(20)) == MR_OK && int_of(ref, &ms));
    shm_transport_stats stats = shm_transport_stats_now(mr->transport);
    TEST_CHILD_CHECK(stats.spins_hit + stats.spins_missed == 0);
    TEST_CHILD_CHECK(stats.sleeps_futex + stats.sleeps_loop > 0);
    mr_shutdown(mr);
    return 0;
}

static void a_process_set_not_to_spin_sleeps(void **state) {
    assert_int_equal(test_child_run(never_spin, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

/* ---- log_level, log_json: the lines of all processes are on the driver's stderr, which is a file here. */

typedef struct log_case {
    const runtime_fixture *fixture;
    const char *level, *json;
} log_case;

static int say_in_all_processes(void *argument) {
    const log_case *with = argument;
    char path[TEMP_DIR_FOLDER_MAX + 8];
    mr_ref ref;
    mr_value value;
    snprintf(path, sizeof path, "%s/log", with->fixture->folder);
    setenv("MINIRAY_LOG_LEVEL", with->level, 1);
    setenv("MINIRAY_LOG_JSON", with->json, 1);
    TEST_CHILD_CHECK(freopen(path, "w", stderr) != NULL);
    TEST_CHILD_CHECK(runtime_fixture_open(with->fixture, &mr) == MR_OK);
    log_info("the program says info");
    log_warn("the program says warn");
    TEST_CHILD_CHECK(mr_call_task(mr, "say", &ref) == MR_OK);
    TEST_CHILD_CHECK(mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_OK);
    mr_value_release(&value);
    /* The node warns about a task whose resource no machine has. */
    TEST_CHILD_CHECK(mr_task_submit(mr, "say", &MR_OPTIONS(mr_task_options, .resources = "unicorn=1"), NULL, 0, &ref) ==
                     MR_OK);
    TEST_CHILD_CHECK(mr_get(mr, ref, 300 * 1000, &value) == MR_TIMEOUT);
    mr_shutdown(mr);
    return 0;
}

typedef struct log_lines {
    int program_info, program_warn, worker_info, worker_warn, node_warn, json, all;
} log_lines;

static log_lines read_log(const runtime_fixture *fixture) {
    char path[TEMP_DIR_FOLDER_MAX + 8], line[LOG_LINE_MAX];
    log_lines lines = {0};
    snprintf(path, sizeof path, "%s/log", fixture->folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        lines.all++;
        lines.json += strstr(line, "{\"time\":") != NULL; /* a worker's line begins with its name */
        lines.program_info += strstr(line, "the program says info") != NULL;
        lines.program_warn += strstr(line, "the program says warn") != NULL;
        lines.worker_info += strstr(line, "the worker says info") != NULL;
        lines.worker_warn += strstr(line, "the worker says warn") != NULL;
        lines.node_warn += strstr(line, "unicorn") != NULL;
    }
    fclose(file);
    assert_int_equal(unlink(path), 0);
    return lines;
}

static void all_processes_log_what_is_wanted(void **state) {
    log_case cases[] = {{*state, "error", "no"}, {*state, "warn", "yes"}, {*state, "info", "no"}};
    for (int level = 0; level < 3; level++) {
        assert_int_equal(test_child_run(say_in_all_processes, &cases[level], RUNTIME_FIXTURE_CHILD_MS), 0);
        log_lines lines = read_log(*state);
        runtime_fixture_gone(*state, "the workers' logs were read");
        assert_int_equal(lines.program_info, level >= 2);
        assert_int_equal(lines.program_warn, level >= 1);
        assert_int_equal(lines.worker_info, level >= 2);
        assert_int_equal(lines.worker_warn, level >= 1);
        assert_int_equal(lines.node_warn > 0, level >= 1);
        if (level == 1)
            assert_int_equal(lines.json, lines.all);
        else
            assert_int_equal(lines.json, 0);
    }
}

/* ---- Invalid values. */

static int ask_for_nonsense(void *argument) {
    setenv("MINIRAY_RING_BYTES", "lots", 1);
    runtime_fixture_enter(argument);
    TEST_CHILD_CHECK(mr_init(NULL, &mr) == MR_INVALID);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "MINIRAY_RING_BYTES: 'lots' is not allowed") != NULL);
    return 0;
}

static void a_bad_variable_is_told_by_mr_init(void **state) {
    assert_int_equal(test_child_run(ask_for_nonsense, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(the_arena_is_as_large_as_it_is_said), IN_A_WORLD(rings_begin_and_end_as_large_as_they_are_said),
        IN_A_WORLD(a_process_set_not_to_spin_sleeps),    IN_A_WORLD(all_processes_log_what_is_wanted),
        IN_A_WORLD(a_bad_variable_is_told_by_mr_init),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
