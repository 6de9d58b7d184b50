/* names_test.c — a name is one record, whoever asks for it and however often. */
#include "runtime/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void a_name_is_one_record(void **state) {
    names names = {0};
    char text[] = "add";
    name *first = names_get_text(&names, text, (span){0}), *again = names_get(&names, "addition", 3, (span){0});
    assert_ptr_equal(first, again);
    assert_int_equal(first->number, 1);
    assert_string_equal(first->text, "add");
    assert_ptr_equal(names_get_text(&names, text, (span){0}), first);
    memcpy(text, "sub", 3); /* the same place, another text */
    name *other = names_get_text(&names, text, (span){0});
    assert_ptr_not_equal(other, first);
    assert_string_equal(other->text, "sub");
    assert_int_equal(other->number, 2);
    for (int i = 0; i < 3; i++) name_unref(first);
    name_unref(other);
    names_fini(&names);
}

static void names_without_a_number_go_with_their_last_reference(void **state) {
    names names = {0};
    for (int i = 0; i < NAMES_MAX; i++) {
        char text[16];
        snprintf(text, sizeof text, "n%d", i);
        name *name = names_get_text(&names, text, (span){0});
        assert_int_equal(name->number, i + 1);
        name_unref(name);
    }
    name *more = names_get_text(&names, "one more", (span){0}), *again = names_get_text(&names, "one more", (span){0});
    assert_int_equal(more->number, 0);
    assert_ptr_not_equal(more, again);
    name_unref(more);
    name_unref(again);
    name *kept = names_get_text(&names, "n17", (span){0});
    assert_int_equal(kept->number, 18);
    name_unref(kept);
    names_fini(&names);
}

static void code_makes_another_name(void **state) {
    names names = {0};
    uint8_t bytes[2][300] = {{1}, {2}};
    span first = span_of(bytes[0], 300), second = span_of(bytes[1], 300);
    name *plain = names_get_text(&names, "f", (span){0}), *one = names_get_text(&names, "f", first);
    name *two = names_get_text(&names, "f", second);
    assert_true(plain != one && one != two && two != plain);
    assert_true(plain->code.size == 0 && one->code.size == 300);
    assert_memory_equal(one->code.data, bytes[0], 300);
    uint8_t copy[300] = {1};
    name *again = names_get(&names, "f", 1, span_of(copy, 300));
    assert_ptr_equal(again, one);
    bytes[0][0] = 3; /* another function lies in the same place */
    name *other = names_get_text(&names, "f", first);
    assert_ptr_not_equal(other, one);
    name *const all[] = {plain, one, two, again, other};
    for (size_t i = 0; i < 5; i++) name_unref(all[i]);
    names_fini(&names);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_makes_another_name),
        cmocka_unit_test(a_name_is_one_record),
        cmocka_unit_test(names_without_a_number_go_with_their_last_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
