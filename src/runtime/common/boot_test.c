/* boot_test.c — roles and options in the environment, and the start of a worker: `env` is the worker. */
#include "runtime/common/boot.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void the_environment_says_what_to_be(void **state) {
    assert_int_equal(boot_role_now(), BOOT_PROGRAM);
    assert_string_equal(boot_broker(), "");
    assert_string_equal(boot_run(), "");
    setenv("MINIRAY_BOOT", "worker", 1);
    setenv("MINIRAY_BOOT_HUB", "/some/where/hub", 1);
    setenv("MINIRAY_BOOT_RUN", "/some/where", 1);
    assert_int_equal(boot_role_now(), BOOT_WORKER);
    assert_string_equal(boot_broker(), "/some/where/hub");
    assert_string_equal(boot_run(), "/some/where");
    setenv("MINIRAY_BOOT", "native", 1);
    assert_int_equal(boot_role_now(), BOOT_NATIVE);
    setenv("MINIRAY_BOOT", "node", 1);
    assert_int_equal(boot_role_now(), BOOT_NODE);
    setenv("MINIRAY_BOOT", "nonsense", 1);
    assert_int_equal(boot_role_now(), BOOT_PROGRAM);
    unsetenv("MINIRAY_BOOT");
    unsetenv("MINIRAY_BOOT_HUB");
    unsetenv("MINIRAY_BOOT_RUN");
}

static void a_node_is_not_started_by_hand(void **state) {
    boot_node told;
    unsetenv("MINIRAY_BOOT_OPTIONS");
    assert_int_equal(boot_read_node(&told), MR_INVALID);
    setenv("MINIRAY_BOOT_OPTIONS", "workers=many", 1);
    assert_int_equal(boot_read_node(&told), MR_INVALID);
    unsetenv("MINIRAY_BOOT_OPTIONS");
}

static bool has_line(const char *text, const char *line) {
    const char *at = strstr(text, line);
    return at != NULL && (at == text || at[-1] == '\n') && at[strlen(line)] == '\n';
}

static void a_worker_is_started_by_its_launch_spec(void **state) {
    char *arguments[] = {(char *)(uintptr_t) "env", NULL};
    char *environment[] = {(char *)(uintptr_t) "COLOUR=blue", (char *)(uintptr_t) "MINIRAY_BOOT=node",
                           (char *)(uintptr_t) "MINIRAY_BOOT_HUB=/elsewhere", NULL};
    launch_spec spec = {.executable_fd = open("/usr/bin/env", O_PATH | O_CLOEXEC),
                        .folder_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
                        .arguments = arguments,
                        .environment = environment};
    assert_true(spec.executable_fd >= 0 && spec.folder_fd >= 0);
    int output_fd = memfd_create("output", MFD_CLOEXEC), error_fd = memfd_create("errors", MFD_CLOEXEC), status;
    char text[4096] = "";
    pid_t pid;
    assert_int_equal(boot_start_worker(&spec, &(boot_worker){"/here/hub", {-1, {output_fd, error_fd}}, -1, ""}, &pid),
                     MR_OK);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(pread(output_fd, text, sizeof text - 1, 0) > 0);
    assert_true(has_line(text, "COLOUR=blue"));
    assert_true(has_line(text, "MINIRAY_BOOT=worker"));
    assert_true(has_line(text, "MINIRAY_BOOT_HUB=/here/hub"));
    char node[64];
    snprintf(node, sizeof node, "MINIRAY_BOOT_NODE=%d", (int)getpid());
    assert_true(has_line(text, node));
    assert_null(strstr(text, "MINIRAY_BOOT=node"));
    assert_null(strstr(text, "/elsewhere"));
    close(output_fd);
    close(spec.folder_fd);
    close(spec.executable_fd);
}

static void a_failed_start_is_reported(void **state) {
    char *arguments[] = {(char *)(uintptr_t) "folder", NULL}, *environment[] = {NULL};
    launch_spec spec = {.executable_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
                        .folder_fd = -1,
                        .arguments = arguments,
                        .environment = environment};
    pid_t pid;
    assert_int_not_equal(boot_start_worker(&spec, &(boot_worker){"/here/hub", {-1, {-1, -1}}, -1, ""}, &pid), MR_OK);
    assert_non_null(strstr(mr_last_error(), "executable of 'folder'"));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    close(spec.executable_fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_says_what_to_be),
        cmocka_unit_test(a_node_is_not_started_by_hand),
        cmocka_unit_test(a_worker_is_started_by_its_launch_spec),
        cmocka_unit_test(a_failed_start_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
