/* slot_norms_test.c — squared norms are added in order, encoded and decoded; malformed bytes are rejected. */
#include "kv/engine/slot_norms.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void they_are_found_by_what_they_are_of(void **state) {
    slot_norms norms = {0};
    assert_null(slot_norms_find(&norms, 1, SLOT_NORMS_WHOLE));
    slot_norms_add(&norms, 7, 2, 4, 9);
    slot_norms_add(&norms, 3, SLOT_NORMS_WHOLE, 1, 0);
    slot_norms_add(&norms, 7, 1, 16, 25);
    slot_norms_add(&norms, 7, 2, 1, 1);
    assert_int_equal(norms.count, 3);
    const slot_norms_item *item = slot_norms_find(&norms, 7, 2);
    assert_true(item != NULL && item->squares[0] == 5 && item->squares[1] == 10);
    assert_true(slot_norms_find(&norms, 7, 1)->squares[1] == 25 && slot_norms_find(&norms, 7, 3) == NULL);
    slot_norms_add(&norms, 3, SLOT_NORMS_WHOLE, (double)NAN, 0);
    /* infinite, regardless of the bits of the NaN */
    assert_true(isinf(slot_norms_find(&norms, 3, SLOT_NORMS_WHOLE)->squares[0]));
    slot_norms_fini(&norms);
}

static void parts_are_added_in_their_order(void **state) {
    const double squares[] = {1e16, 1, 1, 1};
    shared_bytes *parts[4];
    span spans[5];
    double expected = 0;
    for (size_t i = 0; i < 4; i++) {
        slot_norms one = {0};
        slot_norms_add(&one, 1, SLOT_NORMS_WHOLE, squares[i], 0);
        if (i == 2) slot_norms_add(&one, 2, 5, 7, 8);
        parts[i] = slot_norms_write(&one);
        spans[i] = shared_bytes_bytes(parts[i]);
        expected += squares[i];
        slot_norms_fini(&one);
    }
    spans[4] = span_of("no lengths", 10);
    shared_bytes *all = slot_norms_combine(NULL, spans, 5);
    slot_norms read = {0};
    assert_true(slot_norms_read(&read, shared_bytes_bytes(all)));
    assert_int_equal(read.count, 2);
    assert_true(slot_norms_find(&read, 1, SLOT_NORMS_WHOLE)->squares[0] == expected);
    assert_true(slot_norms_find(&read, 2, 5)->squares[1] == 8);
    shared_bytes *turned = slot_norms_combine(NULL, (const span[]){spans[1], spans[2], spans[3], spans[0]}, 4);
    /* the result depends on the order */
    assert_memory_not_equal(shared_bytes_bytes(all).data, shared_bytes_bytes(turned).data, SLOT_NORMS_ITEM);
    shared_bytes_unref(turned);
    shared_bytes_unref(all);
    for (size_t i = 0; i < 4; i++) shared_bytes_unref(parts[i]);
    slot_norms_fini(&read);
}

static void phases_lie_one_behind_the_other(void **state) {
    slot_norms first = {0}, second = {0}, both = {0};
    slot_norms_add(&first, 4, SLOT_NORMS_WHOLE, 2, 0);
    slot_norms_add(&second, 4, SLOT_NORMS_WHOLE, 99, 0); /* the norm is already known from the first phase */
    slot_norms_add(&second, 4, 1, 3, 5);
    uint8_t bytes[3 * SLOT_NORMS_ITEM];
    memcpy(bytes, first.list, SLOT_NORMS_ITEM);
    memcpy(bytes + SLOT_NORMS_ITEM, second.list, sizeof bytes - SLOT_NORMS_ITEM);
    assert_true(slot_norms_read(&both, span_of(bytes, sizeof bytes)));
    assert_true(both.count == 2 && slot_norms_find(&both, 4, SLOT_NORMS_WHOLE)->squares[0] == 2);
    assert_true(slot_norms_find(&both, 4, 1)->squares[1] == 5);
    assert_false(slot_norms_read(&both, span_of(bytes, sizeof bytes - 1)));
    assert_int_equal(both.count, 0);
    slot_norms_fini(&first);
    slot_norms_fini(&second);
    slot_norms_fini(&both);
}

static void there_are_no_more_than_there_may_be(void **state) {
    slot_norms norms = {0};
    for (uint32_t i = 0; i < SLOT_NORMS_MAX + 5; i++) slot_norms_add(&norms, 1, 1 + i, 1, 1);
    assert_int_equal(norms.count, SLOT_NORMS_MAX);
    assert_non_null(slot_norms_find(&norms, 1, SLOT_NORMS_MAX));
    assert_null(slot_norms_find(&norms, 1, SLOT_NORMS_MAX + 1));
    slot_norms_fini(&norms);
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
