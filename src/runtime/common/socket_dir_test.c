/* socket_dir_test.c — socket directories are removed with their session; other directories are not. */
#include "runtime/common/socket_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/temp_dir.h"

static void fill(const char *folder) {
    char path[SOCKET_DIR_MAX + 32];
    snprintf(path, sizeof path, "%s/within", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/within/file", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

static void it_goes_with_all_that_is_in_it(void **state) {
    char run[TEMP_DIR_FOLDER_MAX];
    socket_dir one, other;
    assert_true(temp_dir_folder(run));
    assert_int_equal(socket_dir_open(run, "ps-", &one), MR_OK);
    assert_int_equal(socket_dir_open(run, "ps-", &other), MR_OK);
    assert_string_not_equal(one.path, other.path);
    fill(one.path);
    fill(other.path);
    socket_dir_close(&one);
    assert_int_not_equal(access(one.path, F_OK), 0);
    socket_dir_clear(other.link);
    assert_int_not_equal(access(other.path, F_OK), 0);
    assert_true(temp_dir_is_empty(run));
    rmdir(run);
}

static void a_link_to_something_else_stays(void **state) {
    char run[TEMP_DIR_FOLDER_MAX], open[TEMP_DIR_FOLDER_MAX], link[TEMP_DIR_FOLDER_MAX + 8];
    assert_true(temp_dir_folder(run) && temp_dir_folder(open));
    assert_int_equal(chmod(open, 0755), 0); /* open to other users: not a socket directory */
    snprintf(link, sizeof link, "%s/link", run);
    assert_int_equal(symlink(open, link), 0);
    socket_dir_clear(link);
    assert_int_equal(access(open, F_OK), 0);
    unlink(link);
    rmdir(open);
    assert_int_equal(symlink("ps-relative", link), 0);
    socket_dir_clear(link);
    struct stat stat;
    assert_int_equal(lstat(link, &stat), 0);
    unlink(link);
    rmdir(run);
}

static void a_run_that_is_not_there(void **state) {
    socket_dir dir;
    assert_int_not_equal(socket_dir_open("/nowhere/at/all", "ps-", &dir), MR_OK);
    assert_int_equal(socket_dir_open("/nowhere", "a prefix that is far too long for it", &dir), MR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_with_all_that_is_in_it),
        cmocka_unit_test(a_link_to_something_else_stays),
        cmocka_unit_test(a_run_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
