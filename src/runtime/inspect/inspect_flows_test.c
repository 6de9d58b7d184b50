/* inspect_flows_test.c — which slice of a timeline is the source of the arrow to another. */
#include "runtime/inspect/inspect_flows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { DRIVER = 2, WORKER = 3, OTHER = 4 };

static void add(inspect_slices *slices, inspect_slice slice) {
    assert_int_equal(inspect_slices_add(slices, &slice), MR_OK);
}

static int64_t source(const inspect_slices *slices, inspect_slice body) { /* begin of the source; -1: none */
    const inspect_slice *found = inspect_source_of(slices, &body);
    return found == NULL ? -1 : found->begun_us;
}

static void calls_of_a_driver(void **state) {
    inspect_slices slices = {0};
    inspect_slices_sort(&slices);
    assert_int_equal(source(&slices, (inspect_slice){.process = WORKER, .other = DRIVER}), -1);
    add(&slices, (inspect_slice){.process = DRIVER, .other = OTHER, .call = 7, .begun_us = 350, .submits = true});
    add(&slices, (inspect_slice){.process = DRIVER, .other = WORKER, .call = 9, .begun_us = 300, .submits = true});
    add(&slices, (inspect_slice){.process = DRIVER, .other = WORKER, .call = 7, .begun_us = 100, .submits = true});
    add(&slices, (inspect_slice){.process = OTHER, .other = WORKER, .call = 7, .begun_us = 390, .submits = true});
    inspect_slices_sort(&slices);
    inspect_slice body = {.process = WORKER, .other = DRIVER, .call = 7, .begun_us = 400};
    assert_int_equal(source(&slices, body), 100); /* the numbers match */
    body.call = 8;
    assert_int_equal(source(&slices, body), 300); /* no number matches: the newest call before the body */
    body.begun_us = 90;
    assert_int_equal(source(&slices, body), -1);
    body.call = 7; /* the body began before its caller recorded the call */
    assert_int_equal(source(&slices, body), 100);
    body.other = 99;
    assert_int_equal(source(&slices, body), -1);
    inspect_slices_fini(&slices);
}

static void bodies_that_call(void **state) {
    inspect_slices slices = {0};
    add(&slices, (inspect_slice){.process = OTHER, .begun_us = 100, .ended_us = 200});
    add(&slices, (inspect_slice){.process = OTHER, .begun_us = 300, .ended_us = 500});
    inspect_slices_sort(&slices);
    inspect_slice body = {.process = WORKER, .other = OTHER, .call = 1, .begun_us = 400};
    assert_int_equal(source(&slices, body), 300);
    body.begun_us = 250; /* no body of that process ran at that time */
    assert_int_equal(source(&slices, body), -1);
    body.begun_us = 150;
    assert_int_equal(source(&slices, body), 100);
    inspect_slices_fini(&slices);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_of_a_driver), cmocka_unit_test(bodies_that_call)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
