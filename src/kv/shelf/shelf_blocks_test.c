/* shelf_blocks_test.c — blocks of arrays: as they begin, what pushes make of them, and values that lie in the memory of
 * another process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/parcels.h"
#include "tests/support/shelves.h"

static void blocks_begin_where_the_array_does(void **state) {
    void *shelf = shelves_new(false);
    definition_options options = {
        .kind = DEFINITION_DENSE, .block = 8, .initializer = "uniform:-1:1", .seed = 4, .optimizer = "momentum"};
    shelves_define(shelf, options);
    const parcel_place second = {2, 1, 5, 0}, part = {2, 1, 5, 3};
    initializer init = {INITIALIZER_UNIFORM, -1, 1, 4, (uint64_t)1 << 32 | 2};
    float expected[5], speeds[5] = {0};
    initializer_fill(&init, 0, 8, 5, expected);
    for (int turn = 0; turn < 3; turn++) {
        const float gradient[] = {1, 2, 3, 4, 5};
        parcel_writer writer = {0};
        parcels_get_block(&writer, 1, part, 2);
        parcels_block(&writer, PARCEL_ADD_BLOCK, 1, second, gradient, 5);
        shelves_answers answers = shelves_ask(shelf, &writer, false);
        parcel_section section = shelves_next(&answers, PARCEL_BLOCK);
        assert_memory_equal(section.values.data, expected + 3, 8);
        section = shelves_next(&answers, PARCEL_BLOCK);
        assert_memory_equal(section.values.data, expected, 20);
        shelves_end(&answers);
        parcels_block(&writer, PARCEL_ADD_BLOCK, 1, second, gradient, 5);
        shelves_apply(shelf, &writer, 1);
        for (int i = 0; i < 5; i++) {
            speeds[i] = 0.9f * speeds[i] + gradient[i];
            expected[i] = expected[i] - 0.01f * speeds[i];
        }
    }
    assert_int_equal(shelves_look(shelf).keys, 1);
    shelf_ops.destroy(shelf);
}

/* ---- Values that lie elsewhere. */

enum { SEEN_ITEMS = 8192, SEEN_PROCESS = 9 };

typedef struct seen { /* one process that pushes, and shows what it has */
    glass *glass;
    glass_view view;
    float *values;
    afar_sight sight;
    shelf_host host;
    void *shelf;
} seen;

static const glass_view *see(void *context, uint64_t process) {
    const seen *seen = context;
    return process == SEEN_PROCESS ? &seen->view : NULL;
}

static void seen_begin(seen *seen, bool keeps) {
    void *memory;
    assert_int_equal(glass_create(GLASS_FRONT + (4 << 20), &seen->glass), MR_OK);
    assert_int_equal(glass_take(seen->glass, SEEN_ITEMS * sizeof(float), &memory), MR_OK);
    assert_int_equal(glass_look(glass_fd(seen->glass), &seen->view), MR_OK);
    seen->values = memory;
    for (int i = 0; i < SEEN_ITEMS; i++) seen->values[i] = (float)i;
    seen->sight = (afar_sight){see, seen};
    seen->host = (shelf_host){.sight = &seen->sight, .glass = seen->glass, .process = SEEN_PROCESS};
    seen->shelf = shelf_ops.create(&seen->host, 0, keeps);
    shelves_define(seen->shelf, (definition_options){.kind = DEFINITION_DENSE, .block = SEEN_ITEMS});
}

static void seen_end(seen *seen) {
    uint64_t used = glass_used(seen->glass);
    shelf_ops.destroy(seen->shelf);
    assert_true(glass_used(seen->glass) < used); /* its blocks lay there */
    glass_look_away(&seen->view);
    glass_destroy(seen->glass);
}

static void write_afar(const seen *seen, parcel_writer *writer) {
    parcel_head head = {.table = 1, .op = PARCEL_ADD_BLOCK, .flags = PARCEL_AFAR, .dtype = MR_F32, .count = SEEN_ITEMS};
    parcel_afar afar = {.process = SEEN_PROCESS};
    parcel_room room;
    assert_true(glass_holds(seen->glass, seen->values, SEEN_ITEMS * sizeof(float), &afar.offset));
    assert_int_equal(parcel_add(writer, head, sizeof afar, &room), MR_OK);
    *room.place = (parcel_place){0, 0, SEEN_ITEMS, 0};
    memcpy(room.values, &afar, sizeof afar);
}

/* Where it lies, as it was before the last apply or is now. */
static parcel_afar look_for(const seen *seen, bool kept) {
    parcel_writer writer = {0};
    parcels_get_block(&writer, 1, (parcel_place){0, 0, SEEN_ITEMS, 4}, SEEN_ITEMS - 4);
    bale_room(writer.bale)[5] |= PARCEL_AFAR;
    shelves_answers answers = shelves_ask(seen->shelf, &writer, kept);
    parcel_section section = shelves_next(&answers, PARCEL_BLOCK);
    assert_int_equal(section.flags, PARCEL_AFAR);
    assert_true(section.afar.process == SEEN_PROCESS && section.count == SEEN_ITEMS - 4);
    shelves_end(&answers);
    return section.afar;
}

static bool sees(const seen *seen, const parcel_afar *afar, float factor) {
    static float copy[SEEN_ITEMS - 4];
    if (!glass_copy(&seen->view, (uint32_t)afar->word, afar->value, afar->offset, sizeof copy, false, copy))
        return false;
    for (int i = 0; i < SEEN_ITEMS - 4; i++) assert_true(copy[i] == factor * (float)(i + 4));
    return true;
}

static void a_push_is_read_where_it_lies_once_it_is_settled(void **state) {
    seen seen;
    parcel_writer writer = {0};
    bale *own = NULL;
    seen_begin(&seen, false);
    write_afar(&seen, &writer);
    span push = parcel_written(&writer);
    shelf_ops.apply(seen.shelf, push, 1); /* not settled: a copy could not read it either */
    assert_int_equal(shelves_look(seen.shelf).refused, 1);
    assert_true(shelf_ops.settle(&seen.host, push, true, &own));
    assert_null(own);
    shelf_ops.apply(seen.shelf, push, 1);
    assert_int_equal(shelves_look(seen.shelf).refused, 1);
    parcel_afar first = look_for(&seen, false);
    assert_true(sees(&seen, &first, 1));
    shelf_ops.apply(seen.shelf, push, 2); /* that was for one apply */
    assert_int_equal(shelves_look(seen.shelf).refused, 2);
    assert_true(sees(&seen, &first, 1));
    assert_true(shelf_ops.settle(&seen.host, push, false, &own)); /* with its bytes anybody applies it */
    assert_non_null(own);
    shelf_ops.apply(seen.shelf, bale_bytes(own), 2);
    bale_unref(own);
    assert_false(sees(&seen, &first, 1)); /* it has changed */
    first = look_for(&seen, false);
    assert_true(sees(&seen, &first, 2));
    assert_false(shelf_ops.settle(NULL, push, true, &own));
    parcel_fini(&writer);
    seen_end(&seen);
}

static void the_version_before_stays_in_sight(void **state) {
    seen seen;
    parcel_writer writer = {0};
    seen_begin(&seen, true);
    parcel_afar shown[4];
    for (int i = 1; i <= 3; i++) {
        parcels_block(&writer, PARCEL_ADD_BLOCK, 1, (parcel_place){0, 0, SEEN_ITEMS, 0}, seen.values, SEEN_ITEMS);
        shelves_apply(seen.shelf, &writer, (uint64_t)i);
        shown[i] = look_for(&seen, false);
        assert_true(sees(&seen, &shown[i], (float)i));
        if (i == 1) continue;
        assert_true(sees(&seen, &shown[i - 1], (float)(i - 1))); /* the next was written beside it */
        parcel_afar kept = look_for(&seen, true);
        assert_memory_equal(&kept, &shown[i - 1], sizeof kept);
    }
    assert_false(sees(&seen, &shown[1], 1)); /* and the one after that over it */
    seen_end(&seen);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_begin_where_the_array_does),
        cmocka_unit_test(a_push_is_read_where_it_lies_once_it_is_settled),
        cmocka_unit_test(the_version_before_stays_in_sight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
