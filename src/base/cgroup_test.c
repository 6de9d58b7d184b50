/* cgroup_test.c — the folders of groups, from files made for the test. */
#include "base/cgroup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/support/temp_dir.h"

static char root[TEMP_DIR_FOLDER_MAX];

typedef struct seen {
    char text[1024]; /* "version:folder " of each visit */
    size_t most;     /* visits until the walk is ended; 0: all */
    size_t count;
} seen;

static void write_file(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state) {
    char path[TEMP_DIR_FOLDER_MAX + 8];
    if (!temp_dir_folder(root)) return -1;
    snprintf(path, sizeof path, "%s/self", root);
    return mkdir(path, 0700);
}

static int remove_root(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static bool visit(void *context, const char *folder, int version) {
    seen *seen = context;
    size_t used = strlen(seen->text);
    snprintf(seen->text + used, sizeof seen->text - used, "%d:%s ", version, folder);
    return ++seen->count != seen->most;
}

static void expect(const char *controller, size_t most, const char *expected) {
    seen seen = {.most = most};
    cgroup_walk_in(root, "/m", controller, visit, &seen);
    assert_string_equal(seen.text, expected);
}

static void a_group_is_visited_with_its_parents(void **state) {
    write_file("self/cgroup", "4:cpu,memory:/a/b\n3:pids:/\n0::/c\n");
    expect("memory", 0, "1:/m/memory/a/b 1:/m/memory/a 1:/m/memory 2:/m/unified/c 2:/m/unified 2:/m/c 2:/m ");
    expect("pids", 0, "1:/m/pids/ 1:/m/pids 2:/m/unified/c 2:/m/unified 2:/m/c 2:/m ");
    expect("memory", 2, "1:/m/memory/a/b 1:/m/memory/a ");
    expect("memory", 4, "1:/m/memory/a/b 1:/m/memory/a 1:/m/memory 2:/m/unified/c ");
}

static void other_lines_are_passed_over(void **state) {
    write_file("self/cgroup", "7:memoryx,xmemory:/a\ngarbage\n:\n9:name=systemd:/\n");
    expect("memory", 0, "");
    write_file("self/cgroup", "5:hugetlb,memory,cpu:/a\n");
    expect("memory", 0, "1:/m/memory/a 1:/m/memory ");
    char line[6000] = "0::/";
    memset(line + 4, 'x', sizeof line - 5); /* longer than any path */
    write_file("self/cgroup", line);
    expect("memory", 0, "");
    seen seen = {0};
    cgroup_walk_in("/nonexistent", "/m", "memory", visit, &seen);
    assert_int_equal(seen.count, 0);
}

static void max_is_no_number(void **state) {
    uint64_t number = 7;
    write_file("pids.max", "4096\n");
    assert_true(cgroup_number(root, "pids.max", &number));
    assert_int_equal(number, 4096);
    write_file("pids.max", "max\n");
    assert_false(cgroup_number(root, "pids.max", &number));
    assert_false(cgroup_number(root, "memory.max", &number));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_group_is_visited_with_its_parents, make_root, remove_root),
        cmocka_unit_test_setup_teardown(other_lines_are_passed_over, make_root, remove_root),
        cmocka_unit_test_setup_teardown(max_is_no_number, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
