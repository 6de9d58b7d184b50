/* row_pool_test.c — rows keep their content while others are taken and freed, and use the expected memory. */
#include "kv/table/row_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

static uint32_t must_take(row_pool *pool) {
    uint32_t number;
    assert_int_equal(row_pool_take(pool, &number), MR_OK);
    assert_true(number > 0);
    return number;
}

static void row_pool_keep_their_contents(void **state) {
    enum { COUNT = 3000 };
    for (size_t stride = 4; stride <= 8192; stride *= 8) { /* a chunk has 512 rows of the last stride */
        row_pool pool;
        row_pool_init(&pool, stride);
        uint32_t numbers[COUNT];
        for (uint32_t i = 0; i < COUNT; i++) {
            numbers[i] = must_take(&pool);
            memset(row_pool_at(&pool, numbers[i]), (int)i, stride);
        }
        for (uint32_t i = 0; i < COUNT; i += 3) row_pool_give(&pool, numbers[i]);
        assert_int_equal(pool.count, COUNT - COUNT / 3);
        for (uint32_t i = 0; i < COUNT; i += 3) {
            numbers[i] = must_take(&pool);
            memset(row_pool_at(&pool, numbers[i]), (int)i, stride);
        }
        assert_int_equal(pool.made, COUNT + 1); /* freed rows were reused */
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint8_t *row = row_pool_at(&pool, numbers[i]);
            assert_true(row[0] == (uint8_t)i && row[stride - 1] == (uint8_t)i);
        }
        row_pool_fini(&pool);
    }
}

static void whole_lines_are_aligned(void **state) {
    row_pool pool;
    row_pool_init(&pool, 64);
    for (uint32_t i = 0; i < 200000; i++) assert_int_equal((uintptr_t)row_pool_at(&pool, must_take(&pool)) % 64, 0);
    assert_true(row_pool_bytes(&pool) < 200000 * 64 + ROW_POOL_CHUNK_BYTES + 4096);
    row_pool_fini(&pool);
}

static void without_memory_all_is_as_it_was(void **state) {
    row_pool pool;
    row_pool_init(&pool, 4096); /* a chunk has 1024 rows */
    for (uint32_t i = 0; i < 5000; i++) {
        uint32_t made = pool.made, number = 0;
        size_t bytes = row_pool_bytes(&pool);
        alloc_fail_at(1);
        mr_status status = row_pool_take(&pool, &number);
        alloc_fail_at(0);
        if (status != MR_OK) {
            assert_int_equal(status, MR_NOMEM);
            assert_true(pool.made == made && row_pool_bytes(&pool) == bytes && number == 0);
            number = must_take(&pool);
        }
        memset(row_pool_at(&pool, number), 1, 4096);
    }
    row_pool_fini(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_pool_keep_their_contents),
        cmocka_unit_test(whole_lines_are_aligned),
        cmocka_unit_test(without_memory_all_is_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
