/* rows_test.c — rows keep what is in them while others come and go, and cost what they should. */
#include "kv/table/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

static uint32_t must_take(rows *rows) {
    uint32_t number;
    assert_int_equal(rows_take(rows, &number), MR_OK);
    assert_true(number > 0);
    return number;
}

static void rows_keep_their_contents(void **state) {
    enum { COUNT = 3000 };
    for (size_t stride = 4; stride <= 8192; stride *= 8) { /* of the last, a chunk has 512 */
        rows rows;
        rows_init(&rows, stride);
        uint32_t numbers[COUNT];
        for (uint32_t i = 0; i < COUNT; i++) {
            numbers[i] = must_take(&rows);
            memset(rows_at(&rows, numbers[i]), (int)i, stride);
        }
        for (uint32_t i = 0; i < COUNT; i += 3) rows_give(&rows, numbers[i]);
        assert_int_equal(rows.count, COUNT - COUNT / 3);
        for (uint32_t i = 0; i < COUNT; i += 3) {
            numbers[i] = must_take(&rows);
            memset(rows_at(&rows, numbers[i]), (int)i, stride);
        }
        assert_int_equal(rows.made, COUNT + 1); /* what was given back was taken again */
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint8_t *row = rows_at(&rows, numbers[i]);
            assert_true(row[0] == (uint8_t)i && row[stride - 1] == (uint8_t)i);
        }
        rows_fini(&rows);
    }
}

static void whole_lines_are_aligned(void **state) {
    rows rows;
    rows_init(&rows, 64);
    for (uint32_t i = 0; i < 200000; i++) assert_int_equal((uintptr_t)rows_at(&rows, must_take(&rows)) % 64, 0);
    assert_true(rows_bytes(&rows) < 200000 * 64 + ROWS_CHUNK_BYTES + 4096);
    rows_fini(&rows);
}

static void without_memory_all_is_as_it_was(void **state) {
    rows rows;
    rows_init(&rows, 4096); /* a chunk has 1024 */
    for (uint32_t i = 0; i < 5000; i++) {
        uint32_t made = rows.made, number = 0;
        size_t bytes = rows_bytes(&rows);
        alloc_fail_at(1);
        mr_status status = rows_take(&rows, &number);
        alloc_fail_at(0);
        if (status != MR_OK) {
            assert_int_equal(status, MR_NOMEM);
            assert_true(rows.made == made && rows_bytes(&rows) == bytes && number == 0);
            number = must_take(&rows);
        }
        memset(rows_at(&rows, number), 1, 4096);
    }
    rows_fini(&rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_keep_their_contents),
        cmocka_unit_test(whole_lines_are_aligned),
        cmocka_unit_test(without_memory_all_is_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
