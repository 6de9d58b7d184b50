/* new_file_test.c — planted links, files of other users, and files with several names are not written to. */
#include "base/new_file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/temp_dir.h"

typedef struct fixture {
    char folder[TEMP_DIR_FOLDER_MAX];
    char path[TEMP_DIR_FOLDER_MAX + 8], victim[TEMP_DIR_FOLDER_MAX + 8];
} fixture;

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void has(const char *path, const char *expected) {
    char text[32] = "";
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    (void)!fgets(text, sizeof text, file);
    fclose(file);
    assert_string_equal(text, expected);
}

static int setup(void **state) {
    fixture *fixture = calloc(1, sizeof *fixture);
    *state = fixture;
    if (!temp_dir_folder(fixture->folder)) return 1;
    snprintf(fixture->path, sizeof fixture->path, "%s/out", fixture->folder);
    snprintf(fixture->victim, sizeof fixture->victim, "%s/victim", fixture->folder);
    put(fixture->victim, "precious");
    return 0;
}

static int teardown(void **state) {
    fixture *fixture = *state;
    unlink(fixture->path);
    unlink(fixture->victim);
    int left = rmdir(fixture->folder);
    free(fixture);
    return left;
}

static void write_and_close(int fd) {
    assert_true(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    assert_int_equal(write(fd, "new", 3), 3);
    close(fd);
}

static void a_created_file_replaces_what_was_planted(void **state) {
    const fixture *fixture = *state;
    struct stat stat;
    write_and_close(new_file_create(fixture->path, 0600));
    assert_int_equal(lstat(fixture->path, &stat), 0);
    assert_int_equal(stat.st_mode & 07777, 0600);
    unlink(fixture->path);
    assert_int_equal(symlink(fixture->victim, fixture->path), 0);
    write_and_close(new_file_create(fixture->path, 0600));
    has(fixture->path, "new");
    has(fixture->victim, "precious");
    unlink(fixture->path);
    assert_int_equal(link(fixture->victim, fixture->path), 0);
    write_and_close(new_file_create(fixture->path, 0600));
    has(fixture->path, "new");
    has(fixture->victim, "precious");
    assert_int_equal(new_file_create("/nowhere/at/all", 0600), -1);
}

static void an_output_file_is_the_users_own(void **state) {
    const fixture *fixture = *state;
    int fd = -1;
    assert_int_equal(new_file_open(fixture->path, 0600, &fd), MR_OK);
    write_and_close(fd);
    put(fixture->path, "something longer");
    assert_int_equal(new_file_open(fixture->path, 0600, &fd), MR_OK);
    write_and_close(fd);
    has(fixture->path, "new");
    assert_int_equal(new_file_open("/dev/null", 0600, &fd), MR_OK);
    write_and_close(fd);
    assert_int_equal(new_file_open("/nowhere/at/all", 0600, &fd), MR_IO);
}

static void denied(const fixture *fixture, const char *why) {
    int fd = -1;
    assert_int_equal(new_file_open(fixture->path, 0600, &fd), MR_DENIED);
    assert_non_null(strstr(mr_last_error(), why));
    assert_int_equal(fd, -1);
    has(fixture->victim, "precious");
    unlink(fixture->path);
}

static void what_was_planted_is_no_output_file(void **state) {
    const fixture *fixture = *state;
    assert_int_equal(symlink(fixture->victim, fixture->path), 0);
    denied(fixture, "is a symbolic link");
    assert_int_equal(link(fixture->victim, fixture->path), 0);
    denied(fixture, "is a file with 2 names");
    if (geteuid() != 0) return;
    put(fixture->path, "theirs");
    assert_int_equal(chown(fixture->path, 12345, 12345), 0);
    denied(fixture, "belongs to user 12345");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_created_file_replaces_what_was_planted, setup, teardown),
        cmocka_unit_test_setup_teardown(an_output_file_is_the_users_own, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_planted_is_no_output_file, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
