/* oom_test.c — counts of kills read from files in the kernel's format. */
#include "runtime/node/oom.h"

#include <fcntl.h>
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

static char folder[TEMP_DIR_FOLDER_MAX];

static void put(const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void take(const char *name, int (*removes)(const char *)) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(removes(path), 0);
}

static void kills_are_counted_where_they_can_be_read(void **state) {
    uint64_t count;
    char path[200];
    assert_true(temp_dir_folder(folder));
    assert_false(oom_count_in(folder, folder, &count)); /* the folder is empty */
    put("vmstat", "nr_free 7\noom_kill 3\n");
    assert_true(oom_count_in(folder, folder, &count));
    assert_int_equal(count, 3);
    snprintf(path, sizeof path, "%s/self", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/box", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    put("self/cgroup", "1:memory:/old\n0::/box\n");
    put("box/memory.events", "low 0\noom 9\noom_kill 2\noom_group_kill 8\n");
    assert_true(oom_count_in(folder, folder, &count));
    assert_int_equal(count, 5);
    take("vmstat", unlink);
    assert_true(oom_count_in(folder, folder, &count));
    assert_int_equal(count, 2);
    take("box/memory.events", unlink);
    assert_false(oom_count_in(folder, folder, &count));
    take("self/cgroup", unlink);
    take("self", rmdir);
    take("box", rmdir);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kills_are_counted_where_they_can_be_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
