/* binary_search_test.c — the first item not below the key, in random sorted arrays. */
#include "base/binary_search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct row {
    char name;
    int value;
} row;

static int by_value(const void *key, const void *item) {
    int value = *(const int *)key, other = ((const row *)item)->value;
    return (value > other) - (value < other);
}

static size_t find(int value, const row *rows, size_t count) {
    return binary_search_first(&value, rows, count, sizeof *rows, by_value);
}

static void the_first_that_is_not_below(void **state) {
    static const row rows[] = {{'a', 2}, {'b', 4}, {'c', 4}, {'d', 4}, {'e', 9}};
    for (size_t count = 0; count <= 5; count++)
        for (int value = 0; value <= 10; value++) {
            size_t expected = 0;
            while (expected < count && rows[expected].value < value) expected++;
            assert_int_equal(find(value, rows, count), expected);
        }
}

static void nothing_is_looked_at_where_nothing_is(void **state) { assert_int_equal(find(1, NULL, 0), 0); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_is_not_below),
        cmocka_unit_test(nothing_is_looked_at_where_nothing_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
