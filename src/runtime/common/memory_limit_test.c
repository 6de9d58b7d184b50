/* memory_limit_test.c — default size of the object store. */
#include "runtime/common/memory_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "miniray/admin.h"
#include "net/shm/memory_headroom.h"

#define GB (UINT64_C(1) << 30)

static void a_store_has_its_share_of_what_is_available(void **state) {
    assert_int_equal(memory_limit_share_of(10 * GB, 10 * GB).bytes, 3 * GB);
    assert_int_equal(memory_limit_share_of(20 * GB, 10 * GB).bytes, 3 * GB);
    assert_int_equal(memory_limit_share_of(10 * GB, 20 * GB).bytes, 3 * GB); /* a cgroup's limit below free memory */
    assert_int_equal(memory_limit_share_of(100 * GB, GB / 10).bytes, MEMORY_LIMIT_STORE_LEAST);
    assert_int_equal(memory_limit_share_of(MEMORY_HEADROOM_UNKNOWN, MEMORY_HEADROOM_UNKNOWN).bytes,
                     MEMORY_LIMIT_STORE_LEAST);
    assert_int_equal(memory_limit_share_of(MEMORY_HEADROOM_UNKNOWN, 10 * GB).bytes, 3 * GB);
    assert_int_equal(memory_limit_share_of(30 * GB, UINT64_C(24123) << 20).bytes % (1 << 20), 0);
    assert_true(mr_store_bytes_default() >= MEMORY_LIMIT_STORE_LEAST);
}

static void one_that_is_far_smaller_than_usual_is_small(void **state) {
    assert_false(memory_limit_share_of(16 * GB, 16 * GB).small);
    assert_false(memory_limit_share_of(16 * GB, 5 * GB).small);
    assert_true(memory_limit_share_of(16 * GB, 3 * GB).small);
    assert_false(memory_limit_share_of(GB / 4, GB / 8).small); /* as small as on an idle machine of that size */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_store_has_its_share_of_what_is_available),
                                       cmocka_unit_test(one_that_is_far_smaller_than_usual_is_small)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
