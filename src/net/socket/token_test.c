/* token_test.c — token files: created, read, refused; copies for the same user; where a process finds a token. Every
 * test has a TMPDIR of its own. */
#include "net/socket/token.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
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
#include "tests/support/test_child.h"

#define ADDRESS "tcp:127.0.0.1:7000"

typedef struct fixture {
    char folder[TEMP_DIR_FOLDER_MAX], base[USER_DIR_MAX], path[TEMP_DIR_FOLDER_MAX + 16];
    char before[PATH_MAX]; /* TMPDIR before the test */
} fixture;

static int setup(void **state) {
    fixture *fixture = calloc(1, sizeof *fixture);
    *state = fixture;
    if (!temp_dir_folder(fixture->folder)) return 1;
    snprintf(fixture->before, sizeof fixture->before, "%s", getenv("TMPDIR") == NULL ? "/tmp" : getenv("TMPDIR"));
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv(TOKEN_VARIABLE);
    setenv("TMPDIR", fixture->folder, 1);
    assert_int_equal(user_dir_find(fixture->base), MR_OK);
    snprintf(fixture->path, sizeof fixture->path, "%s/token", fixture->folder);
    return 0;
}

static int teardown(void **state) {
    fixture *fixture = *state;
    int left = rmdir(fixture->folder);
    if (left != 0) print_error("%s is not empty\n", fixture->folder);
    setenv("TMPDIR", fixture->before, 1);
    free(fixture);
    return left;
}

static void write_text(const char *path, const char *text, mode_t mode) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void a_scheduler_creates_one_token(void **state) {
    fixture *fixture = *state;
    token first, second, other;
    struct stat stat;
    mode_t mask = umask(0);
    assert_int_equal(token_obtain(fixture->folder, &first), MR_OK);
    umask(mask);
    assert_int_equal(lstat(fixture->path, &stat), 0);
    assert_int_equal(stat.st_mode, S_IFREG | 0600);
    assert_int_equal(stat.st_size, 65);
    assert_int_equal(token_obtain(fixture->folder, &second), MR_OK); /* a second start has the same token */
    assert_memory_equal(&first, &second, sizeof first);
    assert_int_equal(unlink(fixture->path), 0);
    assert_int_equal(token_obtain(fixture->folder, &other), MR_OK);
    assert_memory_not_equal(&first, &other, sizeof first);
    assert_int_equal(unlink(fixture->path), 0);

    setenv(TOKEN_VARIABLE, fixture->path, 1);
    assert_int_equal(token_obtain("/nowhere", &first), MR_OK); /* the variable comes first */
    assert_int_equal(token_read(fixture->path, &second), MR_OK);
    assert_memory_equal(&first, &second, sizeof first);
    assert_int_equal(unlink(fixture->path), 0);
}

static void only_private_files_are_read(void **state) {
    fixture *fixture = *state;
    static const char good[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1B1C1D1E1F\n";
    static const char *const bad[] = {"",
                                      "\n",
                                      "0",
                                      "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1",
                                      "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1g",
                                      "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n\n",
                                      "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f "};
    token token;
    assert_int_equal(token_read(fixture->path, &token), MR_NOT_FOUND);
    write_text(fixture->path, good, 0600);
    assert_int_equal(token_read(fixture->path, &token), MR_OK);
    for (int i = 0; i < TOKEN_SIZE; i++) assert_int_equal(token.bytes[i], i);
    static const mode_t open_modes[] = {0640, 0604, 0620, 0666};
    for (size_t i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
        assert_int_equal(chmod(fixture->path, open_modes[i]), 0);
        assert_int_equal(token_read(fixture->path, &token), MR_DENIED);
        assert_non_null(strstr(mr_last_error(), "chmod 600"));
        assert_int_equal(token_obtain(fixture->folder, &token), MR_DENIED); /* and is not replaced */
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text(fixture->path, bad[i], 0600);
        assert_int_equal(token_read(fixture->path, &token), MR_CORRUPT);
        assert_null(strstr(mr_last_error(), "0001020304")); /* no content in errors */
    }
    assert_int_equal(unlink(fixture->path), 0);
    char elsewhere[TEMP_DIR_FOLDER_MAX + 16];
    snprintf(elsewhere, sizeof elsewhere, "%s/else", fixture->folder);
    write_text(elsewhere, good, 0600);
    assert_int_equal(symlink(elsewhere, fixture->path), 0);
    assert_int_equal(token_read(fixture->path, &token), MR_DENIED);
    assert_int_equal(token_obtain(fixture->folder, &token), MR_DENIED);
    if (geteuid() == 0) {
        assert_int_equal(chown(elsewhere, 4711, 4711), 0);
        assert_int_equal(token_read(elsewhere, &token), MR_DENIED);
        assert_non_null(strstr(mr_last_error(), "belongs to user 4711"));
    }
    assert_int_equal(unlink(fixture->path), 0);
    assert_int_equal(unlink(elsewhere), 0);
    assert_int_equal(mkdir(fixture->path, 0700), 0);
    assert_int_equal(token_read(fixture->path, &token), MR_DENIED);
    assert_int_equal(rmdir(fixture->path), 0);
}

static void the_same_user_finds_the_copy(void **state) {
    fixture *fixture = *state;
    token_finder finder, other;
    token_copy copy = {0};
    token token = {{1, 2, 3}}, found;
    struct stat stat;
    assert_int_equal(token_finder_init(&finder, ADDRESS), MR_OK);
    assert_int_equal(token_finder_init(&other, "tcp:127.0.0.1:7001"), MR_OK);
    assert_true(token_finder_may_find(&finder));
    assert_int_equal(token_finder_find(&finder, &found), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "no token for " ADDRESS ": "));
    assert_non_null(strstr(mr_last_error(), "/token-127.0.0.1:7000 does not exist"));
    assert_non_null(strstr(mr_last_error(), "set the variable"));
    assert_int_equal(token_copy_create(ADDRESS, &token, &copy), MR_OK);
    assert_int_equal(lstat(copy.path, &stat), 0);
    assert_int_equal(stat.st_mode, S_IFREG | 0600);
    assert_int_equal(token_finder_find(&finder, &found), MR_OK);
    assert_memory_equal(&found, &token, sizeof token);
    assert_int_equal(token_finder_find(&other, &found), MR_NOT_FOUND);

    assert_int_equal(chmod(fixture->base, 0755), 0); /* anybody might have replaced the copy */
    assert_int_equal(token_finder_init(&other, ADDRESS), MR_OK);
    assert_int_equal(token_finder_find(&other, &found), MR_NOT_FOUND);
    assert_int_equal(chmod(fixture->base, 0700), 0);
    assert_int_equal(token_finder_find(&other, &found), MR_OK);

    token_copy_remove(&copy);
    assert_int_equal(access(fixture->base, F_OK), -1);
    assert_int_equal(token_finder_find(&finder, &found), MR_OK); /* the one found last remains */
    assert_memory_equal(&found, &token, sizeof token);
    token.bytes[0] = 9;
    assert_int_equal(token_copy_create(ADDRESS, &token, &copy), MR_OK); /* another scheduler there */
    assert_int_equal(token_finder_find(&finder, &found), MR_OK);
    assert_memory_equal(&found, &token, sizeof token);
    token_copy_remove(&copy);
    token_copy_remove(&copy);
}

static void the_variable_comes_first(void **state) {
    fixture *fixture = *state;
    token_finder finder;
    token given, found, own = {{7}};
    assert_int_equal(token_obtain(fixture->folder, &given), MR_OK);
    setenv(TOKEN_VARIABLE, fixture->path, 1);
    assert_int_equal(token_finder_init(&finder, "unix:/some/where"), MR_OK);
    assert_true(token_finder_may_find(&finder));
    setenv(TOKEN_VARIABLE, "", 1); /* read by token_finder_init only */
    assert_int_equal(token_finder_find(&finder, &found), MR_OK);
    assert_memory_equal(&found, &given, sizeof found);
    token_finder_own(&finder, &own);
    assert_int_equal(token_finder_find(&finder, &found), MR_OK);
    assert_memory_equal(&found, &own, sizeof found);
    assert_int_equal(unlink(fixture->path), 0);

    assert_int_equal(token_finder_init(&finder, "unix:/some/where"), MR_OK);
    assert_false(token_finder_may_find(&finder));
    assert_int_equal(token_finder_find(&finder, &found), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), TOKEN_VARIABLE));
    assert_int_equal(token_finder_init(&finder, "nowhere"), MR_INVALID);
    char relative[PATH_MAX] = {0};
    assert_non_null(getcwd(relative, sizeof relative - 10));
    strcat(relative, "/some");
    setenv(TOKEN_VARIABLE, "some", 1);
    assert_int_equal(token_finder_init(&finder, ADDRESS), MR_OK);
    assert_string_equal(finder.given, relative);
    assert_int_equal(token_finder_find(&finder, &found), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), relative));
}

static int hold_a_copy(void *argument) {
    token_copy copy = {0};
    TEST_CHILD_CHECK(token_copy_create("tcp:127.0.0.1:7001", &(token){{1}}, &copy) == MR_OK);
    TEST_CHILD_CHECK(write(*(int *)argument, "", 1) == 1);
    for (;;) pause();
}

/* A killed scheduler leaves its copy; the next scheduler of any deployment removes it, but not that of a living one. */
static void copies_of_killed_schedulers_are_removed(void **state) {
    fixture *fixture = *state;
    char byte, theirs[USER_DIR_MAX + 32];
    int pipes[2];
    token_copy copy = {0};
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = test_child_start(hold_a_copy, &pipes[1]);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    snprintf(theirs, sizeof theirs, "%s/token-127.0.0.1:7001", fixture->base);
    assert_int_equal(token_copy_create(ADDRESS, &(token){{1}}, &copy), MR_OK);
    assert_int_equal(access(theirs, F_OK), 0);
    token_copy_remove(&copy);
    assert_int_equal(kill(pid, SIGKILL), 0);
    (void)test_child_wait(pid, 60000);
    assert_int_equal(access(theirs, F_OK), 0);
    assert_int_equal(token_copy_create(ADDRESS, &(token){{1}}, &copy), MR_OK);
    assert_int_equal(access(theirs, F_OK), -1);
    assert_int_equal(access(copy.path, F_OK), 0);
    token_copy_remove(&copy);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_scheduler_creates_one_token),
        TEST(only_private_files_are_read),
        TEST(the_same_user_finds_the_copy),
        TEST(the_variable_comes_first),
        TEST(copies_of_killed_schedulers_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
