/* name_table_test.c — each name is one record, shared by all its users. */
#include "runtime/common/name_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void a_name_is_one_record(void **state) {
    name_table names = {0};
    char text[] = "add";
    interned_name *first = name_table_get_text(&names, text, (span){0}),
                  *again = name_table_get(&names, "addition", 3, (span){0});
    assert_ptr_equal(first, again);
    assert_int_equal(first->number, 1);
    assert_string_equal(first->text, "add");
    assert_ptr_equal(name_table_get_text(&names, text, (span){0}), first);
    memcpy(text, "sub", 3); /* another text at the same address */
    interned_name *other = name_table_get_text(&names, text, (span){0});
    assert_ptr_not_equal(other, first);
    assert_string_equal(other->text, "sub");
    assert_int_equal(other->number, 2);
    for (int i = 0; i < 3; i++) interned_name_unref(first);
    interned_name_unref(other);
    name_table_fini(&names);
}

static void name_table_without_a_number_go_with_their_last_reference(void **state) {
    name_table names = {0};
    for (int i = 0; i < NAME_TABLE_MAX; i++) {
        char text[16];
        snprintf(text, sizeof text, "n%d", i);
        interned_name *name = name_table_get_text(&names, text, (span){0});
        assert_int_equal(name->number, i + 1);
        interned_name_unref(name);
    }
    interned_name *more = name_table_get_text(&names, "one more", (span){0}),
                  *again = name_table_get_text(&names, "one more", (span){0});
    assert_int_equal(more->number, 0);
    assert_ptr_not_equal(more, again);
    interned_name_unref(more);
    interned_name_unref(again);
    interned_name *kept = name_table_get_text(&names, "n17", (span){0});
    assert_int_equal(kept->number, 18);
    interned_name_unref(kept);
    name_table_fini(&names);
}

static void code_makes_another_name(void **state) {
    name_table names = {0};
    uint8_t bytes[2][300] = {{1}, {2}};
    span first = span_of(bytes[0], 300), second = span_of(bytes[1], 300);
    interned_name *plain = name_table_get_text(&names, "f", (span){0}), *one = name_table_get_text(&names, "f", first);
    interned_name *two = name_table_get_text(&names, "f", second);
    assert_true(plain != one && one != two && two != plain);
    assert_true(plain->code.size == 0 && one->code.size == 300);
    assert_memory_equal(one->code.data, bytes[0], 300);
    uint8_t copy[300] = {1};
    interned_name *again = name_table_get(&names, "f", 1, span_of(copy, 300));
    assert_ptr_equal(again, one);
    bytes[0][0] = 3; /* other code at the same address */
    interned_name *other = name_table_get_text(&names, "f", first);
    assert_ptr_not_equal(other, one);
    interned_name *const all[] = {plain, one, two, again, other};
    for (size_t i = 0; i < 5; i++) interned_name_unref(all[i]);
    name_table_fini(&names);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_makes_another_name),
        cmocka_unit_test(a_name_is_one_record),
        cmocka_unit_test(name_table_without_a_number_go_with_their_last_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
