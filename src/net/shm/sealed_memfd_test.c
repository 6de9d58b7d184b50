/* sealed_memfd_test.c — sealed memfds are recognised and keep their size; other files are refused. */
#include "net/shm/sealed_memfd.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static void it_keeps_its_size(void **state) {
    uint64_t size = 0;
    int fd = sealed_memfd_create("test", 8192);
    assert_true(fd >= 0 && sealed_memfd_read_size(fd, &size) && size == 8192);
    assert_true(ftruncate(fd, 4096) != 0 && ftruncate(fd, 16384) != 0);
    close(fd);
}

static void a_descriptor_that_may_shrink_is_refused(void **state) {
    uint64_t size = 7;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), pipes[2];
    assert_true(fd >= 0 && pipe(pipes) == 0);
    assert_false(sealed_memfd_read_size(fd, &size));
    assert_false(sealed_memfd_read_size(pipes[0], &size));
    assert_false(sealed_memfd_read_size(-1, &size));
    assert_int_equal(size, 7);
    close(fd);
    close(pipes[0]);
    close(pipes[1]);
}

static void failures_are_reported(void **state) {
    errno = 0;
    assert_int_equal(sealed_memfd_create("test", UINT64_MAX), -1); /* a negative size */
    assert_int_equal(errno, EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_keeps_its_size),
        cmocka_unit_test(a_descriptor_that_may_shrink_is_refused),
        cmocka_unit_test(failures_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
