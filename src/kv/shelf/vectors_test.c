/* vectors_test.c — vectors grow to the longest, shrink when they are set, and are listed by key. */
#include "kv/shelf/vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"

static float *reach(vectors *vectors, uint64_t key, uint32_t length, bool exact) {
    void *values;
    assert_int_equal(vectors_reach(vectors, key, length, exact, &values), MR_OK);
    return values;
}

static void the_longest_decides(void **state) {
    vectors vectors;
    uint32_t length;
    vectors_init(&vectors, sizeof(float));
    assert_null(vectors_find(&vectors, 7, &length));
    assert_int_equal(length, 0);
    reach(&vectors, 7, 2, false)[1] = 5;
    assert_true(reach(&vectors, 7, 1, false)[1] == 5);
    float *values = reach(&vectors, 7, 4, false);
    assert_true(values[0] == 0 && values[1] == 5 && values[2] == 0 && values[3] == 0);
    (void)vectors_find(&vectors, 7, &length);
    assert_int_equal(length, 4);
    assert_int_equal(vectors.bytes, 16);
    values[3] = 9;
    (void)reach(&vectors, 7, 1, true);
    (void)vectors_find(&vectors, 7, &length);
    assert_int_equal(length, 1);
    assert_true(reach(&vectors, 7, 4, false)[3] == 0); /* what was cut off is gone */
    vectors_erase(&vectors, 7);
    vectors_erase(&vectors, 7);
    assert_int_equal(vectors_count(&vectors), 0);
    assert_int_equal(vectors.bytes, 0);
    vectors_fini(&vectors);
}

static void keys_ascend(void **state) {
    vectors vectors;
    uint64_t keys[100];
    vectors_init(&vectors, sizeof(int64_t));
    for (uint64_t i = 0; i < 100; i++) (void)reach(&vectors, i * 7919 % 101, (uint32_t)(i % 3), false);
    vectors_keys(&vectors, keys);
    for (size_t i = 1; i < 100; i++) assert_true(keys[i - 1] < keys[i]);
    vectors_fini(&vectors);
}

static void without_memory_nothing_changes(void **state) {
    vectors vectors;
    void *values;
    uint32_t length;
    vectors_init(&vectors, sizeof(float));
    for (size_t nth = 1; nth <= 2; nth++) {
        alloc_fail_at(nth);
        assert_int_equal(vectors_reach(&vectors, 1, 100, false, &values), MR_NOMEM);
        assert_int_equal(vectors_count(&vectors), 0);
    }
    (void)reach(&vectors, 1, 1, false);
    alloc_fail_at(1);
    assert_int_equal(vectors_reach(&vectors, 1, 100, false, &values), MR_NOMEM);
    (void)vectors_find(&vectors, 1, &length);
    assert_int_equal(length, 1);
    vectors_fini(&vectors);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_decides),
        cmocka_unit_test(keys_ascend),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
