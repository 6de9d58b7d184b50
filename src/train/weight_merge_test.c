/* weight_merge_test.c — merging of weights: which must match, what each worker gets, and where it is written. */
#include "train/weight_merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/exact_value.h"

enum { WORKERS = 2 };

typedef struct scene { /* two workers with [2 floats, 1 counter]; floats 1, 2 and 3, 4 */
    exact_value value[WORKERS];
    value_doc docs[WORKERS];
    weight_tree_source sources[WORKERS];
} scene;

static void scene_open(scene *scene, mr_tensor_kind second, size_t items) {
    for (size_t w = 0; w < WORKERS; w++) {
        const float floats[] = {(float)(1 + 2 * w), (float)(2 + 2 * w)};
        int64_t count = (int64_t)(10 + w), shape = w == 1 ? (int64_t)items : 2;
        mr_arg tensors[] = {mr_tensor_of(MR_F32, floats, 1, &shape), mr_tensor_of(MR_I64, &count, 0, NULL)};
        if (w == 1) tensors[0].tensor_kind = tensors[1].tensor_kind = (uint8_t)second;
        mr_arg list = mr_list(tensors, 2);
        assert_int_equal(pack(&list, 4096, &scene->value[w]), MR_OK);
        scene->sources[w].access = NULL;
        assert_int_equal(exact_value_open(&scene->value[w], &scene->docs[w], &scene->sources[w].root), MR_OK);
    }
}

static void scene_close(scene *scene) {
    for (size_t w = 0; w < WORKERS; w++) {
        value_close(&scene->docs[w]);
        exact_value_fini(&scene->value[w]);
    }
}

static const size_t ids[] = {4, 7};

static void the_result_is_written_where_the_caller_says(void **state) {
    scene scene;
    weight_merge merge;
    float floats[2];
    int64_t counter;
    scene_open(&scene, MR_NUMPY, 2);
    assert_int_equal(weight_merge_open(scene.sources, ids, WORKERS, NULL, 0, &merge), MR_OK);
    assert_true(merge.count == 2 && merge.bytes == 16 && merge.exported == 0);
    assert_int_equal(weight_merge_run(&merge, NULL, (void *[]){floats, &counter}), MR_OK);
    assert_true(floats[0] == 2 && floats[1] == 3 && counter == 10);
    weight_merge_close(&merge);
    scene_close(&scene);
}

static void a_shared_model_is_written_too(void **state) {
    scene scene;
    weight_merge merge;
    _Alignas(64) float memory[16] = {0, 0, 5, 6},
                       floats[2]; /* half 0: the model, from the third float on; half 1: the result */
    int64_t counter, shapes[2][3] = {{0, 8, 2}, {0, 16}};
    memory[4] = 0; /* the counter's bytes */
    scene_open(&scene, MR_NUMPY, 2);
    value_close(&scene.docs[1]);
    exact_value_fini(&scene.value[1]);
    mr_arg stand_ins[] = {mr_tensor_of(MR_F32, NULL, 3, shapes[0]), mr_tensor_of(MR_I64, NULL, 2, shapes[1])};
    mr_arg list = mr_list(stand_ins, 2);
    assert_int_equal(pack(&list, 4096, &scene.value[1]), MR_OK);
    assert_int_equal(exact_value_open(&scene.value[1], &scene.docs[1], &scene.sources[1].root), MR_OK);
    model_access access = {.half = 32, .from = (uint8_t *)memory, .to = (uint8_t *)(memory + 8)};
    scene.sources[1].access = &access;
    assert_int_equal(weight_merge_open(scene.sources, ids, WORKERS, NULL, 0, &merge), MR_OK);
    assert_int_equal(merge.exported, 1);
    assert_int_equal(weight_merge_run(&merge, NULL, (void *[]){floats, &counter}), MR_OK);
    assert_true(floats[0] == 3 && floats[1] == 4 && counter == 10);
    assert_true(memory[10] == 3 && memory[11] == 4 && memory[2] == 5 && memory[3] == 6);
    int64_t written;
    memcpy(&written, memory + 12, sizeof written);
    assert_int_equal(written, 10);
    weight_merge_close(&merge);
    scene_close(&scene);
}

static void momentum_needs_the_model_before(void **state) {
    scene scene;
    weight_merge merge;
    float floats[2];
    int64_t counter;
    scene_open(&scene, MR_NUMPY, 2);
    const mr_value *before = &scene.sources[1].root; /* 3, 4 */
    assert_int_equal(weight_merge_open(scene.sources, ids, 1, before, 9, &merge), MR_OK);
    assert_int_equal(weight_merge_run(&merge, &MR_OPTIONS(mr_sync_strategy, .name = "momentum", .momentum = 0.5),
                                      (void *[]){floats, &counter}),
                     MR_OK);
    assert_true(floats[0] == 2 && floats[1] == 3);
    weight_merge_close(&merge);
    scene_close(&scene);
    scene_open(&scene, MR_NUMPY, 1);
    assert_int_equal(weight_merge_open(scene.sources, ids, 1, &scene.sources[1].root, 9, &merge), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "tensor 0 of version 9 is float32[1]"));
    scene_close(&scene);
}

static void errors_have_the_workers_own_numbers(void **state) {
    scene scene;
    weight_merge merge;
    scene_open(&scene, MR_NUMPY, 1);
    assert_int_equal(weight_merge_open(scene.sources, ids, WORKERS, NULL, 0, &merge), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "tensor 0 of worker 7 is float32[1]"));
    scene_close(&scene);
}

static void each_worker_gets_its_tensor_kinds(void **state) {
    scene scene;
    weight_merge merge;
    void *memory;
    mr_arg made;
    scene_open(&scene, MR_TORCH, 2);
    assert_int_equal(weight_merge_open(scene.sources, ids, WORKERS, NULL, 0, &merge), MR_OK);
    assert_true(weight_merge_same(&merge, 0, 0) && !weight_merge_same(&merge, 0, 1));
    for (size_t w = 0; w < WORKERS; w++) {
        assert_int_equal(weight_merge_arg(&merge, w, NULL, &memory, &made), MR_OK);
        assert_int_equal(made.items.count, 2);
        assert_int_equal(made.items.first[0].tensor_kind, w == 0 ? MR_NUMPY_WRITABLE : MR_TORCH);
        free(memory);
    }
    weight_merge_close(&merge);
    scene_close(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_result_is_written_where_the_caller_says),
        cmocka_unit_test(a_shared_model_is_written_too),
        cmocka_unit_test(momentum_needs_the_model_before),
        cmocka_unit_test(errors_have_the_workers_own_numbers),
        cmocka_unit_test(each_worker_gets_its_tensor_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
