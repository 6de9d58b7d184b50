/* session_dir_test.c — paths, access rights and removal of session directories. Every test has a TMPDIR of its own. */
#include "runtime/common/session_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/syscall_filter.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_child.h"

typedef struct fixture {
    char folder[TEMP_DIR_FOLDER_MAX];
    char base[SESSION_DIR_MAX];
    char before[200]; /* TMPDIR before the test */
} fixture;

static int setup(void **state) {
    fixture *fixture = calloc(1, sizeof *fixture);
    *state = fixture;
    unsetenv("XDG_RUNTIME_DIR");
    if (!temp_dir_folder(fixture->folder)) return 1;
    snprintf(fixture->before, sizeof fixture->before, "%s", getenv("TMPDIR") == NULL ? "/tmp" : getenv("TMPDIR"));
    setenv("TMPDIR", fixture->folder, 1);
    snprintf(fixture->base, sizeof fixture->base, "%s/miniray-%u", fixture->folder, (unsigned)geteuid());
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

static void write_file(const char *folder, const char *name, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void remove_file(const char *folder, const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

static void a_run_that_leaves_nothing_is_gone(void **state) {
    fixture *fixture = *state;
    session_dir run, other;
    assert_int_equal(session_dir_open(&run), MR_OK);
    assert_int_equal(session_dir_open(&other), MR_OK);
    assert_string_not_equal(run.path, other.path);
    assert_int_equal(strncmp(run.path, fixture->base, strlen(fixture->base)), 0);
    struct stat stat;
    assert_int_equal(lstat(run.path, &stat), 0);
    assert_int_equal(stat.st_mode & 0777, 0700);
    assert_int_equal(lstat(fixture->base, &stat), 0);
    assert_int_equal(stat.st_mode & 0777, 0700);
    write_file(run.path, "node.log", ""); /* an empty log is not kept */
    session_dir_close(&run);
    assert_int_equal(access(other.path, F_OK), 0);
    session_dir_close(&other);
    assert_true(temp_dir_is_empty(fixture->folder));
}

static void logs_are_kept(void **state) {
    fixture *fixture = *state;
    session_dir run;
    assert_int_equal(session_dir_open(&run), MR_OK);
    write_file(run.path, "node.log", "a line\n");
    session_dir_close(&run);
    assert_int_equal(temp_dir_entries(run.path), 3);
    remove_file(run.path, "node.log");
    rmdir(run.path);
    rmdir(fixture->base);
}

static void old_runs_go_and_those_under_way_stay(void **state) {
    fixture *fixture = *state;
    session_dir held, run;
    assert_int_equal(session_dir_open(&held), MR_OK);
    write_file(held.path, "4711.log", "still running\n");
    for (int i = 0; i < SESSION_DIR_KEPT + 5; i++) {
        assert_int_equal(session_dir_open(&run), MR_OK);
        write_file(run.path, "4711.log", "a line\n");
        session_dir_leave(&run); /* no cleanup, as after a kill */
    }
    assert_int_equal(access(held.path, F_OK), 0);
    assert_in_range(temp_dir_entries(fixture->base) - 2, SESSION_DIR_KEPT, SESSION_DIR_KEPT + 2);
    char command[200];
    session_dir_leave(&held);
    snprintf(command, sizeof command, "rm -r %s", fixture->base);
    assert_int_equal(system(command), 0);
}

/* Opens a session while BASE cannot be in the fixture's directory. */
static void is_elsewhere(const fixture *fixture) {
    session_dir run;
    char path[SESSION_DIR_MAX];
    assert_int_equal(session_dir_open(&run), MR_OK);
    assert_int_equal(session_dir_socket("auto", path), MR_OK); /* a driver looks where the node is */
    assert_int_equal(strncmp(run.path, path, strlen(path) - strlen("/node")), 0);
    assert_int_not_equal(strncmp(run.path, fixture->folder, strlen(fixture->folder)), 0);
    session_dir_close(&run);
    assert_int_not_equal(access(run.path, F_OK), 0);
}

static void a_base_that_others_can_reach_is_passed_over(void **state) {
    fixture *fixture = *state;
    assert_int_equal(mkdir(fixture->base, 0755), 0);
    assert_int_equal(chmod(fixture->base, 0755), 0);
    is_elsewhere(fixture);
    rmdir(fixture->base);
    assert_int_equal(symlink("/tmp", fixture->base), 0);
    is_elsewhere(fixture);
    unlink(fixture->base);
    if (geteuid() != 0) return;
    assert_int_equal(mkdir(fixture->base, 0700), 0); /* another user was first */
    assert_int_equal(chown(fixture->base, 12345, 12345), 0);
    is_elsewhere(fixture);
    rmdir(fixture->base);
}

static void a_missing_folder_is_passed_over(void **state) {
    fixture *fixture = *state;
    char missing[TEMP_DIR_FOLDER_MAX + 8];
    snprintf(missing, sizeof missing, "%s/none", fixture->folder);
    setenv("TMPDIR", missing, 1);
    is_elsewhere(fixture);
    setenv("TMPDIR", fixture->folder, 1);
}

static void a_node_is_found_at_a_later_place(void **state) {
    fixture *fixture = *state;
    char path[SESSION_DIR_MAX], own[SESSION_DIR_MAX];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s/node", fixture->base);
    assert_int_equal(mkdir(fixture->base, 0700), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (void *)&address, sizeof address), 0);
    snprintf(own, sizeof own, "%s/own", fixture->folder);
    assert_int_equal(mkdir(own, 0700), 0);
    setenv("XDG_RUNTIME_DIR", own, 1); /* the node was started without it */
    assert_int_equal(session_dir_socket("auto", path), MR_OK);
    assert_string_equal(path, address.sun_path);
    unsetenv("XDG_RUNTIME_DIR");
    close(fd);
    unlink(address.sun_path);
    rmdir(own);
    rmdir(fixture->base);
}

static int work_without_locks(void *argument) {
    const syscall_rule no_flock[] = {{SYS_flock, ENOSYS}};
    session_dir runs[SESSION_DIR_KEPT + 2];
    TEST_CHILD_CHECK(syscall_filter_install(no_flock, 1));
    for (int i = 0; i < SESSION_DIR_KEPT + 2; i++) TEST_CHILD_CHECK(session_dir_open(&runs[i]) == MR_OK);
    for (int i = 0; i < SESSION_DIR_KEPT + 2; i++) { /* none was removed as an old one */
        TEST_CHILD_CHECK(access(runs[i].path, F_OK) == 0);
        session_dir_close(&runs[i]);
    }
    return 0;
}

static void without_locks_no_session_is_removed(void **state) {
    fixture *fixture = *state;
    assert_int_equal(test_child_run(work_without_locks, NULL, 10000), 0);
    assert_true(temp_dir_is_empty(fixture->folder));
}

static void addresses_are_paths(void **state) {
    fixture *fixture = *state;
    char path[SESSION_DIR_MAX], expected[SESSION_DIR_MAX + 8], folder[200], longest[200];
    assert_int_equal(session_dir_socket("auto", path), MR_OK);
    snprintf(expected, sizeof expected, "%s/node", fixture->base);
    assert_string_equal(path, expected);
    assert_true(temp_dir_is_empty(fixture->folder)); /* the lookup creates nothing */
    assert_int_equal(session_dir_socket("/some/where", path), MR_OK);
    assert_string_equal(path, "/some/where");
    assert_non_null(getcwd(folder, sizeof folder));
    assert_int_equal(chdir(fixture->folder), 0);
    assert_int_equal(session_dir_socket("./here", path), MR_OK);
    snprintf(expected, sizeof expected, "%s/./here", fixture->folder);
    assert_string_equal(path, expected);
    snprintf(expected, sizeof expected, "%s/gone", fixture->folder);
    assert_true(mkdir(expected, 0700) == 0 && chdir(expected) == 0 && rmdir(expected) == 0);
    assert_int_equal(session_dir_socket("./here", path), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "working directory was removed"));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(session_dir_socket("word", path), MR_INVALID);
    memset(longest, '/', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(session_dir_socket(longest, path), MR_INVALID);
}

static void the_users_own_runtime_folder_comes_first(void **state) {
    fixture *fixture = *state;
    char path[SESSION_DIR_MAX], own[SESSION_DIR_MAX], expected[SESSION_DIR_MAX + 16];
    snprintf(own, sizeof own, "%s/own", fixture->folder);
    assert_int_equal(mkdir(own, 0700), 0);
    setenv("XDG_RUNTIME_DIR", own, 1);
    assert_int_equal(session_dir_socket("auto", path), MR_OK);
    snprintf(expected, sizeof expected, "%s/miniray/node", own);
    assert_string_equal(path, expected);
    assert_int_equal(chmod(own, 0755), 0); /* open to other users */
    assert_int_equal(session_dir_socket("auto", path), MR_OK);
    assert_int_equal(strncmp(path, fixture->base, strlen(fixture->base)), 0);
    unsetenv("XDG_RUNTIME_DIR");
    rmdir(own);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(a_run_that_leaves_nothing_is_gone),        IN_A_FOLDER(logs_are_kept),
        IN_A_FOLDER(old_runs_go_and_those_under_way_stay),     IN_A_FOLDER(a_base_that_others_can_reach_is_passed_over),
        IN_A_FOLDER(a_missing_folder_is_passed_over),          IN_A_FOLDER(a_node_is_found_at_a_later_place),
        IN_A_FOLDER(without_locks_no_session_is_removed),      IN_A_FOLDER(addresses_are_paths),
        IN_A_FOLDER(the_users_own_runtime_folder_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
