/* data_shard_test.c — every sample is in exactly one shard, the same on every machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "miniray/train.h"

enum { COUNT_MAX = 100 };

static void check_partition(size_t count, size_t shards) {
    bool seen[COUNT_MAX] = {false};
    size_t total = 0;
    for (size_t shard = 0; shard < shards; shard++) {
        int64_t own[COUNT_MAX];
        size_t size = mr_shard_size(count, shards, shard);
        assert_true(size == count / shards || size == count / shards + 1);
        assert_int_equal(mr_shard_indices(count, shards, shard, 7, own), MR_OK);
        for (size_t i = 0; i < size; i++) {
            assert_true(own[i] >= 0 && (size_t)own[i] < count);
            assert_false(seen[own[i]]);
            seen[own[i]] = true;
        }
        total += size;
    }
    assert_int_equal(total, count);
}

static void each_sample_is_in_one_shard(void **state) {
    for (size_t count = 0; count <= COUNT_MAX; count += 7)
        for (size_t shards = 1; shards <= 12; shards++) check_partition(count, shards);
}

static void the_seed_decides(void **state) {
    static const int64_t known[] = {3, 6, 1, 5, 0}; /* the same on every machine, with every compiler */
    int64_t first[5], again[5], other[5];
    assert_int_equal(mr_shard_indices(10, 2, 0, 1, first), MR_OK);
    assert_int_equal(mr_shard_indices(10, 2, 0, 1, again), MR_OK);
    assert_int_equal(mr_shard_indices(10, 2, 0, 2, other), MR_OK);
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
    assert_memory_equal(first, known, sizeof first);
}

static void a_shard_that_is_none_is_refused(void **state) {
    int64_t out[4];
    assert_int_equal(mr_shard_indices(4, 2, 2, 0, out), MR_INVALID);
    assert_int_equal(mr_shard_indices(4, 0, 0, 0, out), MR_INVALID);
    assert_int_equal(mr_shard_indices(SIZE_MAX, 2, 0, 0, out), MR_TOO_LARGE);
    assert_int_equal(mr_shard_size(4, 0, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_is_in_one_shard),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(a_shard_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
