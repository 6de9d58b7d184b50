/* memory_test.c — the memory of machines and containers from files as the kernel writes them. */
#include "runtime/memory.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/node.h"
#include "tests/support/temp.h"

static char folder[TEMP_FOLDER_MAX];

static void put(const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void make(const char *name) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) { return remove(path); }

static void the_least_limit_counts(void **state) {
    assert_true(temp_folder(folder));
    assert_int_equal(memory_of_machine(folder, folder), 0); /* not known */
    put("meminfo", "MemTotal:        8388608 kB\nMemFree:  1 kB\n");
    assert_int_equal(memory_of_machine(folder, folder), INT64_C(8) << 30);
    put("memory.max", "4294967296\n");
    assert_int_equal(memory_of_machine(folder, folder), INT64_C(4) << 30);
    make("self");
    make("box");
    make("box/inner");
    put("self/cgroup", "0::/box/inner\n");
    put("box/inner/memory.max", "max\n");
    assert_int_equal(memory_of_machine(folder, folder), INT64_C(4) << 30);
    put("box/memory.max", "1073741824\n"); /* of the group around ours */
    assert_int_equal(memory_of_machine(folder, folder), INT64_C(1) << 30);
    put("memory.max", "99999999999999\n"); /* more than there is */
    put("box/memory.max", "max\n");
    assert_int_equal(memory_of_machine(folder, folder), INT64_C(8) << 30);
    assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void a_store_has_its_part(void **state) {
    assert_int_equal(memory_store_bytes(UINT64_C(10) << 30), UINT64_C(3) << 30);
    assert_int_equal(memory_store_bytes(0), MEMORY_STORE_LEAST);
    assert_int_equal(memory_store_bytes(UINT64_C(100) << 20), MEMORY_STORE_LEAST);
    assert_int_equal(memory_store_bytes(UINT64_C(24123) << 20) % (1 << 20), 0);
    assert_true(mr_store_bytes_default() >= MEMORY_STORE_LEAST);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_least_limit_counts),
                                       cmocka_unit_test(a_store_has_its_part)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
