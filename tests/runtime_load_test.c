/* runtime_load_test.c — large numbers: long chains, long queues, deep nests, many actors, large values, several
 * drivers. Sizes are those of the release build; a sanitizer's build uses smaller ones. Times and memory are printed
 * without a bar: the benchmarks have bars. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/runtime_fixture.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_child.h"

enum {
    PATIENCE_US = 120 * 1000 * 1000,
    CHILD_MS = 200 * 1000,
    CHAIN = SANITIZED ? 1000 : 10 * 1000,
    QUEUE = SANITIZED ? 5 * 1000 : 100 * 1000,
    QUEUE_BYTES_EACH = 4096, /* maximal memory of one waiting task in the driver; a sanitizer needs more */
    NEST = 12,
    ACTORS = SANITIZED ? 10 : 100,
    LARGE_BYTES = SANITIZED ? 8 << 20 : 100 << 20,
    PROGRAMS = 4,
};

static mr_context *mr;
static const mr_task_options on_the_moon = {.size = sizeof(mr_task_options),
                                            .resources = "moon=1"}; /* no node has this resource: the task waits */

/* ---- Tasks of workers, besides those of runtime_fixture.h. */

MR_TASK(refuse) { return mr_fail(call, "no cheese"); }

MR_TASK(nested) {
    int64_t depth, below = 0;
    mr_ref ref;
    mr_value value;
    MR_TRY(mr_arg_int(call, 0, &depth));
    if (depth > 1) {
        MR_TRY(mr_call_task(mr_call_context(call), "nested", &ref, mr_int(depth - 1)));
        MR_TRY(mr_get(mr_call_context(call), ref, MR_FOREVER, &value));
        MR_TRY(mr_value_int(&value, &below));
        mr_value_release(&value);
        mr_release(mr_call_context(call), ref);
    }
    return mr_return(call, mr_int(below + 1));
}

MR_TASK(invert) { /* inverts every byte */
    mr_tensor tensor;
    MR_TRY(mr_arg_tensor(call, 0, &tensor));
    uint32_t *data = malloc(tensor.bytes);
    for (size_t i = 0; i < tensor.bytes / sizeof *data; i++) data[i] = ~((const uint32_t *)tensor.data)[i];
    mr_status status = mr_return(call, mr_vector((float *)data, tensor.bytes / sizeof *data));
    free(data);
    return status;
}

MR_CREATE(Counter) { return mr_set_self(call, calloc(1, sizeof(int64_t)), free); }
MR_METHOD(Counter, next) { return mr_return(call, mr_int(++*(int64_t *)mr_self(call))); }

/* ---- Helpers. */

static size_t resident_bytes(void) {
    char text[64];
    unsigned long pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    sscanf(text, "%*u %lu", &pages);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- The tests. */

/* Submits a chain after a first task, and returns the last future. */
static mr_ref chain_behind(mr_ref ref, int count) {
    for (int i = 0; i < count; i++) {
        mr_ref next;
        assert_int_equal(mr_call_task(mr, "add", &next, mr_future(ref), mr_int(1)), MR_OK);
        mr_release(mr, ref);
        ref = next;
    }
    return ref;
}

static void a_long_chain(void **state) {
    mr_ref ref;
    int64_t start = runtime_fixture_now_ms();
    assert_int_equal(mr_put(mr, mr_int(0), &ref), MR_OK);
    ref = chain_behind(ref, CHAIN);
    assert_true(runtime_gives(mr, ref, CHAIN));
    print_message("    a chain of %d tasks: %lld ms\n", CHAIN, (long long)(runtime_fixture_now_ms() - start));
}

/* One failure fails all tasks that depend on it, and the error text stays short. */
static void a_long_chain_that_fails(void **state) {
    mr_ref ref;
    mr_value value;
    assert_int_equal(mr_call_task(mr, "refuse", &ref), MR_OK);
    ref = chain_behind(ref, CHAIN);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_TASK_FAILED);
    assert_non_null(strstr(mr_last_error(), "no cheese"));
    mr_release(mr, ref);
}

/* The same if all tasks depend on one that has not begun: the failure passes from task to task. */
static void a_long_chain_that_fails_at_once(void **state) {
    mr_ref first, next, calls[2];
    mr_value value;
    mr_actor actor;
    assert_int_equal(mr_task_submit(mr, "refuse", &on_the_moon, NULL, 0, &first), MR_OK);
    assert_int_equal(mr_call_task(mr, "add", &next, mr_future(first), mr_int(1)), MR_OK);
    next = chain_behind(next, 10 * CHAIN);
    assert_int_equal(mr_new_actor(mr, "Counter", &actor), MR_OK);
    assert_int_equal(mr_call_actor(mr, actor, "next", &calls[0], mr_future(first)), MR_OK);
    for (int i = 0; i < 10 * CHAIN; i++) { /* the same with calls of an actor, each depending on the one before */
        assert_int_equal(mr_call_actor(mr, actor, "next", &calls[1], mr_future(calls[0])), MR_OK);
        mr_release(mr, calls[0]);
        calls[0] = calls[1];
    }
    assert_int_equal(mr_cancel(mr, first), MR_OK);
    assert_int_equal(mr_get(mr, next, PATIENCE_US, &value), MR_CANCELLED);
    assert_int_equal(mr_get(mr, calls[0], PATIENCE_US, &value), MR_CANCELLED);
    mr_release(mr, first);
    mr_release(mr, next);
    mr_release(mr, calls[0]);
    assert_int_equal(mr_actor_kill(mr, actor), MR_OK);
}

/* All tasks wait at once, and are cancelled. This test is the program's first, so that the heap is small before. */
static void a_long_queue_that_waits(void **state) {
    mr_ref *refs = calloc(QUEUE, sizeof *refs);
    size_t before = resident_bytes();
    for (int i = 0; i < QUEUE; i++)
        assert_int_equal(mr_task_submit(mr, "add", &on_the_moon, MR_ARGS(mr_int(i), mr_int(i)), &refs[i]), MR_OK);
    size_t grown = resident_bytes() - before;
    print_message("    %d tasks wait in %zu MB of the program, %zu bytes each\n", QUEUE, grown >> 20, grown / QUEUE);
    if (!SANITIZED) assert_in_range(grown / QUEUE, 1, QUEUE_BYTES_EACH);
    for (int i = 0; i < QUEUE; i++) {
        mr_value value;
        assert_int_equal(mr_cancel(mr, refs[i]), MR_OK);
        assert_int_equal(mr_get(mr, refs[i], 0, &value), MR_CANCELLED);
        mr_release(mr, refs[i]);
    }
    free(refs);
}

static void a_long_queue(void **state) {
    mr_ref *refs = calloc(QUEUE, sizeof *refs);
    int64_t start = runtime_fixture_now_ms();
    for (int i = 0; i < QUEUE; i++) assert_int_equal(mr_call_task(mr, "add", &refs[i], mr_int(i), mr_int(i)), MR_OK);
    int64_t submitted = runtime_fixture_now_ms() - start;
    for (int i = 0; i < QUEUE; i++) assert_true(runtime_gives(mr, refs[i], 2 * (int64_t)i));
    print_message("    %d tasks: submitted in %lld ms, done in %lld ms\n", QUEUE, (long long)submitted,
                  (long long)(runtime_fixture_now_ms() - start));
    free(refs);
}

static void a_deep_nest(void **state) {
    mr_ref refs[3];
    int64_t start = runtime_fixture_now_ms();
    for (int i = 0; i < 3; i++) assert_int_equal(mr_call_task(mr, "nested", &refs[i], mr_int(NEST)), MR_OK);
    for (int i = 0; i < 3; i++) assert_true(runtime_gives(mr, refs[i], NEST));
    print_message("    three nests %d deep: %lld ms\n", NEST, (long long)(runtime_fixture_now_ms() - start));
}

static void many_actors(void **state) {
    mr_actor actors[ACTORS];
    mr_ref refs[ACTORS][3];
    int64_t start = runtime_fixture_now_ms();
    for (int i = 0; i < ACTORS; i++) assert_int_equal(mr_new_actor(mr, "Counter", &actors[i]), MR_OK);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < ACTORS; i++) assert_int_equal(mr_call_actor(mr, actors[i], "next", &refs[i][k]), MR_OK);
    for (int i = 0; i < ACTORS; i++)
        for (int k = 0; k < 3; k++) assert_true(runtime_gives(mr, refs[i][k], k + 1));
    print_message("    %d actors called: %lld ms\n", ACTORS, (long long)(runtime_fixture_now_ms() - start));
    for (int i = 0; i < ACTORS; i++) assert_int_equal(mr_actor_kill(mr, actors[i]), MR_OK);
}

static void a_large_value(void **state) {
    size_t count = LARGE_BYTES / sizeof(uint32_t);
    uint32_t *data = malloc(LARGE_BYTES);
    for (size_t i = 0; i < count; i++) data[i] = (uint32_t)i * 2654435761u;
    mr_ref ref, back;
    mr_value value;
    mr_tensor tensor;
    int64_t start = runtime_fixture_now_ms();
    assert_int_equal(mr_call_task(mr, "invert", &ref, mr_vector((float *)data, count)), MR_OK);
    assert_int_equal(mr_call_task(mr, "invert", &back, mr_future(ref)), MR_OK);
    mr_release(mr, ref);
    mr_status status = mr_get(mr, back, PATIENCE_US, &value);
    if (status != MR_OK) print_message("%s\n", mr_last_error());
    assert_int_equal(status, MR_OK);
    print_message("    %d MB to a worker and back, twice: %lld ms\n", LARGE_BYTES >> 20,
                  (long long)(runtime_fixture_now_ms() - start));
    assert_int_equal(mr_value_tensor(&value, &tensor), MR_OK);
    assert_int_equal(tensor.bytes, LARGE_BYTES);
    assert_memory_equal(tensor.data, data, LARGE_BYTES);
    mr_value_release(&value);
    mr_release(mr, back);
    free(data);
}

static int set_up(void **state) {
    mr_status status = mr_init(&MR_OPTIONS(mr_options, .num_workers = 8, .store_bytes = 256 << 20), &mr);
    if (status != MR_OK) print_message("mr_init: %s\n", mr_last_error());
    return status != MR_OK;
}

static int tear_down(void **state) {
    mr_shutdown(mr);
    return 0;
}

/* ---- Several drivers. */

static int be_a_program(void *argument) {
    enum { COUNT = QUEUE / 10 };
    mr_actor counter;
    mr_ref ref, *refs = calloc(COUNT, sizeof *refs);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 64 << 20), &mr) == MR_OK);
    TEST_CHILD_CHECK(mr_new_actor(mr, "Counter", &counter) == MR_OK);
    for (int i = 0; i < COUNT; i++) TEST_CHILD_CHECK(mr_call_task(mr, "add", &refs[i], mr_int(i), mr_int(1)) == MR_OK);
    for (int i = 0; i < COUNT; i++) TEST_CHILD_CHECK(runtime_gives(mr, refs[i], i + 1));
    for (int i = 0; i < 100; i++) {
        TEST_CHILD_CHECK(mr_call_actor(mr, counter, "next", &ref) == MR_OK);
        TEST_CHILD_CHECK(runtime_gives(mr, ref, i + 1));
    }
    mr_shutdown(mr);
    free(refs);
    return 0;
}

static void programs_do_not_disturb_each_other(void **state) {
    pid_t pids[PROGRAMS];
    int64_t start = runtime_fixture_now_ms();
    for (int i = 0; i < PROGRAMS; i++) pids[i] = test_child_start(be_a_program, NULL);
    for (int i = 0; i < PROGRAMS; i++) assert_int_equal(test_child_wait(pids[i], CHILD_MS), 0);
    print_message("    %d programs of %d tasks each: %lld ms\n", PROGRAMS, QUEUE / 10,
                  (long long)(runtime_fixture_now_ms() - start));
}

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest programs[] = {cmocka_unit_test(programs_do_not_disturb_each_other)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_queue_that_waits),
        cmocka_unit_test(a_long_chain),
        cmocka_unit_test(a_long_chain_that_fails),
        cmocka_unit_test(a_long_chain_that_fails_at_once),
        cmocka_unit_test(a_long_queue),
        cmocka_unit_test(a_deep_nest),
        cmocka_unit_test(many_actors),
        cmocka_unit_test(a_large_value),
    };
    /* These tests fork, so they run before there are threads. */
    int failed = cmocka_run_group_tests(programs, NULL, NULL);
    return cmocka_run_group_tests(tests, set_up, tear_down) + failed;
}
