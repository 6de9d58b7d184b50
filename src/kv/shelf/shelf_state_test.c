/* shelf_state_test.c — a slot as bytes: no others are read, and it makes no sense of nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "tests/support/parcels.h"
#include "tests/support/shelves.h"

static void no_other_bytes_are_read(void **state) {
    void *shelf = shelves_new(true), *other = shelves_new(true), *plain = shelves_new(false);
    parcel_writer writer = {0};
    parcels_define(&writer, (definition_options){.optimizer = "adam", .admit = 2});
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1, 2}, 2, (const float[]){1, 2}, 1);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){1}, 1);
    parcels_define(&writer, (definition_options){.id = 2, .kind = DEFINITION_VECTORS});
    parcels_vector(&writer, PARCEL_ADD_VECTORS, 2, 4, (const float[]){1, 2, 3}, 3);
    parcels_define(&writer, (definition_options){.id = 3, .kind = DEFINITION_DENSE, .block = 8});
    parcels_block(&writer, PARCEL_ADD_BLOCK, 3, (parcel_place){0, 1, 4, 0}, (const float[]){1, 2, 3, 4}, 4);
    parcels_plain(&writer, PARCEL_DROP, 9);
    shelves_apply(shelf, &writer, 1);
    bale *bytes = shelves_bytes(shelf);
    span all = bale_bytes(bytes);
    for (size_t size = 0; size < all.size; size++) assert_false(shelf_ops.read(other, span_of(all.data, size)));
    assert_false(shelf_ops.read(plain, all)); /* it keeps nothing */
    rng rng;
    rng_init(&rng, 5);
    for (int turn = 0; turn < 2000; turn++) { /* whatever is read is written again */
        bale *wrong = bale_copy(all);
        bale_room(wrong)[rng_below(&rng, all.size)] ^= (uint8_t)(1 << rng_below(&rng, 8));
        if (shelf_ops.read(other, bale_bytes(wrong))) {
            bale *again = shelves_bytes(other);
            assert_int_equal(bale_bytes(again).size, all.size);
            bale_unref(again);
        }
        bale_unref(wrong);
    }
    assert_true(shelf_ops.read(other, all));
    shelves_assert_same(shelf, other);
    bale_unref(bytes);
    shelf_ops.destroy(shelf);
    shelf_ops.destroy(other);
    shelf_ops.destroy(plain);
}

static void what_makes_no_sense_changes_nothing(void **state) {
    void *shelf = shelves_new(false);
    shelves_define(shelf, (definition_options){.dim = 2});
    bale *before = shelves_bytes(shelf);
    parcel_writer writer = {0};
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1, 2}, 2, (const float[]){1, 2, 3, 4}, 2);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){2, 1}, 2, (const float[]){1, 2, 3, 4}, 2);
    shelf_ops.apply(shelf, parcel_written(&writer), 1); /* keys that do not ascend, behind some that do */
    parcel_fini(&writer);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 7, (const uint64_t[]){1}, 1, (const float[]){1}, 1); /* unknown */
    shelf_ops.apply(shelf, parcel_written(&writer), 1);
    bale *none = shelf_ops.show(shelf, span_of("nonsense", 8), false);
    assert_int_equal(bale_bytes(none).size, 0);
    bale *after = shelves_bytes(shelf);
    assert_memory_equal(bale_bytes(before).data, bale_bytes(after).data, bale_bytes(before).size);
    assert_int_equal(bale_bytes(before).size, bale_bytes(after).size);
    parcel_fini(&writer);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){1, 2, 3}, 3); /* too long */
    parcels_block(&writer, PARCEL_ADD_BLOCK, 1, (parcel_place){0, 0, 1, 0}, (const float[]){1}, 1);   /* no array */
    shelves_apply(shelf, &writer, 1);
    assert_int_equal(shelves_look(shelf).refused, 2);
    assert_int_equal(shelves_look(shelf).keys, 0);
    bale_unref(none);
    bale_unref(before);
    bale_unref(after);
    shelf_ops.destroy(shelf);
}

static void bytes_need_no_alignment(void **state) {
    void *shelf = shelves_new(false);
    shelves_define(shelf, (definition_options){.id = 1});
    parcel_writer writer = {0};
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){5}, 1);
    span written = parcel_written(&writer);
    uint8_t *odd = xmalloc(written.size + 3);
    memcpy(odd + 3, written.data, written.size);
    shelf_ops.apply(shelf, span_of(odd + 3, written.size), 1);
    bale *shown = shelf_ops.show(shelf, span_of(odd + 3, written.size), false);
    assert_int_equal(bale_bytes(shown).size, parcel_section_size(PARCEL_ROWS, 1, 4));
    assert_true(shelves_row(shelf, 1, false) == 5);
    bale_unref(shown);
    free(odd);
    parcel_fini(&writer);
    shelf_ops.destroy(shelf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_bytes_are_read),
        cmocka_unit_test(what_makes_no_sense_changes_nothing),
        cmocka_unit_test(bytes_need_no_alignment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
