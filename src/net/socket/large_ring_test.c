/* large_ring_test.c — one side writes and the other reads; invalid memory is refused; pages are freed and backed
 * again. */
#include "net/socket/large_ring.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/failpoint.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static uint64_t pages_of(const large_ring *ring) {
    struct stat file;
    assert_int_equal(fstat(ring->fd, &file), 0);
    return (uint64_t)file.st_blocks * 512 / 4096;
}

static void one_writes_and_the_other_reads(void **state) {
    large_ring made = {0}, joined = {0};
    assert_int_equal(large_ring_create(&made), MR_OK);
    assert_int_equal(large_ring_join(made.fd, &joined), MR_OK);
    assert_true(joined.fd == -1 && made.bytes != joined.bytes);
    memcpy(made.bytes + LARGE_RING_CAPACITY - 4, "last", 4);
    assert_memory_equal(joined.bytes + LARGE_RING_CAPACITY - 4, "last", 4);
    large_ring_close(&made); /* the other mapping stays */
    assert_memory_equal(joined.bytes + LARGE_RING_CAPACITY - 4, "last", 4);
    large_ring_close(&joined);
    large_ring_close(&joined); /* closed already: no effect */
    assert_null(joined.bytes);
}

/* The pages exist before the first write, are freed, and are backed again. */
static void an_idle_large_ring_is_released(void **state) {
    large_ring made = {0}, joined = {0};
    assert_int_equal(large_ring_create(&made), MR_OK);
    assert_int_equal(large_ring_join(made.fd, &joined), MR_OK);
    assert_int_equal(pages_of(&made), LARGE_RING_CAPACITY / 4096);
    memset(made.bytes, 'x', 100);
    large_ring_rest(&made);
    assert_false(made.backed);
    assert_int_equal(pages_of(&made), 0);
    large_ring_rest(&made);
    assert_int_equal(large_ring_back(&made), MR_OK);
    assert_int_equal(large_ring_back(&made), MR_OK);
    assert_int_equal(pages_of(&made), LARGE_RING_CAPACITY / 4096);
    assert_int_equal(joined.bytes[0], 0);
    made.bytes[0] = 'y';
    assert_int_equal(joined.bytes[0], 'y');
    large_ring_close(&made);
    large_ring_close(&joined);
}

static void another_descriptor_is_not_joined_as_large_ring(void **state) {
    large_ring joined = {0};
    int pipes[2], fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(large_ring_join(pipes[0], &joined), MR_CORRUPT);
    assert_int_equal(large_ring_join(-1, &joined), MR_CORRUPT);
    assert_int_equal(ftruncate(fd, LARGE_RING_CAPACITY), 0);
    assert_int_equal(large_ring_join(fd, &joined), MR_CORRUPT); /* the file could shrink */
    assert_int_equal(ftruncate(fd, LARGE_RING_CAPACITY + 1), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, SEALS), 0);
    assert_int_equal(large_ring_join(fd, &joined), MR_CORRUPT); /* another size */
    assert_null(joined.bytes);
    close(fd);
    close(pipes[0]);
    close(pipes[1]);
}

/* Without memory the functions fail and leave existing rings unchanged. */
static void where_there_is_no_memory_there_is_none(void **state) {
    large_ring made = {0}, joined = {0};
    if (failpoint_count() == 0) skip();
    assert_int_equal(failpoint_arm("annex.back=error"), MR_OK);
    assert_int_not_equal(large_ring_create(&made), MR_OK);
    assert_int_equal(failpoint_arm("annex.map=error"), MR_OK);
    assert_int_not_equal(large_ring_create(&made), MR_OK);
    assert_null(made.bytes);
    assert_int_equal(large_ring_create(&made), MR_OK);
    assert_int_equal(failpoint_arm("annex.map=error"), MR_OK);
    assert_int_not_equal(large_ring_join(made.fd, &joined), MR_OK);
    assert_null(joined.bytes);
    large_ring_rest(&made);
    assert_int_equal(failpoint_arm("annex.back=error"), MR_OK);
    assert_int_not_equal(large_ring_back(&made), MR_OK);
    assert_false(made.backed);
    assert_int_equal(large_ring_back(&made), MR_OK);
    large_ring_close(&made);
    failpoint_disarm_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_writes_and_the_other_reads),
        cmocka_unit_test(an_idle_large_ring_is_released),
        cmocka_unit_test(another_descriptor_is_not_joined_as_large_ring),
        cmocka_unit_test(where_there_is_no_memory_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
