/* weight_tree_test.c — trees of tensors: their lists, mismatches, and trees with other data. */
#include "train/weight_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/support/exact_value.h"

static const float data[] = {1, 2, 3, 4};

typedef struct parsed { /* a received value */
    exact_value value;
    value_doc doc;
    mr_value root;
} parsed;

static void parse(mr_arg arg, parsed *out) {
    assert_int_equal(pack(&arg, 4096, &out->value), MR_OK);
    assert_int_equal(exact_value_open(&out->value, &out->doc, &out->root), MR_OK);
}

static void parsed_fini(parsed *parsed) {
    value_close(&parsed->doc);
    exact_value_fini(&parsed->value);
}

static mr_arg tensor(size_t items) { return mr_vector(data, items); }

/* {"G": [2 items, 3 items], "n": 7, "D": (1 item,)} */
typedef struct tree {
    mr_arg g[2], d[1], pairs[6];
} tree;

static mr_arg grow(tree *tree, size_t first, bool turned) {
    tree->g[0] = tensor(first);
    tree->g[1] = tensor(3);
    tree->d[0] = tensor(1);
    mr_arg pairs[] = {mr_str("G"), mr_list(tree->g, 2), mr_str("n"), mr_int(7), mr_str("D"), mr_tuple(tree->d, 1)};
    for (size_t i = 0; i < 3; i++) memcpy(&tree->pairs[2 * i], &pairs[turned ? 4 - 2 * i : 2 * i], 2 * sizeof *pairs);
    return mr_map(tree->pairs, 3);
}

static void leaves_are_found_in_their_order(void **state) {
    tree tree;
    parsed one;
    weight_tree list;
    parse(grow(&tree, 2, false), &one);
    assert_int_equal(weight_tree_open(&(weight_tree_source){one.root}, &list), MR_OK);
    assert_int_equal(list.count, 3);
    assert_true(list.tensors[0].shape[0] == 2 && list.tensors[1].shape[0] == 3 && list.tensors[2].shape[0] == 1);
    weight_tree_close(&list);
    parsed_fini(&one);
}

static void maps_may_have_another_order(void **state) {
    tree first, second;
    parsed one, two;
    weight_tree list;
    parse(grow(&first, 2, false), &one);
    parse(grow(&second, 2, true), &two);
    assert_int_equal(
        weight_tree_match(&(weight_tree_source){one.root}, &(weight_tree_source){two.root}, "worker", 1, &list), MR_OK);
    assert_true(list.count == 3 && list.tensors[0].shape[0] == 2 && list.tensors[2].shape[0] == 1);
    weight_tree_close(&list);
    parsed_fini(&one);
    parsed_fini(&two);
}

static void keys_may_be_of_every_kind(void **state) {
    mr_arg pair[] = {mr_int(1), mr_str("a")},
           keys[] = {mr_int(7), mr_str("7"),      mr_float(7.5),     mr_bool(true),
                     mr_nil(),  mr_bytes("7", 1), mr_tuple(pair, 2), mr_tuple(pair, 1)};
    enum { KEYS = sizeof keys / sizeof *keys };
    mr_arg one[2 * KEYS], two[2 * KEYS];
    for (size_t i = 0; i < KEYS; i++) {
        one[2 * i] = two[2 * (KEYS - 1 - i)] = keys[i];
        one[2 * i + 1] = two[2 * (KEYS - 1 - i) + 1] = tensor(i % 4);
    }
    parsed first, second;
    weight_tree list;
    parse(mr_map(one, KEYS), &first);
    parse(mr_map(two, KEYS), &second);
    assert_int_equal(
        weight_tree_match(&(weight_tree_source){first.root}, &(weight_tree_source){second.root}, "worker", 1, &list),
        MR_OK);
    assert_int_equal(list.count, KEYS);
    for (size_t i = 0; i < KEYS; i++) assert_int_equal(list.tensors[i].shape[0], i % 4);
    weight_tree_close(&list);
    parsed_fini(&first);
    parsed_fini(&second);
}

static void differs(mr_arg pattern, mr_arg other, const char *why) {
    parsed one, two;
    weight_tree list;
    parse(pattern, &one);
    parse(other, &two);
    assert_int_equal(
        weight_tree_match(&(weight_tree_source){one.root}, &(weight_tree_source){two.root}, "worker", 4, &list),
        MR_INVALID);
    if (strstr(mr_last_error(), why) == NULL) print_message("%s\n", mr_last_error());
    assert_non_null(strstr(mr_last_error(), why));
    assert_null(list.tensors);
    parsed_fini(&one);
    parsed_fini(&two);
}

static void an_error_names_the_difference(void **state) {
    tree first, second;
    mr_arg pattern = grow(&first, 2, false);
    differs(pattern, grow(&second, 4, true), "tensor G[0] of worker 4 is float32[4], that of worker 0 is float32[2]");
    grow(&second, 2, false);
    differs(pattern, mr_map(second.pairs, 2), "worker 4 has no tensor D, which worker 0 has");
    differs(mr_map(second.pairs, 2), pattern, "worker 4 has 3 tensors, worker 0 has 2");
    differs(mr_list(first.g, 2), mr_list(second.g, 1), "worker 4 has 1 tensors, worker 0 has 2");
    differs(mr_list(first.g, 2), pattern, "is a map, that of worker 0 a list");
    differs(mr_str("a"), mr_str("a"), "the weights of worker 4 are a str");
    mr_arg number = mr_int(1);
    differs(mr_list(first.g, 1), mr_list(&number, 1), "tensor 0 of worker 4 is a int, that of worker 0 a tensor");
    const mr_custom custom = {.format = MR_PICKLE, .data = {"x", 1}};
    differs(pattern, mr_custom_arg(&custom), "the weights of worker 4 are a custom object");
}

/* An exported list of two tensors, of 2 and of `items` floats, in a half of so many bytes. */
typedef struct exported {
    parsed parsed;
    model_access access;
    weight_tree_source source;
} exported;

static void lend(exported *exported, const float *memory, int64_t items, size_t half) {
    const int64_t shapes[][3] = {{0, 0, 2}, {0, 16, items}};
    mr_arg stand_ins[] = {mr_tensor_of(MR_F32, NULL, 3, shapes[0]), mr_tensor_of(MR_F32, NULL, 3, shapes[1])};
    parse(mr_list(stand_ins, 2), &exported->parsed);
    exported->access = (model_access){.half = half, .from = (const uint8_t *)memory};
    exported->source = (weight_tree_source){.root = exported->parsed.root, .access = &exported->access};
}

static void an_equal_tree_of_a_shared_model_is_not_walked(void **state) {
    static const float memory[4][16];
    exported first, same, larger, shorter, sent;
    weight_tree list, again;
    lend(&first, memory[0], 3, 28);
    lend(&same, memory[1], 3, 28);
    lend(&larger, memory[2], 4, 32);
    lend(&shorter, memory[3], 3, 27);
    lend(&sent, memory[3], 3, 28);
    sent.source.access = NULL;
    assert_int_equal(weight_tree_open(&first.source, &list), MR_OK);
    assert_true(weight_tree_repeat(&first.source, &list, &same.source, &again));
    assert_true(again.count == 2 && again.tensors[0].data == memory[1] && again.tensors[1].data == memory[1] + 4);
    assert_true(again.tensors[1].bytes == 12 && again.tensors[1].dims == 1 && again.tensors[1].shape[0] == 3);
    weight_tree_close(&again);
    assert_false(weight_tree_repeat(&first.source, &list, &larger.source, &again));
    assert_false(weight_tree_repeat(&first.source, &list, &shorter.source,
                                    &again)); /* a tensor would be beyond the end of the half */
    assert_false(weight_tree_repeat(&first.source, &list, &sent.source, &again));
    assert_false(weight_tree_repeat(&sent.source, &list, &first.source, &again));
    weight_tree_close(&list);
    exported *const all[] = {&first, &same, &larger, &shorter, &sent};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) parsed_fini(&all[i]->parsed);
}

static void the_same_tree_goes_out_with_other_data(void **state) {
    tree tree;
    parsed one, two;
    weight_tree list, again;
    static float other[3][4] = {{9, 8}, {7, 6, 5}, {4}};
    void *places[] = {other[0], other[1], other[2]}, *memory;
    mr_arg made;
    mr_value number;
    int64_t seven;
    parse(grow(&tree, 2, false), &one);
    assert_int_equal(weight_tree_open(&(weight_tree_source){one.root}, &list), MR_OK);
    assert_int_equal(weight_tree_arg(&one.root, &list, places, &memory, &made), MR_OK);
    parse(made, &two);
    assert_int_equal(weight_tree_open(&(weight_tree_source){two.root}, &again), MR_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(again.tensors[i].tensor_kind, MR_NUMPY_WRITABLE);
        assert_int_equal(again.tensors[i].bytes, list.tensors[i].bytes);
        assert_memory_equal(again.tensors[i].data, other[i], list.tensors[i].bytes);
    }
    assert_int_equal(mr_value_field(&two.root, "n", &number), MR_OK);
    assert_int_equal(mr_value_int(&number, &seven), MR_OK);
    assert_int_equal(seven, 7);
    weight_tree_close(&list);
    weight_tree_close(&again);
    free(memory);
    parsed_fini(&one);
    parsed_fini(&two);
}

static void without_memory_nothing_is_left(void **state) {
    tree tree;
    parsed one;
    parse(grow(&tree, 2, false), &one);
    for (size_t nth = 1;; nth++) {
        weight_tree list;
        alloc_fail_at(nth);
        mr_status status = weight_tree_open(&(weight_tree_source){one.root}, &list);
        alloc_fail_at(0);
        if (status == MR_OK) {
            assert_true(nth > 1);
            weight_tree_close(&list);
            break;
        }
        assert_int_equal(status, MR_NOMEM);
    }
    parsed_fini(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_are_found_in_their_order),
        cmocka_unit_test(maps_may_have_another_order),
        cmocka_unit_test(keys_may_be_of_every_kind),
        cmocka_unit_test(an_error_names_the_difference),
        cmocka_unit_test(without_memory_nothing_is_left),
        cmocka_unit_test(an_equal_tree_of_a_shared_model_is_not_walked),
        cmocka_unit_test(the_same_tree_goes_out_with_other_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
