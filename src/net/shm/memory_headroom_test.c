/* memory_headroom_test.c — the minimum of all limits, in both versions of cgroups, from files made for the test. */
#include "net/shm/memory_headroom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/support/temp_dir.h"

#define MB UINT64_C(1048576)

static char root[TEMP_DIR_FOLDER_MAX], proc[TEMP_DIR_FOLDER_MAX + 8], cgroup[TEMP_DIR_FOLDER_MAX + 8];

static void write_file(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state) {
    if (!temp_dir_folder(root)) return -1;
    snprintf(proc, sizeof proc, "%s/proc", root);
    snprintf(cgroup, sizeof cgroup, "%s/cgroup", root);
    write_file("proc/meminfo", "MemTotal: 9000000 kB\nMemFree: 1 kB\nMemAvailable:   2048000 kB\n");
    return 0;
}

static int remove_root(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void without_cgroups_the_machine_counts(void **state) {
    assert_int_equal(memory_headroom_at(proc, cgroup).available, 2000 * MB);
    assert_int_equal(memory_headroom_at("/nonexistent", "/nonexistent").available, MEMORY_HEADROOM_UNKNOWN);
}

static void version_1_counts_what_can_be_dropped(void **state) {
    write_file("proc/self/cgroup", "4:cpu,cpuacct:/a/b\n3:hugetlb,memory:/a/b\n0::/\n");
    write_file("cgroup/memory/a/b/memory.limit_in_bytes", "104857600\n");
    write_file("cgroup/memory/a/b/memory.usage_in_bytes", "62914560\n");
    assert_int_equal(memory_headroom_at(proc, cgroup).available, 40 * MB);
    write_file("cgroup/memory/a/b/memory.stat", "cache 5\ninactive_file 1\ntotal_inactive_file 10485760\n");
    assert_int_equal(memory_headroom_at(proc, cgroup).available, 50 * MB);
}

static void a_parent_may_be_tighter(void **state) {
    write_file("proc/self/cgroup", "0::/slice/scope\n");
    write_file("cgroup/slice/scope/memory.max", "max\n");
    write_file("cgroup/slice/scope/memory.current", "1000\n");
    assert_int_equal(memory_headroom_at(proc, cgroup).available, 2000 * MB);
    write_file("cgroup/slice/memory.max", "31457280\n");
    write_file("cgroup/slice/memory.current", "10485760\n");
    assert_int_equal(memory_headroom_at(proc, cgroup).available, 20 * MB);
    write_file("cgroup/slice/memory.current", "41457280\n"); /* above the limit already */
    assert_int_equal(memory_headroom_at(proc, cgroup).available, 0);
}

static void the_total_is_the_least_limit_around_the_process(void **state) {
    assert_int_equal(memory_headroom_at("/nonexistent", "/nonexistent").total, MEMORY_HEADROOM_UNKNOWN);
    assert_int_equal(memory_headroom_at(proc, cgroup).total, UINT64_C(9000000) * 1024);
    write_file("proc/self/cgroup", "9:name=systemd:/\n4:memory:/outer/inner\n0::/\n");
    write_file("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_file("cgroup/memory/outer/memory.limit_in_bytes", "104857600\n");
    write_file("cgroup/memory/outer/inner/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(memory_headroom_at(proc, cgroup).total, 100 * MB);
    write_file("proc/self/cgroup", "0::/slice/scope\n");
    write_file("cgroup/slice/memory.max", "52428800\n");
    write_file("cgroup/slice/scope/memory.max", "max\n");
    assert_int_equal(memory_headroom_at(proc, cgroup).total, 50 * MB);
}

static void the_tightest_limit_is_the_one_that_is_used_most(void **state) {
    memory_headroom machine = memory_headroom_at(proc, cgroup);
    assert_int_equal(machine.limit, UINT64_C(9000000) * 1024);
    assert_int_equal(machine.used, (UINT64_C(9000000) - 2048000) * 1024); /* 77 % */
    write_file("proc/self/cgroup", "0::/slice/scope\n");
    write_file("cgroup/slice/memory.max", "104857600\n");
    write_file("cgroup/slice/memory.current", "83886080\n");
    memory_headroom slice = memory_headroom_at(proc, cgroup);
    assert_int_equal(slice.limit, 100 * MB);
    assert_int_equal(slice.used, 80 * MB);
    write_file("cgroup/slice/memory.stat", "anon 5\ninactive_file 20971520\n"); /* cache that can be dropped */
    assert_int_equal(memory_headroom_at(proc, cgroup).limit, machine.limit);
    write_file("cgroup/slice/scope/memory.max", "52428800\n");
    write_file("cgroup/slice/scope/memory.current", "48234496\n");
    assert_int_equal(memory_headroom_at(proc, cgroup).used, 46 * MB);
    assert_int_equal(memory_headroom_at(proc, cgroup).limit, 50 * MB);
    assert_int_equal(memory_headroom_at("/nonexistent", "/nonexistent").limit, 0);
}

static void a_path_of_the_host_falls_back_to_the_mount(void **state) {
    write_file("proc/self/cgroup", "7:memory:/docker/0123\n");
    write_file("cgroup/memory/memory.limit_in_bytes", "10485760\n");
    write_file("cgroup/memory/memory.usage_in_bytes", "1048576\n");
    assert_int_equal(memory_headroom_at(proc, cgroup).available, 9 * MB);
}

static void other_controllers_do_not_count(void **state) {
    write_file("proc/self/cgroup", "7:memoryx,xmemory:/\ngarbage\n:\n");
    write_file("cgroup/memory/memory.limit_in_bytes", "10485760\n");
    write_file("cgroup/memory/memory.usage_in_bytes", "1048576\n");
    assert_int_equal(memory_headroom_at(proc, cgroup).available, 2000 * MB);
}

static void this_machine_has_some(void **state) { assert_true(memory_headroom_bytes() > MB); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_cgroups_the_machine_counts, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_1_counts_what_can_be_dropped, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_parent_may_be_tighter, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_path_of_the_host_falls_back_to_the_mount, make_root, remove_root),
        cmocka_unit_test_setup_teardown(other_controllers_do_not_count, make_root, remove_root),
        cmocka_unit_test_setup_teardown(the_tightest_limit_is_the_one_that_is_used_most, make_root, remove_root),
        cmocka_unit_test_setup_teardown(the_total_is_the_least_limit_around_the_process, make_root, remove_root),
        cmocka_unit_test(this_machine_has_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
