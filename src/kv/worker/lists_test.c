/* lists_test.c — lists are found by name and length, are bounded, and stay while they are held. */
#include "kv/worker/lists.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

enum { COUNT = 100 };

static void fill(uint64_t *keys, uint64_t seed) {
    for (uint64_t i = 0; i < COUNT; i++) keys[i] = i * 1000 + seed;
}

static void what_is_kept_is_found(void **state) {
    lists lists;
    uint64_t keys[COUNT], other[COUNT];
    lists_init(&lists, 1 << 20);
    fill(keys, 1);
    fill(other, 2);
    lists_name name = lists_name_of(keys, COUNT);
    assert_null(lists_find(&lists, name, COUNT));
    lists_item *item = lists_keep(&lists, name, keys, COUNT);
    assert_memory_equal(item->keys, keys, sizeof keys);
    assert_ptr_equal(lists_find(&lists, name, COUNT), item);
    assert_ptr_equal(lists_keep(&lists, name, keys, COUNT), item);
    assert_null(lists_find(&lists, name, COUNT - 1));
    assert_null(lists_find(&lists, (lists_name){name.low, name.high ^ 1}, COUNT));
    lists_name second = lists_name_of(other, COUNT);
    assert_true(second.low != name.low && second.high != name.high);
    assert_non_null(lists_keep(&lists, second, other, COUNT));

    /* Half of a name is not one: the later list takes the place, unless the earlier one is held. */
    lists_name half = {name.low, ~name.high};
    lists_hold(item);
    assert_null(lists_keep(&lists, half, other, COUNT));
    lists_release(item);
    assert_non_null(lists_keep(&lists, half, other, COUNT));
    assert_null(lists_find(&lists, name, COUNT));
    lists_fini(&lists);
}

static void the_oldest_go(void **state) {
    lists lists;
    uint64_t keys[COUNT];
    lists_init(&lists, 10000);
    fill(keys, 0);
    lists_item *held = lists_keep(&lists, lists_name_of(keys, COUNT), keys, COUNT);
    lists_hold(held);
    for (uint64_t i = 1; i < 50; i++) {
        fill(keys, i);
        assert_non_null(lists_keep(&lists, lists_name_of(keys, COUNT), keys, COUNT));
        assert_true(lists.bytes <= lists.bytes_max);
        assert_non_null(lists_find(&lists, lists_name_of(keys, COUNT), COUNT));
    }
    fill(keys, 1);
    assert_null(lists_find(&lists, lists_name_of(keys, COUNT), COUNT));
    fill(keys, 0);
    assert_ptr_equal(lists_find(&lists, lists_name_of(keys, COUNT), COUNT), held);
    lists_release(held);
    lists_fini(&lists);
    lists_init(&lists, 100);
    assert_null(lists_keep(&lists, lists_name_of(keys, COUNT), keys, COUNT)); /* it is too long */
    lists_fini(&lists);
}

static void a_note_stays_with_its_list_and_counts(void **state) {
    lists lists;
    uint64_t keys[COUNT];
    lists_init(&lists, 10000);
    fill(keys, 0);
    lists_item *item = lists_keep(&lists, lists_name_of(keys, COUNT), keys, COUNT);
    size_t before = lists.bytes;
    uint32_t *note = lists_note(&lists, item, COUNT * sizeof *note);
    assert_int_equal(lists.bytes, before + COUNT * sizeof *note);
    assert_true(note[0] == 0 && note[COUNT - 1] == 0);
    note[COUNT - 1] = 5;
    assert_ptr_equal(lists_note(&lists, item, COUNT * sizeof *note), note);
    assert_ptr_equal(lists_find(&lists, lists_name_of(keys, COUNT), COUNT)->note, note);
    for (uint64_t i = 1; i < 50; i++) {
        fill(keys, i);
        item = lists_keep(&lists, lists_name_of(keys, COUNT), keys, COUNT);
        assert_non_null(lists_note(&lists, item, COUNT * sizeof *note));
        assert_true(lists.bytes <= lists.bytes_max);
        assert_ptr_equal(lists_find(&lists, lists_name_of(keys, COUNT), COUNT), item);
    }
    fill(keys, 51);
    item = lists_keep(&lists, lists_name_of(keys, COUNT), keys, COUNT);
    assert_null(lists_note(&lists, item, 10000)); /* it is too much */
    alloc_fail_at(1);
    assert_null(lists_note(&lists, item, 8));
    alloc_fail_at(0);
    assert_non_null(lists_note(&lists, item, 8));
    lists_fini(&lists);
}

static void no_memory(void **state) {
    uint64_t keys[COUNT];
    fill(keys, 0);
    for (size_t nth = 1; nth <= 2; nth++) {
        lists lists;
        lists_init(&lists, 10000);
        alloc_fail_at(nth);
        assert_null(lists_keep(&lists, lists_name_of(keys, COUNT), keys, COUNT));
        alloc_fail_at(0);
        assert_non_null(lists_keep(&lists, lists_name_of(keys, COUNT), keys, COUNT));
        lists_fini(&lists);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_found),
        cmocka_unit_test(the_oldest_go),
        cmocka_unit_test(a_note_stays_with_its_list_and_counts),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
