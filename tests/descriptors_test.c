/* descriptors_test.c — more actors than the soft limit of open files allows, and the error where the hard limit is too
 * low. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "tests/support/runtime_fixture.h"
#include "tests/support/test_child.h"

enum { SOFT = 64, ACTORS = 40 };

static mr_context *mr;

static bool limit_files(bool hard_too) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
    limit.rlim_cur = SOFT;
    if (hard_too) limit.rlim_max = SOFT;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* Number of actors that answer; `text`: the error of the first actor that does not. */
static int hear(char text[1024]) {
    static mr_actor actors[ACTORS];
    mr_ref ref;
    mr_value value;
    int heard = 0;
    text[0] = '\0';
    for (int i = 0; i < ACTORS; i++) {
        mr_status status = mr_new_actor(mr, "Sleeper", &actors[i]);
        if (status == MR_OK) status = mr_call_actor(mr, actors[i], "hello", &ref);
        if (status == MR_OK) status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
        if (status == MR_OK) mr_value_release(&value);
        heard += status == MR_OK;
        if (status == MR_OK || text[0] != '\0') continue;
        snprintf(text, 1024, "%s", mr_last_error());
        break;
    }
    return heard;
}

static int have_many(void *argument) {
    char text[1024];
    TEST_CHILD_CHECK(limit_files(false));
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    int heard = hear(text);
    if (heard != ACTORS) fprintf(stderr, "    only %d actors: %s\n", heard, text);
    TEST_CHILD_CHECK(heard == ACTORS);
    mr_shutdown(mr);
    return 0;
}

static void a_low_soft_limit_is_raised(void **state) {
    assert_int_equal(test_child_run(have_many, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "many actors");
}

static int have_too_few(void *argument) {
    char text[1024];
    TEST_CHILD_CHECK(limit_files(true));
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    int heard = hear(text);
    fprintf(stderr, "    %d actors, then: %s\n", heard, text);
    TEST_CHILD_CHECK(heard < ACTORS && strstr(text, "ulimit") != NULL);
    mr_shutdown(mr);
    return 0;
}

static void a_low_hard_limit_is_named(void **state) {
    assert_int_equal(test_child_run(have_too_few, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "too few descriptors");
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {IN_A_WORLD(a_low_soft_limit_is_raised), IN_A_WORLD(a_low_hard_limit_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
