/* metrics_test.c — names, instruments, and snapshots in both formats. */
#include "base/metrics.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"

static int start(void **state) {
    metrics *metrics;
    if (metrics_create(&metrics) != MR_OK) return 1;
    *state = metrics;
    return 0;
}

static int stop(void **state) {
    metrics_destroy(*state);
    return 0;
}

static counter *new_counter(metrics *metrics, const char *name, const char *help) {
    counter *counter = NULL;
    assert_int_equal(metrics_counter(metrics, name, help, &counter), MR_OK);
    return counter;
}

static gauge *new_gauge(metrics *metrics, const char *name, const char *help) {
    gauge *gauge = NULL;
    assert_int_equal(metrics_gauge(metrics, name, help, &gauge), MR_OK);
    return gauge;
}

static histogram *new_histogram(metrics *metrics, const char *name, const char *help) {
    histogram *histogram = NULL;
    assert_int_equal(metrics_histogram(metrics, name, help, &histogram), MR_OK);
    return histogram;
}

static void instruments_count(void **state) {
    counter *sent = new_counter(*state, "sent_total", "sent");
    gauge *open = new_gauge(*state, "open", "open now");
    histogram *wait = new_histogram(*state, "wait_us", "waited");
    assert_int_equal((uintptr_t)sent % 64, 0); /* no two instruments share a cache line */
    assert_int_equal((uintptr_t)open % 64, 0);
    assert_int_equal(counter_value(sent), 0);
    counter_add(sent, 1);
    counter_add(sent, 41);
    assert_int_equal(counter_value(sent), 42);
    gauge_set(open, 5);
    gauge_add(open, -7);
    assert_true(gauge_value(open) == -2);
    histogram_record(wait, 9);
    assert_int_equal(histogram_count(wait), 1);
}

static void a_name_means_one_instrument(void **state) {
    counter *counter = new_counter(*state, "sent_total", "sent"), *again = NULL;
    gauge *gauge = new_gauge(*state, "open", "open now");
    assert_int_equal(metrics_counter(*state, "sent_total", "asked for again", &again), MR_OK);
    assert_ptr_equal(again, counter);
    histogram *histogram = NULL;
    assert_int_equal(metrics_histogram(*state, "open", "other kind", &histogram), MR_EXISTS);
    assert_null(histogram);
    assert_non_null(strstr(mr_last_error(), "metric 'open' exists already as a gauge"));
    struct gauge *same = NULL;
    assert_int_equal(metrics_gauge(*state, "open", "open now", &same), MR_OK);
    assert_ptr_equal(same, gauge);
}

static void two_registries_count_apart(void **state) {
    metrics *other;
    assert_int_equal(metrics_create(&other), MR_OK);
    counter *a = new_counter(*state, "sent_total", "sent"), *b = new_counter(other, "sent_total", "sent");
    counter_add(a, 1);
    assert_int_equal(counter_value(b), 0);
    metrics_destroy(other);
    metrics_destroy(NULL);
}

static void bad_names_are_refused(void **state) {
    const char *const bad[] = {
        "",         "a b",        "a-b",     "A",
        "9a",       "_a",         "a:b",     "a.b",
        "é",        "a\n",        "a_sum",   "a_count",
        "a_bucket", "a{x=\"1\"}", "a_total", "abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz_abcdefghij"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gauge *gauge = NULL;
        assert_int_equal(metrics_gauge(*state, bad[i], "help", &gauge), MR_INVALID);
        assert_null(gauge);
    }
    counter *counter = NULL;
    assert_int_equal(metrics_counter(*state, "sent", "help", &counter), MR_INVALID);
    assert_int_equal(metrics_counter(*state, "_total", "help", &counter), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "'_total'"));
    new_gauge(*state, "a", "one letter is enough");
    new_gauge(*state, "a9_bc_de__f", "help");
    new_gauge(*state, "abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz_abcdefghi", "63 letters");
    new_gauge(*state, "sum", "ends in no more than itself");
}

static void help_is_one_line(void **state) {
    char help[METRICS_HELP_MAX + 2];
    gauge *gauge = NULL;
    memset(help, 'x', sizeof help);
    help[METRICS_HELP_MAX + 1] = '\0';
    assert_int_equal(metrics_gauge(*state, "a", help, &gauge), MR_INVALID);
    assert_int_equal(metrics_gauge(*state, "a", "", &gauge), MR_INVALID);
    assert_int_equal(metrics_gauge(*state, "a", "two\nlines", &gauge), MR_INVALID);
    assert_null(gauge);
    help[METRICS_HELP_MAX] = '\0';
    new_gauge(*state, "a", help);
}

static void their_number_is_bounded(void **state) {
    char name[32];
    for (int i = 0; i < METRICS_MAX; i++) {
        snprintf(name, sizeof name, "g%d", i);
        new_gauge(*state, name, "one of many");
    }
    gauge *gauge = NULL;
    assert_int_equal(metrics_gauge(*state, "one_more", "too many", &gauge), MR_TOO_LARGE);
    assert_int_equal(metrics_gauge(*state, "g7", "there already", &gauge), MR_OK);
}

static void fill(metrics *metrics) {
    counter_add(new_counter(metrics, "sent_total", "sent \\ \"so far\""), UINT64_MAX);
    gauge_set(new_gauge(metrics, "left", "below\tzero"), INT64_MIN);
    histogram *wait = new_histogram(metrics, "wait_us", "waited");
    const uint64_t values[] = {0, 1, 1, 5, 6, 1000};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) histogram_record(wait, values[i]);
    new_histogram(metrics, "empty_us", "never recorded");
}

static void assert_text(buffer *buffer, const char *expected) {
    assert_int_equal(buffer_append(buffer, "", 1), MR_OK);
    assert_string_equal((const char *)buffer->data, expected);
    buffer_fini(buffer);
}

static void prometheus_reads_it(void **state) {
    buffer buffer = {.limit = 65536};
    fill(*state);
    assert_int_equal(metrics_prometheus(*state, &buffer), MR_OK);
    assert_text(&buffer, "# HELP miniray_sent_total sent \\\\ \"so far\"\n"
                         "# TYPE miniray_sent_total counter\n"
                         "miniray_sent_total 18446744073709551615\n"
                         "# HELP miniray_left below\tzero\n"
                         "# TYPE miniray_left gauge\n"
                         "miniray_left -9223372036854775808\n"
                         "# HELP miniray_wait_us waited\n"
                         "# TYPE miniray_wait_us histogram\n"
                         "miniray_wait_us_bucket{le=\"0\"} 1\n"
                         "miniray_wait_us_bucket{le=\"1\"} 3\n"
                         "miniray_wait_us_bucket{le=\"3\"} 3\n"
                         "miniray_wait_us_bucket{le=\"7\"} 5\n"
                         "miniray_wait_us_bucket{le=\"15\"} 5\n"
                         "miniray_wait_us_bucket{le=\"31\"} 5\n"
                         "miniray_wait_us_bucket{le=\"63\"} 5\n"
                         "miniray_wait_us_bucket{le=\"127\"} 5\n"
                         "miniray_wait_us_bucket{le=\"255\"} 5\n"
                         "miniray_wait_us_bucket{le=\"511\"} 5\n"
                         "miniray_wait_us_bucket{le=\"1023\"} 6\n"
                         "miniray_wait_us_bucket{le=\"+Inf\"} 6\n"
                         "miniray_wait_us_sum 1013\n"
                         "miniray_wait_us_count 6\n"
                         "# HELP miniray_empty_us never recorded\n"
                         "# TYPE miniray_empty_us histogram\n"
                         "miniray_empty_us_bucket{le=\"0\"} 0\n"
                         "miniray_empty_us_bucket{le=\"+Inf\"} 0\n"
                         "miniray_empty_us_sum 0\n"
                         "miniray_empty_us_count 0\n");
}

static void the_largest_record_has_its_bucket(void **state) {
    buffer buffer = {.limit = 65536};
    histogram_record(new_histogram(*state, "h", "help"), UINT64_MAX);
    assert_int_equal(metrics_prometheus(*state, &buffer), MR_OK);
    assert_int_equal(buffer_append(&buffer, "", 1), MR_OK);
    assert_non_null(strstr((char *)buffer.data, "{le=\"9223372036854775807\"} 0\n"));
    assert_non_null(strstr((char *)buffer.data, "{le=\"18446744073709551615\"} 1\n"));
    buffer_fini(&buffer);
}

static void json_has_it(void **state) {
    buffer buffer = {.limit = 65536};
    assert_int_equal(metrics_json(*state, &buffer), MR_OK);
    assert_text(&buffer, "{}");
    fill(*state);
    assert_int_equal(metrics_json(*state, &buffer), MR_OK);
    assert_text(&buffer, "{\"sent_total\":{\"kind\":\"counter\",\"help\":\"sent \\\\ \\\"so far\\\"\","
                         "\"value\":18446744073709551615},"
                         "\"left\":{\"kind\":\"gauge\",\"help\":\"below\\tzero\",\"value\":-9223372036854775808},"
                         "\"wait_us\":{\"kind\":\"histogram\",\"help\":\"waited\",\"count\":6,\"sum\":1013,"
                         "\"min\":0,\"p50\":1,\"p90\":1000,\"p99\":1000,\"p999\":1000,\"max\":1000},"
                         "\"empty_us\":{\"kind\":\"histogram\",\"help\":\"never recorded\",\"count\":0,\"sum\":0,"
                         "\"min\":0,\"p50\":0,\"p90\":0,\"p99\":0,\"p999\":0,\"max\":0}}");
}

static void a_small_buffer_is_a_status(void **state) {
    fill(*state);
    buffer text = {.limit = 65536}, json = {.limit = 65536};
    assert_int_equal(metrics_prometheus(*state, &text), MR_OK);
    assert_int_equal(metrics_json(*state, &json), MR_OK);
    for (size_t limit = 0; limit < text.size; limit += 7) {
        buffer small = {.limit = limit};
        assert_int_equal(metrics_prometheus(*state, &small), MR_TOO_LARGE);
        buffer_clear(&small);
        if (limit < json.size) assert_int_equal(metrics_json(*state, &small), MR_TOO_LARGE);
        buffer_fini(&small);
    }
    buffer_fini(&text);
    buffer_fini(&json);
}

static void failing_allocations_leave_it_intact(void **state) {
    metrics *none = NULL;
    alloc_fail_at(1);
    assert_int_equal(metrics_create(&none), MR_NOMEM);
    assert_null(none);
    new_counter(*state, "a_total", "help");
    for (size_t nth = 1; nth <= 2; nth++) {
        histogram *histogram = NULL;
        alloc_fail_at(nth);
        assert_int_equal(metrics_histogram(*state, "h", "help", &histogram), MR_NOMEM);
        assert_null(histogram);
    }
    alloc_fail_at(0);
    buffer buffer = {.limit = 4096};
    assert_int_equal(metrics_json(*state, &buffer), MR_OK);
    assert_text(&buffer, "{\"a_total\":{\"kind\":\"counter\",\"help\":\"help\",\"value\":0}}");
    histogram_record(new_histogram(*state, "h", "help"), 1);
}

enum { THREADS = 3, ADDS = 20000 };

static void *counts_often(void *counter) {
    for (int i = 0; i < ADDS; i++) counter_add(counter, 1);
    return NULL;
}

/* One thread registers and others count while snapshots are made. */
static void threads_count_while_it_is_read(void **state) {
    counter *counter = new_counter(*state, "sent_total", "sent");
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, counts_often, counter), 0);
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "h%d", i);
        new_histogram(*state, name, "help");
        buffer buffer = {.limit = 65536};
        assert_int_equal(metrics_prometheus(*state, &buffer), MR_OK);
        buffer_fini(&buffer);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(counter_value(counter), THREADS * ADDS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(instruments_count),
        TEST(a_name_means_one_instrument),
        TEST(two_registries_count_apart),
        TEST(bad_names_are_refused),
        TEST(help_is_one_line),
        TEST(their_number_is_bounded),
        TEST(prometheus_reads_it),
        TEST(the_largest_record_has_its_bucket),
        TEST(json_has_it),
        TEST(a_small_buffer_is_a_status),
        TEST(failing_allocations_leave_it_intact),
        TEST(threads_count_while_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
