/* shelf_vectors_test.c — vectors by key: added up to the longest, now and before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/parcels.h"
#include "tests/support/shelves.h"

static void vectors_are_as_long_as_the_longest(void **state) {
    void *shelf = shelves_new(true);
    parcel_writer writer = {0};
    parcels_define(&writer, (definition_options){.kind = DEFINITION_VECTORS});
    parcels_vector(&writer, PARCEL_ADD_VECTORS, 1, 4, (const float[]){1, 2, 3}, 3);
    shelves_apply(shelf, &writer, 1);
    parcels_vector(&writer, PARCEL_ADD_VECTORS, 1, 4, (const float[]){1}, 1);
    parcels_vector(&writer, PARCEL_SET_VECTORS, 1, 6, (const float[]){5, 5}, 2);
    shelves_apply(shelf, &writer, 2);
    for (int kept = 0; kept < 2; kept++) {
        parcels_keys(&writer, PARCEL_GET_VECTORS, 1, (const uint64_t[]){4, 5, 6}, 3);
        shelves_answers answers = shelves_ask(shelf, &writer, kept);
        parcel_section section = shelves_next(&answers, PARCEL_VECTORS);
        assert_true(section.lengths[0] == 3 && section.lengths[1] == 0 && section.lengths[2] == (kept ? 0 : 2));
        assert_true(shelves_floats(&section)[0] == (kept ? 1 : 2) && shelves_floats(&section)[2] == 3);
        shelves_end(&answers);
    }
    shelf_ops.destroy(shelf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_as_long_as_the_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
