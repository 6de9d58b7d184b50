/* option_struct_test.c — option structs of older and newer releases. */
#include "base/option_struct.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct first_options { /* the first release */
    size_t size;
    int a, b;
} first_options;

typedef struct next_options { /* this release */
    size_t size;
    int a, b;
    double c;
} next_options;

typedef struct later_options { /* a later release */
    size_t size;
    int a, b;
    double c, d;
} later_options;

static mr_status sum(const next_options *options, double *out) {
    next_options copy;
    OPTION_STRUCT_READ(next_options, b, options, copy);
    *out = options == NULL ? 0 : options->a + options->b + options->c + (double)(options->size - sizeof copy);
    return MR_OK;
}

static mr_status sum_of(const void *options, double *out) { return sum(options, out); }

static void a_struct_of_this_release_is_used_where_it_lies(void **state) {
    const next_options now = MR_OPTIONS(next_options, .a = 1, .b = 2, .c = 0.5);
    double found;
    assert_int_equal(sum(&now, &found), MR_OK);
    assert_true(found == 3.5);
    assert_int_equal(sum(NULL, &found), MR_OK);
    assert_true(found == 0);
}

static void fields_that_an_older_struct_lacks_have_their_default(void **state) {
    struct {
        first_options first;
        double behind;
    } old = {MR_INIT(first_options), 77};
    double found;
    old.first.a = 1;
    old.first.b = 2;
    assert_int_equal(sum_of(&old.first, &found), MR_OK);
    assert_true(found == 3);
}

static void fields_that_are_not_known_must_be_zero(void **state) {
    later_options later = MR_OPTIONS(later_options, .a = 1, .c = 0.25);
    double found;
    assert_int_equal(sum_of(&later, &found), MR_OK);
    assert_true(found == 1.25);
    later.d = 1;
    assert_int_equal(sum_of(&later, &found), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "next_options.size is 32, and a field at byte 30"));
}

static void a_size_that_was_not_set_is_told(void **state) {
    const size_t sizes[] = {0, 8, sizeof(first_options) - 1, 1 << 20, SIZE_MAX};
    double found;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        next_options wrong = {.size = sizes[i]};
        assert_int_equal(sum(&wrong, &found), MR_INVALID);
        assert_non_null(strstr(mr_last_error(), "MR_INIT(next_options)"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_struct_of_this_release_is_used_where_it_lies),
        cmocka_unit_test(fields_that_an_older_struct_lacks_have_their_default),
        cmocka_unit_test(fields_that_are_not_known_must_be_zero),
        cmocka_unit_test(a_size_that_was_not_set_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
