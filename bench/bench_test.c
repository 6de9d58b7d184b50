/* bench_test.c — medians, bars, failures and the bounds of a measurement. */
#include "bench/bench.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "bench/bench_report.h"
#include "bench/limits.h"

typedef struct script { /* values by measurement; shared, so that fresh processes continue the count */
    unsigned calls;
    char order[32]; /* order of measurements: 'o' ours or 'r' reference */
} script;

static script *script_create(void) {
    void *memory = mmap(NULL, sizeof(script), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static script *script_note(const void *argument, char who) {
    script *script = *(struct script *const *)argument;
    script->order[script->calls++] = who;
    return script;
}

static void ours(const bench_run *run, const void *argument, double *values) {
    static const double values_of[] = {5, 1, 4, 2, 3};
    unsigned nth = 0;
    script *script = script_note(argument, 'o');
    for (unsigned i = 0; i < script->calls - 1; i++) nth += script->order[i] == 'o';
    values[0] = values_of[nth];
    values[1] = 10 * values_of[nth];
}

static void reference(const bench_run *run, const void *argument, double *values) {
    script_note(argument, 'r');
    values[0] = 2;
}

static void medians_of_alternating_repeats(void **state) {
    script *script = script_create();
    bench *b = bench_create(&(bench_options){.repeats = 5});
    bench_suite(b, "suite");
    const bench_row rows[] = {
        {.name = "first", .unit = "x", .reference = "two", .bar = {BENCH_RATIO_AT_LEAST, 1.5}},
        {.name = "second", .unit = "x", .value = 1, .reference = "two", .bar = {BENCH_RATIO_AT_MOST, 14}},
    };
    bench_measure(b, &(bench_pair){ours, &script, reference, &script}, rows, 2);
    assert_string_equal(script->order, "orroorroor");
    assert_int_equal(bench_count(b), 2);
    const bench_outcome *row = bench_at(b, 0);
    assert_string_equal(row->suite, "suite");
    assert_true(row->value == 3 && row->reference_value == 2 && row->ratio == 1.5 && row->repeats == 5);
    assert_true(fabs(row->spread - 3.2 / 3) < 1e-9); /* 10th percentile 1.4, 90th 4.6 */
    assert_true(row->reference_spread == 0);
    assert_true(bench_holds(row));
    assert_true(bench_at(b, 1)->value == 30 && bench_at(b, 1)->ratio == 15);
    assert_false(bench_holds(bench_at(b, 1)));
    bench_destroy(b);
    munmap(script, sizeof *script);
}

static void bars_hold_at_their_limit(void **state) {
    bench_outcome row = {.value = 10, .ratio = 0.8, .has_reference = true};
    const struct {
        bench_bar bar;
        bool holds;
    } cases[] = {
        {{BENCH_NO_BAR, 0}, true},
        {{BENCH_RATIO_AT_LEAST, 0.8}, true},
        {{BENCH_RATIO_AT_LEAST, 0.81}, false},
        {{BENCH_RATIO_AT_MOST, 0.8}, true},
        {{BENCH_RATIO_AT_MOST, 0.79}, false},
        {{BENCH_VALUE_AT_LEAST, 10}, true},
        {{BENCH_VALUE_AT_LEAST, 11}, false},
        {{BENCH_VALUE_AT_MOST, 10}, true},
        {{BENCH_VALUE_AT_MOST, 9}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        row.bar = cases[i].bar;
        assert_true(bench_holds(&row) == cases[i].holds);
    }
    row.bar.kind = BENCH_NO_BAR;
    row.failed = true;
    assert_false(bench_holds(&row));
}

static void percentiles(void **state) {
    const double sorted[] = {1, 2, 3, 4};
    assert_true(bench_percentile(sorted, 4, 0) == 1 && bench_percentile(sorted, 4, 100) == 4);
    assert_true(bench_percentile(sorted, 4, 50) == 2.5);
    assert_true(bench_percentile(sorted, 1, 99) == 1);
    assert_true(isnan(bench_percentile(sorted, 0, 50)));
    bench_samples samples;
    bench_samples_init(&samples, 3);
    for (int i = 9; i > 0; i--) bench_samples_add(&samples, i);
    assert_int_equal(samples.count, 3);
    assert_true(bench_samples_percentile(&samples, 50) == 8);
    bench_samples_fini(&samples);
}

/* bench_fail and the harness print to stderr; in a passing test that output would look like an error. */
static void hush(void) { assert_non_null(freopen("/dev/null", "w", stderr)); }

static void fails(const bench_run *run, const void *argument, double *values) {
    hush();
    bench_fail("on purpose");
}
static void crashes(const bench_run *run, const void *argument, double *values) { abort(); }
static void forgets(const bench_run *run, const void *argument, double *values) {}
static void sleep_long(void *argument) { sleep(100); }
static void crash(void *argument) { abort(); }
static void hangs(const bench_run *run, const void *argument, double *values) {
    pid_t pid = bench_child(sleep_long, NULL);
    bench_join(pid);
}
static void joins_a_failure(const bench_run *run, const void *argument, double *values) {
    hush();
    bench_join(bench_child(crash, NULL));
}

static void serve_not(void *argument, int ready_fd) {}
static void waits_for_nobody(const bench_run *run, const void *argument, double *values) {
    char byte;
    hush();
    bench_server(serve_not, NULL, &byte, 1);
}

static void a_failing_benchmark_gives_a_failed_row(void **state) {
    bench_fn *const wrong[] = {fails, crashes, forgets, hangs, joins_a_failure, waits_for_nobody};
    enum { WRONG = sizeof wrong / sizeof wrong[0] };
    int kept = dup(2);
    hush();
    bench *b = bench_create(&(bench_options){.repeats = 1, .timeout_s = 0.3});
    for (size_t i = 0; i < WRONG; i++)
        bench_measure(b, &(bench_pair){.ours = wrong[i]}, &(bench_row){.name = "x", .unit = "s"}, 1);
    fflush(stderr);
    dup2(kept, 2);
    close(kept);
    assert_int_equal(bench_count(b), WRONG);
    for (size_t i = 0; i < WRONG; i++) assert_true(bench_at(b, i)->failed);
    bench_destroy(b);
}

/* The server reports a number; the folder is below $TMPDIR and accepts a file. */
static void serve_number(void *argument, int ready_fd) { bench_ready(ready_fd, argument, sizeof(int)); }
static void asks_a_server(const bench_run *run, const void *argument, double *values) {
    int number = 42, said = 0;
    char folder[BENCH_FOLDER_MAX];
    bench_join(bench_server(serve_number, &number, &said, sizeof said));
    setenv("TMPDIR", "/var/tmp", 1);
    bench_folder(folder);
    if (strncmp(folder, "/var/tmp/", 9) != 0 || rmdir(folder) != 0) bench_fail("the folder is %s", folder);
    values[0] = said;
}

static void a_server_is_there_when_it_said_so(void **state) {
    bench *b = bench_create(&(bench_options){.repeats = 1});
    bench_measure(b, &(bench_pair){.ours = asks_a_server}, &(bench_row){.name = "x", .unit = "s"}, 1);
    assert_false(bench_at(b, 0)->failed);
    assert_true(bench_at(b, 0)->value == 42);
    bench_destroy(b);
}

static void only_rows_that_are_wanted(void **state) {
    script *script = script_create();
    bench *b = bench_create(&(bench_options){.repeats = 1, .rows = "yes*"});
    bench_measure(b, &(bench_pair){.ours = reference, .argument = &script}, &(bench_row){.name = "no", .unit = "s"}, 1);
    assert_int_equal(script->calls, 0);
    const bench_row rows[] = {{.name = "no", .unit = "s"}, {.name = "yes, this", .unit = "s"}};
    bench_measure(b, &(bench_pair){.ours = reference, .argument = &script}, rows, 2);
    assert_int_equal(script->calls, 1);
    assert_int_equal(bench_count(b), 1);
    assert_string_equal(bench_at(b, 0)->name, "yes, this");
    bench_destroy(b);
    munmap(script, sizeof *script);
}

static void json_of(const bench *b, char *text, size_t size) {
    FILE *file = fmemopen(text, size, "w");
    assert_non_null(file);
    assert_int_equal(bench_report_json(file, b), MR_OK);
    fclose(file);
}

static void json_has_every_key(void **state) {
    char text[4096];
    script *script = script_create();
    bench *b = bench_create(&(bench_options){.repeats = 1});
    bench_suite(b, "s");
    bench_measure(b, &(bench_pair){.ours = reference, .argument = &script},
                  &(bench_row){.name = "a \"b\"\\\n",
                               .unit = "us",
                               .reference = "ray",
                               .known_reference = 4,
                               .bar = {BENCH_RATIO_AT_MOST, 0.4}},
                  1);
    bench_measure(b, &(bench_pair){.ours = reference, .argument = &script}, &(bench_row){.name = "n", .unit = "us"}, 1);
    json_of(b, text, sizeof text);
    assert_string_equal(
        text,
        "[\n"
        "  {\"suite\": \"s\", \"row\": \"a \\\"b\\\"\\\\\\u000a\", \"value\": 2, \"unit\": \"us\", \"reference\": "
        "\"ray\", \"reference_value\": 4, \"ratio\": 0.5, \"repeats\": 1, \"spread\": 0, \"reference_spread\": 0, "
        "\"bar\": \"ratio <= 0.4\", \"holds\": false},\n"
        "  {\"suite\": \"s\", \"row\": \"n\", \"value\": 2, \"unit\": \"us\", \"reference\": null, "
        "\"reference_value\": null, \"ratio\": null, \"repeats\": 1, \"spread\": 0, \"reference_spread\": null, "
        "\"bar\": null, \"holds\": null}\n"
        "]\n");
    bench_destroy(b);
    munmap(script, sizeof *script);
}

static void the_limits_can_be_measured(void **state) {
    static const limit_copy copy = {4096, 2};
    static const limit_trip trips[] = {{LIMIT_SPIN, BENCH_TWO_CPUS}, {LIMIT_FUTEX, BENCH_ONE_CPU},
                                       {LIMIT_EVENTFD, BENCH_FREE},  {LIMIT_UNIX, BENCH_FREE},
                                       {LIMIT_TCP, BENCH_FREE},      {LIMIT_UNIX_EPOLL, BENCH_FREE},
                                       {LIMIT_TCP_EPOLL, BENCH_FREE}};
    static const limit_flow flows[] = {{LIMIT_UNIX, 100000, BENCH_FREE}, {LIMIT_TCP, 100000, BENCH_FREE}};
    bench *b = bench_create(&(bench_options){.repeats = 1, .seconds = 0.005, .timeout_s = 60});
    bench_measure(b, &(bench_pair){.ours = limit_memcpy_fn, .argument = &copy},
                  &(bench_row){.name = "c", .unit = "GB/s"}, 1);
    for (size_t i = 0; i < sizeof trips / sizeof trips[0]; i++)
        bench_measure(b, &(bench_pair){.ours = limit_one_way_fn, .argument = &trips[i]},
                      &(bench_row){.name = "trip", .unit = "us"}, 1);
    for (size_t i = 0; i < 2; i++)
        bench_measure(b, &(bench_pair){.ours = limit_stream_fn, .argument = &flows[i]},
                      &(bench_row){.name = "flow", .unit = "GB/s"}, 1);
    assert_int_equal(bench_count(b), 10);
    for (size_t i = 0; i < bench_count(b); i++) {
        assert_false(bench_at(b, i)->failed);
        assert_true(bench_at(b, i)->value > 0);
    }
    bench_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_of_alternating_repeats),
        cmocka_unit_test(bars_hold_at_their_limit),
        cmocka_unit_test(percentiles),
        cmocka_unit_test(a_failing_benchmark_gives_a_failed_row),
        cmocka_unit_test(a_server_is_there_when_it_said_so),
        cmocka_unit_test(only_rows_that_are_wanted),
        cmocka_unit_test(json_has_every_key),
        cmocka_unit_test(the_limits_can_be_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
