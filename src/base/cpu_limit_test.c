/* cpu_limit_test.c — quotas of groups, from files made for the test. */
#include "base/cpu_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "tests/support/temp_dir.h"

static char root[TEMP_DIR_FOLDER_MAX];

static void write_file(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state) {
    static const char *const folders[] = {"self", "unified", "unified/a", "unified/a/b", "cpu", "cpu/c"};
    if (!temp_dir_folder(root)) return -1;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[TEMP_DIR_FOLDER_MAX + 16];
        snprintf(path, sizeof path, "%s/%s", root, folders[i]);
        if (mkdir(path, 0700) != 0) return -1;
    }
    return 0;
}

static int remove_root(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* 0: no limit. */
static void expect(double expected) {
    double cpus = 0;
    assert_true(cpu_limit_quota_in(root, root, &cpus) == (expected > 0));
    assert_float_equal(cpus, expected, 1e-9);
}

static void the_smallest_quota_around_counts(void **state) {
    write_file("self/cgroup", "0::/a/b\n");
    expect(0);
    write_file("unified/a/b/cpu.max", "max 100000\n");
    expect(0);
    write_file("unified/a/cpu.max", "150000 100000\n");
    expect(1.5);
    write_file("unified/a/b/cpu.max", "50000 100000\n");
    expect(0.5);
    write_file("unified/a/b/cpu.max", "800000 100000\n");
    expect(1.5);
}

static void version_1_has_two_files(void **state) {
    write_file("self/cgroup", "4:cpu,cpuacct:/c\n0::/\n");
    write_file("cpu/c/cpu.cfs_period_us", "100000\n");
    expect(0);
    write_file("cpu/c/cpu.cfs_quota_us", "-1\n");
    expect(0);
    write_file("cpu/c/cpu.cfs_quota_us", "250000\n");
    expect(2.5);
}

static void damaged_files_limit_nothing(void **state) {
    static const char *const texts[] = {"", "100000", "x 100000", "100000 0", "-5 100000", "0 100000"};
    write_file("self/cgroup", "0::/a\n");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_file("unified/a/cpu.max", texts[i]);
        expect(0);
    }
}

static void the_count_is_never_above_the_affinity(void **state) { assert_in_range(cpu_limit_count(), 1, cpu_count()); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_smallest_quota_around_counts, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_1_has_two_files, make_root, remove_root),
        cmocka_unit_test_setup_teardown(damaged_files_limit_nothing, make_root, remove_root),
        cmocka_unit_test(the_count_is_never_above_the_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
