/* vector_table_test.c — vectors grow to the longest request, shrink with `exact`, and are listed by key. */
#include "kv/table/vector_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"

static float *reach(vector_table *table, uint64_t key, uint32_t length, bool exact) {
    void *values;
    assert_int_equal(vector_table_reach(table, key, length, exact, &values), MR_OK);
    return values;
}

static void the_longest_decides(void **state) {
    vector_table table;
    uint32_t length;
    vector_table_init(&table, sizeof(float));
    assert_null(vector_table_find(&table, 7, &length));
    assert_int_equal(length, 0);
    reach(&table, 7, 2, false)[1] = 5;
    assert_true(reach(&table, 7, 1, false)[1] == 5);
    float *values = reach(&table, 7, 4, false);
    assert_true(values[0] == 0 && values[1] == 5 && values[2] == 0 && values[3] == 0);
    (void)vector_table_find(&table, 7, &length);
    assert_int_equal(length, 4);
    assert_int_equal(table.bytes, 16);
    values[3] = 9;
    (void)reach(&table, 7, 1, true);
    (void)vector_table_find(&table, 7, &length);
    assert_int_equal(length, 1);
    assert_true(reach(&table, 7, 4, false)[3] == 0); /* values beyond the shorter length were dropped */
    vector_table_erase(&table, 7);
    vector_table_erase(&table, 7);
    assert_int_equal(vector_table_count(&table), 0);
    assert_int_equal(table.bytes, 0);
    vector_table_fini(&table);
}

static void keys_ascend(void **state) {
    vector_table table;
    uint64_t keys[100];
    vector_table_init(&table, sizeof(int64_t));
    for (uint64_t i = 0; i < 100; i++) (void)reach(&table, i * 7919 % 101, (uint32_t)(i % 3), false);
    vector_table_keys(&table, keys);
    for (size_t i = 1; i < 100; i++) assert_true(keys[i - 1] < keys[i]);
    vector_table_fini(&table);
}

static void without_memory_nothing_changes(void **state) {
    vector_table table;
    void *values;
    uint32_t length;
    vector_table_init(&table, sizeof(float));
    for (size_t nth = 1; nth <= 2; nth++) {
        alloc_fail_at(nth);
        assert_int_equal(vector_table_reach(&table, 1, 100, false, &values), MR_NOMEM);
        assert_int_equal(vector_table_count(&table), 0);
    }
    (void)reach(&table, 1, 1, false);
    alloc_fail_at(1);
    assert_int_equal(vector_table_reach(&table, 1, 100, false, &values), MR_NOMEM);
    (void)vector_table_find(&table, 1, &length);
    assert_int_equal(length, 1);
    vector_table_fini(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_decides),
        cmocka_unit_test(keys_ascend),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
