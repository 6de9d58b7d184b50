/* id_allocator_test.c — numbers are given to requesters, freed after silence, and kept by live processes. */
#include "kv/control/id_allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

static void each_asker_has_its_number(void **state) {
    id_allocator *ids = xcalloc(1, sizeof *ids);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 11, 0), 0);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 12, 0), 1);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 11, 5), 0);
    id_allocator_heard(ids, 2, "s2", 5);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 13, 6), 3);
    free(ids);
}

/* The process may return, and then has state that no other process has. */
static void the_number_of_a_silent_process_is_not_reassigned_at_once(void **state) {
    id_allocator *ids = xcalloc(1, sizeof *ids);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 11, 0), 0);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 12, 0), 1);
    id_allocator_heard(ids, 0, "a", 1);
    id_allocator_heard(ids, 1, "b", 1);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 13, ID_ALLOCATOR_SILENT_US + 1), 2);
    id_allocator_broken(ids, "b");
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 14, ID_ALLOCATOR_SILENT_US), 3);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 15, ID_ALLOCATOR_SILENT_US + 1), 1);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 16, ID_ALLOCATOR_LOST_US + 1), 0);
    free(ids);
}

static void a_number_is_not_taken_from_who_is_here(void **state) {
    id_allocator *ids = xcalloc(1, sizeof *ids);
    assert_true(id_allocator_take(ids, 0, 11, 0) && id_allocator_take(ids, 0, 11, 5)); /* repeated request */
    id_allocator_heard(ids, 0, "a", 10);
    assert_false(id_allocator_take(ids, 0, 12, 11));
    id_allocator_broken(ids, "b");
    assert_false(id_allocator_take(ids, 0, 12, ID_ALLOCATOR_SILENT_US + 9));
    assert_true(id_allocator_take(ids, 0, 12, ID_ALLOCATOR_SILENT_US + 10)); /* the holder is silent */
    id_allocator_heard(ids, 0, "c", ID_ALLOCATOR_SILENT_US + 20);
    id_allocator_broken(ids, "c");
    assert_true(id_allocator_take(ids, 0, 13, ID_ALLOCATOR_SILENT_US + 21)); /* the holder's link broke */
    assert_false(id_allocator_take(ids, ID_ALLOCATOR_MAX, 13, 0));
    free(ids);
}

static void the_number_of_a_silent_process_is_reassigned(void **state) {
    id_allocator *ids = xcalloc(1, sizeof *ids);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 11, 0), 0);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 12, 0), 1); /* and does not connect */
    id_allocator_heard(ids, 0, "s0", ID_ALLOCATOR_SILENT_US - 1);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 13, ID_ALLOCATOR_SILENT_US), 1);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 14, ID_ALLOCATOR_SILENT_US), 2);
    free(ids);
}

static void there_are_so_many(void **state) {
    id_allocator *ids = xcalloc(1, sizeof *ids);
    id_allocator_heard(ids, ID_ALLOCATOR_MAX, "sSEATS_MAX", 0);
    for (uint32_t i = 0; i < ID_ALLOCATOR_MAX; i++) id_allocator_heard(ids, i, "si", 0);
    assert_int_equal(id_allocator_give(ids, ID_ALLOCATOR_MAX, 7, 0), ID_ALLOCATOR_MAX);
    free(ids);
}

static void where_there_are_fewer_one_waits(void **state) {
    id_allocator *ids = xcalloc(1, sizeof *ids);
    assert_int_equal(id_allocator_give(ids, 2, 11, 0), 0);
    assert_int_equal(id_allocator_give(ids, 2, 12, 0), 1);
    id_allocator_heard(ids, 1, "s1", 5);
    assert_int_equal(id_allocator_give(ids, 2, 13, ID_ALLOCATOR_SILENT_US - 1), ID_ALLOCATOR_MAX);
    assert_int_equal(id_allocator_give(ids, 2, 13, ID_ALLOCATOR_SILENT_US), 0);
    assert_int_equal(id_allocator_give(ids, 2, 12, ID_ALLOCATOR_SILENT_US), 1); /* 12 has this number already */
    free(ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_asker_has_its_number),
        cmocka_unit_test(the_number_of_a_silent_process_is_reassigned),
        cmocka_unit_test(the_number_of_a_silent_process_is_not_reassigned_at_once),
        cmocka_unit_test(a_number_is_not_taken_from_who_is_here),
        cmocka_unit_test(there_are_so_many),
        cmocka_unit_test(where_there_are_fewer_one_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
