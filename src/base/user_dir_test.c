/* user_dir_test.c — choice and access rights of the user's private directory. Every test has a TMPDIR of its own. */
#include "base/user_dir.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/temp_dir.h"
#include "tests/support/test_child.h"

typedef struct fixture {
    char folder[TEMP_DIR_FOLDER_MAX], path[USER_DIR_MAX];
    char before[200]; /* TMPDIR before the test */
} fixture;

static int setup(void **state) {
    fixture *fixture = calloc(1, sizeof *fixture);
    *state = fixture;
    unsetenv("XDG_RUNTIME_DIR");
    if (!temp_dir_folder(fixture->folder)) return 1;
    snprintf(fixture->before, sizeof fixture->before, "%s", getenv("TMPDIR") == NULL ? "/tmp" : getenv("TMPDIR"));
    setenv("TMPDIR", fixture->folder, 1);
    snprintf(fixture->path, sizeof fixture->path, "%s/miniray-%u", fixture->folder, (unsigned)geteuid());
    return 0;
}

static int teardown(void **state) {
    fixture *fixture = *state;
    int left = rmdir(fixture->folder);
    setenv("TMPDIR", fixture->before, 1);
    free(fixture);
    return left;
}

static void the_environment_chooses(void **state) {
    const fixture *fixture = *state;
    char path[USER_DIR_MAX], own[TEMP_DIR_FOLDER_MAX + 8], expected[USER_DIR_MAX];
    assert_int_equal(user_dir_find(path), MR_OK);
    assert_string_equal(path, fixture->path);
    assert_false(user_dir_is_private(path)); /* nothing was created */
    assert_int_equal(user_dir_open(path), MR_OK);
    assert_string_equal(path, fixture->path);
    assert_true(user_dir_is_private(path));
    snprintf(own, sizeof own, "%s/own", fixture->folder);
    assert_int_equal(mkdir(own, 0700), 0);
    setenv("XDG_RUNTIME_DIR", own, 1);
    assert_int_equal(user_dir_find(path), MR_OK);
    snprintf(expected, sizeof expected, "%s/miniray", own);
    assert_string_equal(path, expected);
    assert_int_equal(chmod(own, 0755), 0); /* open to other users */
    assert_int_equal(user_dir_find(path), MR_OK);
    assert_string_equal(path, fixture->path);
    unsetenv("XDG_RUNTIME_DIR");
    rmdir(own);
    rmdir(fixture->path);
}

/* Neither creates anything in the fixture's directory; both choose the same place. */
static void is_elsewhere(const fixture *fixture) {
    char path[USER_DIR_MAX], found[USER_DIR_MAX];
    assert_int_equal(user_dir_find(found), MR_OK);
    assert_int_equal(user_dir_open(path), MR_OK);
    assert_string_equal(path, found);
    assert_true(user_dir_is_private(path));
    assert_int_not_equal(strncmp(path, fixture->folder, strlen(fixture->folder)), 0);
    rmdir(path); /* unless a node uses it */
}

static void a_directory_that_others_can_reach_is_passed_over(void **state) {
    const fixture *fixture = *state;
    assert_int_equal(mkdir(fixture->path, 0755), 0);
    assert_int_equal(chmod(fixture->path, 0755), 0);
    is_elsewhere(fixture);
    rmdir(fixture->path);
    assert_int_equal(symlink("/tmp", fixture->path), 0);
    is_elsewhere(fixture);
    unlink(fixture->path);
    if (geteuid() != 0) return;
    assert_int_equal(mkdir(fixture->path, 0700), 0); /* another user was first */
    assert_int_equal(chown(fixture->path, 12345, 12345), 0);
    is_elsewhere(fixture);
    rmdir(fixture->path);
}

static void a_missing_place_is_passed_over(void **state) {
    const fixture *fixture = *state;
    char missing[TEMP_DIR_FOLDER_MAX + 8];
    snprintf(missing, sizeof missing, "%s/none", fixture->folder);
    setenv("TMPDIR", missing, 1);
    is_elsewhere(fixture);
    setenv("TMPDIR", "relative", 1);
    is_elsewhere(fixture);
    setenv("TMPDIR", fixture->folder, 1);
}

static void the_list_begins_with_the_choice(void **state) {
    const fixture *fixture = *state;
    char list[USER_DIRS][USER_DIR_MAX], tmp[USER_DIR_MAX];
    unsigned count = user_dir_list(list);
    assert_in_range(count, 4, USER_DIRS);
    assert_string_equal(list[0], fixture->path);
    snprintf(tmp, sizeof tmp, "/tmp/miniray-%u", (unsigned)geteuid());
    assert_string_equal(list[1], tmp);
}

/* In a mount namespace of its own, another user has been first at every place. */
static int find_no_place(void *argument) {
    static const char *const places[] = {"/tmp", "/dev/shm", "/var/tmp", "/run"};
    char path[USER_DIR_MAX];
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return 77;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (mount("none", places[i], "tmpfs", 0, NULL) != 0) return 77;
        snprintf(path, sizeof path, "%s/miniray-%u", places[i], (unsigned)geteuid());
        TEST_CHILD_CHECK(mkdir(path, 0700) == 0 && chown(path, 12345, 12345) == 0);
    }
    setenv("TMPDIR", "/tmp", 1);
    TEST_CHILD_CHECK(user_dir_open(path) == MR_DENIED);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "/tmp/miniray-0 is not a directory of this user") != NULL);
    TEST_CHILD_CHECK(user_dir_find(path) == MR_DENIED);
    return 0;
}

static void without_a_place_the_first_is_named(void **state) {
    int code = test_child_run(find_no_place, NULL, 10000);
    if (code == 77) skip(); /* only root may mount */
    assert_int_equal(code, 0);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(the_environment_chooses),
        IN_A_FOLDER(a_directory_that_others_can_reach_is_passed_over),
        IN_A_FOLDER(a_missing_place_is_passed_over),
        IN_A_FOLDER(the_list_begins_with_the_choice),
        IN_A_FOLDER(without_a_place_the_first_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
