/* call_places_test.c — places are taken and given, numbers grow, records stay where they are. */
#include "net/call_places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"

static call_record *take(call_places *places) {
    call_record *first = call_places_first(places);
    call_places_take_first(places, first);
    return first;
}

static void the_last_place_given_is_taken_first(void **state) {
    call_places places = {0};
    assert_int_equal(places.free, 0);
    assert_int_equal(call_places_grow(&places, NULL), MR_OK);
    call_record *first = take(&places), *second = take(&places);
    assert_int_equal(first->number, CALL_WINDOW);
    assert_int_equal(second->number, CALL_WINDOW + 1);
    call_places_give(&places, first);
    assert_ptr_equal(take(&places), first);
    assert_int_equal(first->number, 2 * CALL_WINDOW);
    assert_int_equal(take(&places)->number, CALL_WINDOW + 2);
    call_places_fini(&places);
}

static void only_numbers_that_were_given_are_found(void **state) {
    call_places places = {0};
    assert_null(call_places_find(&places, CALL_WINDOW));
    assert_int_equal(call_places_grow(&places, NULL), MR_OK);
    assert_null(call_places_find(&places, CALL_WINDOW));
    call_record *record = take(&places);
    assert_ptr_equal(call_places_find(&places, CALL_WINDOW), record);
    assert_null(call_places_find(&places, CALL_WINDOW + 1));
    assert_null(call_places_find(&places, 2 * CALL_WINDOW));
    assert_null(call_places_find(&places, UINT64_MAX));
    call_places_give(&places, record);
    take(&places);
    assert_ptr_equal(call_places_find(&places, CALL_WINDOW), record); /* over, but it was */
    assert_ptr_equal(call_places_find(&places, 2 * CALL_WINDOW), record);
    call_places_fini(&places);
}

static void there_are_window_many_and_they_do_not_move(void **state) {
    call_places places = {0};
    call_record *records[CALL_WINDOW];
    for (int i = 0; i < CALL_WINDOW; i++) {
        if (places.free == 0) assert_int_equal(call_places_grow(&places, NULL), MR_OK);
        records[i] = take(&places);
        assert_int_equal(records[i]->number, CALL_WINDOW + i);
    }
    assert_int_equal(places.free, 0);
    assert_int_equal(call_places_grow(&places, NULL), MR_BUSY);
    for (uint32_t i = 0; i < CALL_WINDOW; i++) assert_ptr_equal(call_places_at(&places, i), records[i]);
    call_places_fini(&places);
}

static void without_memory_nothing_changes(void **state) {
    call_places places = {0};
    for (size_t nth = 1; nth <= 2; nth++) {
        alloc_fail_at(nth);
        assert_int_equal(call_places_grow(&places, NULL), MR_NOMEM);
        assert_int_equal(places.count, 0);
        assert_int_equal(places.free, 0);
    }
    assert_int_equal(call_places_grow(&places, NULL), MR_OK);
    call_record *record = take(&places);
    alloc_fail_at(1);
    assert_int_equal(call_places_grow(&places, NULL), MR_NOMEM);
    assert_ptr_equal(call_places_find(&places, CALL_WINDOW), record);
    alloc_fail_at(0);
    call_places_fini(&places);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_place_given_is_taken_first),
        cmocka_unit_test(only_numbers_that_were_given_are_found),
        cmocka_unit_test(there_are_window_many_and_they_do_not_move),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
