/* lengths_test.c — squares of lengths: added up in the order given, written, read, refused. */
#include "kv/shelf/lengths.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void they_are_found_by_what_they_are_of(void **state) {
    lengths lengths = {0};
    assert_null(lengths_find(&lengths, 1, LENGTHS_WHOLE));
    lengths_add(&lengths, 7, 2, 4, 9);
    lengths_add(&lengths, 3, LENGTHS_WHOLE, 1, 0);
    lengths_add(&lengths, 7, 1, 16, 25);
    lengths_add(&lengths, 7, 2, 1, 1);
    assert_int_equal(lengths.count, 3);
    const lengths_item *item = lengths_find(&lengths, 7, 2);
    assert_true(item != NULL && item->squares[0] == 5 && item->squares[1] == 10);
    assert_true(lengths_find(&lengths, 7, 1)->squares[1] == 25 && lengths_find(&lengths, 7, 3) == NULL);
    lengths_add(&lengths, 3, LENGTHS_WHOLE, (double)NAN, 0);
    assert_true(isinf(lengths_find(&lengths, 3, LENGTHS_WHOLE)->squares[0])); /* one that does not depend on bits */
    lengths_fini(&lengths);
}

static void parts_are_added_in_their_order(void **state) {
    const double squares[] = {1e16, 1, 1, 1};
    bale *parts[4];
    span spans[5];
    double expected = 0;
    for (size_t i = 0; i < 4; i++) {
        lengths one = {0};
        lengths_add(&one, 1, LENGTHS_WHOLE, squares[i], 0);
        if (i == 2) lengths_add(&one, 2, 5, 7, 8);
        parts[i] = lengths_write(&one);
        spans[i] = bale_bytes(parts[i]);
        expected += squares[i];
        lengths_fini(&one);
    }
    spans[4] = span_of("no lengths", 10);
    bale *all = lengths_combine(spans, 5);
    lengths read = {0};
    assert_true(lengths_read(&read, bale_bytes(all)));
    assert_int_equal(read.count, 2);
    assert_true(lengths_find(&read, 1, LENGTHS_WHOLE)->squares[0] == expected);
    assert_true(lengths_find(&read, 2, 5)->squares[1] == 8);
    bale *turned = lengths_combine((const span[]){spans[1], spans[2], spans[3], spans[0]}, 4);
    assert_memory_not_equal(bale_bytes(all).data, bale_bytes(turned).data, LENGTHS_ITEM); /* the order shows */
    bale_unref(turned);
    bale_unref(all);
    for (size_t i = 0; i < 4; i++) bale_unref(parts[i]);
    lengths_fini(&read);
}

static void phases_lie_one_behind_the_other(void **state) {
    lengths first = {0}, second = {0}, both = {0};
    lengths_add(&first, 4, LENGTHS_WHOLE, 2, 0);
    lengths_add(&second, 4, LENGTHS_WHOLE, 99, 0); /* it was known already */
    lengths_add(&second, 4, 1, 3, 5);
    uint8_t bytes[3 * LENGTHS_ITEM];
    memcpy(bytes, first.list, LENGTHS_ITEM);
    memcpy(bytes + LENGTHS_ITEM, second.list, sizeof bytes - LENGTHS_ITEM);
    assert_true(lengths_read(&both, span_of(bytes, sizeof bytes)));
    assert_true(both.count == 2 && lengths_find(&both, 4, LENGTHS_WHOLE)->squares[0] == 2);
    assert_true(lengths_find(&both, 4, 1)->squares[1] == 5);
    assert_false(lengths_read(&both, span_of(bytes, sizeof bytes - 1)));
    assert_int_equal(both.count, 0);
    lengths_fini(&first);
    lengths_fini(&second);
    lengths_fini(&both);
}

static void there_are_no_more_than_there_may_be(void **state) {
    lengths lengths = {0};
    for (uint32_t i = 0; i < LENGTHS_MAX + 5; i++) lengths_add(&lengths, 1, 1 + i, 1, 1);
    assert_int_equal(lengths.count, LENGTHS_MAX);
    assert_non_null(lengths_find(&lengths, 1, LENGTHS_MAX));
    assert_null(lengths_find(&lengths, 1, LENGTHS_MAX + 1));
    lengths_fini(&lengths);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_found_by_what_they_are_of),
        cmocka_unit_test(parts_are_added_in_their_order),
        cmocka_unit_test(phases_lie_one_behind_the_other),
        cmocka_unit_test(there_are_no_more_than_there_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
