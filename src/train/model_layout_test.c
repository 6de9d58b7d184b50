/* model_layout_test.c — layouts of trees of weights. */
#include "train/model_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "train/shared_model.h"

enum { ITEMS = 64 };
static float memory[ITEMS + 2], *const half = memory + 1;

static mr_status draw(model_layout *layout, mr_arg weights) {
    return model_layout_draw(layout, (const uint8_t *)half, ITEMS * sizeof *half, &weights);
}

static void is_stand_in(const mr_arg *arg, size_t offset, const int64_t *shape, int dims) {
    assert_int_equal(arg->kind, MR_KIND_TENSOR);
    assert_int_equal(arg->dims, dims + SHARED_MODEL_STAND_IN_DIMS);
    assert_null(arg->array.data);
    assert_int_equal(arg->array.shape[0], 0);
    assert_int_equal(arg->array.shape[1], (int64_t)offset);
    for (int i = 0; i < dims; i++) assert_int_equal(arg->array.shape[SHARED_MODEL_STAND_IN_DIMS + i], shape[i]);
}

static void a_tree_keeps_its_form(void **state) {
    const int64_t square[] = {2, 3}, none[] = {0, 5};
    mr_arg torch = mr_tensor_of(MR_F32, half + 8, 2, square);
    torch.tensor_kind = MR_TORCH;
    const mr_arg pair[] = {mr_str("a"), torch, mr_str("b"), mr_int(7)};
    const mr_arg items[] = {mr_map(pair, 2), mr_tuple((mr_arg[]){mr_tensor_of(MR_F64, half, 0, NULL)}, 1),
                            mr_tensor_of(MR_F32, NULL, 2, none), mr_vector(half + 16, 4)};
    model_layout layout = {0};
    assert_int_equal(draw(&layout, mr_list(items, 4)), MR_OK);
    assert_int_equal(layout.count, 4);
    assert_true(layout.weights.kind == MR_KIND_LIST && layout.weights.items.count == 4);
    const mr_arg *drawn = layout.weights.items.first, *map = drawn[0].items.first;
    assert_true(drawn[0].kind == MR_KIND_MAP && drawn[0].items.count == 2);
    assert_true(map[0].kind == MR_KIND_STR && map[3].kind == MR_KIND_INT && map[3].i == 7);
    is_stand_in(&map[1], 32, square, 2);
    assert_true(map[1].tensor_kind == MR_TORCH && map[1].dtype == MR_F32);
    assert_int_equal(drawn[1].kind, MR_KIND_TUPLE);
    is_stand_in(&drawn[1].items.first[0], 0, NULL, 0);
    assert_int_equal(drawn[1].items.first[0].dtype, MR_F64);
    is_stand_in(&drawn[2], 0, none, 2);
    is_stand_in(&drawn[3], 64, (int64_t[]){4}, 1);
    model_layout_fini(&layout);
}

static void stretches_are_in_the_order_of_their_places(void **state) {
    const mr_arg items[] = {mr_vector(half + 32, 32), mr_vector(half, 4), mr_vector(half + 8, 8)};
    model_layout layout = {0};
    assert_int_equal(draw(&layout, mr_list(items, 3)), MR_OK);
    const model_layout_stretch expected[] = {{0, 16}, {32, 64}, {128, 256}};
    assert_memory_equal(layout.stretches, expected, sizeof expected);
    model_layout_fini(&layout);
}

static void tensors_outside_the_shared_model_are_refused(void **state) {
    const int64_t many[] = {1, 1, 1, 1, 1, 1, 1}, huge[] = {INT64_MAX, INT64_MAX}, negative[] = {-1};
    const mr_custom custom = {.format = MR_PICKLE};
    mr_value came = {0};
    const mr_arg wrong[] = {
        mr_vector(half - 1, 2),                    /* begins before the half */
        mr_vector(half + 63, 2),                   /* ends after the half */
        mr_vector(half + 64, 1),                   /* is after the half */
        mr_tensor_of(MR_U8, half, 7, many),        /* too many dimensions for a stand-in */
        mr_tensor_of(MR_U8, half, 2, huge),        /* the size overflows */
        mr_tensor_of(MR_U8, half, 1, negative),    /* negative length */
        mr_tensor_of((mr_dtype)77, half, 0, NULL), /* unknown dtype */
        mr_tensor_of(MR_U8, half, 2, NULL),        /* two dimensions without a shape */
        mr_custom_arg(&custom),                    /* custom values cannot be read */
        mr_value_arg(&came),
        mr_list(NULL, 1),
        mr_int(1), /* not a tensor */
        mr_list(NULL, 0),
    };
    model_layout layout = {0};
    assert_int_equal(draw(&layout, mr_vector(half, 1)), MR_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(draw(&layout, wrong[i]), MR_INVALID);
        assert_int_equal(draw(&layout, mr_list((mr_arg[]){mr_vector(half, 1), wrong[i]}, 2)),
                         i < sizeof wrong / sizeof *wrong - 2 ? MR_INVALID : MR_OK);
        assert_int_equal(layout.stretches[0].end, 4); /* a failed call leaves the layout unchanged */
    }
    model_layout_fini(&layout);
}

static void packed_tensors_lie_one_behind_the_other(void **state) {
    static const double elsewhere[3];
    const mr_arg items[] = {mr_vector(half, 20), mr_vector(NULL, 0), mr_tensor_of(MR_F64, elsewhere, 1, (int64_t[]){3}),
                            mr_vector(half, 20)};
    mr_arg weights = mr_list(items, 4);
    model_layout layout = {0};
    size_t bytes;
    assert_int_equal(model_layout_pack(&layout, &weights, &bytes), MR_OK);
    const model_layout_stretch expected[] = {{0, 80}, {128, 128}, {128, 152}, {192, 272}};
    assert_int_equal(bytes, 320);
    assert_int_equal(layout.count, 4);
    assert_memory_equal(layout.stretches, expected, sizeof expected);
    assert_true(layout.sources[0] == half && layout.sources[2] == elsewhere && layout.sources[3] == half);
    is_stand_in(&layout.weights.items.first[2], 128, (int64_t[]){3}, 1);
    const mr_arg nowhere = mr_vector(NULL, 3), too_many = mr_tensor_of(MR_U8, half, 1, (int64_t[]){INT64_MAX});
    assert_int_equal(model_layout_pack(&layout, &nowhere, &bytes), MR_INVALID);
    assert_int_equal(model_layout_pack(&layout, &too_many, &bytes), MR_INVALID);
    assert_int_equal(layout.count, 4);
    model_layout_fini(&layout);
}

static void a_tree_is_only_so_deep(void **state) {
    mr_arg nested[100];
    nested[0] = mr_vector(half, 1);
    for (size_t i = 1; i < 100; i++) nested[i] = mr_list(&nested[i - 1], 1);
    model_layout layout = {0};
    assert_int_equal(draw(&layout, nested[64]), MR_OK);
    assert_int_equal(draw(&layout, nested[65]), MR_INVALID);
    assert_int_equal(draw(&layout, nested[99]), MR_INVALID);
    model_layout_fini(&layout);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_keeps_its_form),
        cmocka_unit_test(stretches_are_in_the_order_of_their_places),
        cmocka_unit_test(tensors_outside_the_shared_model_are_refused),
        cmocka_unit_test(packed_tensors_lie_one_behind_the_other),
        cmocka_unit_test(a_tree_is_only_so_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
