/* value_test.c — properties of values on random trees: decoding inverts encoding; damaged bytes do no harm. */
#include "net/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "tests/support/exact_value.h"
#include "tests/support/sanitized.h"

/* ---- Random trees. Their data lies in the forest and is reused for the next tree. */

enum { ARGS_MAX = 4000, BYTES_MAX = 64 * 1024, TENSORS_MAX = 1000, CUSTOMS_MAX = 1000 };

typedef struct forest {
    rng rng;
    mr_arg args[ARGS_MAX];
    uint8_t bytes[BYTES_MAX];
    mr_tensor tensors[TENSORS_MAX];
    mr_custom customs[CUSTOMS_MAX];
    mr_span spans[CUSTOMS_MAX * 3];
    size_t arg_count, tensor_count, custom_count, span_count;
} forest;

static forest *plant(uint64_t seed) {
    forest *forest = xcalloc(1, sizeof *forest);
    rng_init(&forest->rng, seed);
    rng_fill(&forest->rng, forest->bytes, sizeof forest->bytes);
    return forest;
}

static void clear(forest *forest) {
    forest->arg_count = forest->tensor_count = forest->custom_count = forest->span_count = 0;
}

static size_t small_size(rng *rng) { return rng_below(rng, rng_chance(rng, 0.1) ? 400 : 20); }

static mr_span random_bytes(forest *forest) {
    size_t size = small_size(&forest->rng);
    return (mr_span){forest->bytes + rng_below(&forest->rng, BYTES_MAX - size), size};
}

static mr_arg random_int(rng *rng) {
    static const int64_t edges[] = {0,         127,       128,        255,       256,       65535,      65536,
                                    INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN, -32,        -33,
                                    -128,      -129,      -32768,     -32769,    -1,        4294967296, -2147483649};
    if (rng_chance(rng, 0.5)) return mr_int(edges[rng_below(rng, sizeof edges / sizeof *edges)]);
    return mr_int((int64_t)(rng_next(rng) >> rng_below(rng, 64)));
}

static mr_arg random_float(rng *rng) {
    uint64_t bits = rng_next(rng);
    double number;
    memcpy(&number, &bits, sizeof number);
    return rng_chance(rng, 0.5) ? mr_float(number) : mr_float((double)(int64_t)bits / 1024);
}

static mr_arg random_str(rng *rng) {
    static const char text[300] = "na\xc3\xafve \xe2\x82\xac and \xf0\x9f\x98\x80, then plain words and zeros";
    static const size_t sizes[] = {0, 2, 4, 6, 10, 15, 31, 32, 33, 40, 200, 255, 256, sizeof text};
    return mr_text(text, sizes[rng_below(rng, sizeof sizes / sizeof *sizes)]);
}

static mr_arg random_tensor(forest *forest) {
    rng *rng = &forest->rng;
    mr_tensor *tensor = &forest->tensors[forest->tensor_count++];
    *tensor =
        (mr_tensor){.dtype = (mr_dtype)rng_below(rng, MR_F64 + 1), .tensor_kind = (mr_tensor_kind)rng_below(rng, 3)};
    tensor->dims = (int)rng_below(rng, MR_TENSOR_DIMS_MAX + 1);
    tensor->bytes = mr_dtype_size(tensor->dtype);
    for (int i = 0; i < tensor->dims; i++) {
        tensor->shape[i] = (int64_t)rng_below(rng, i < 2 ? 6 : 3);
        tensor->bytes *= (size_t)tensor->shape[i];
    }
    tensor->data = forest->bytes + rng_below(rng, 1000); /* outgoing data need not be aligned */
    return mr_tensor_arg(tensor);
}

static mr_arg random_custom(forest *forest) {
    mr_custom *custom = &forest->customs[forest->custom_count++];
    *custom = (mr_custom){.format = (int)rng_between(&forest->rng, 1, 255),
                          .data = random_bytes(forest),
                          .buffers = forest->spans + forest->span_count,
                          .buffer_count = rng_below(&forest->rng, 3)};
    for (size_t i = 0; i < custom->buffer_count; i++) forest->spans[forest->span_count++] = random_bytes(forest);
    return mr_custom_arg(custom);
}

static mr_arg random_scalar(forest *forest) {
    rng *rng = &forest->rng;
    mr_span bytes = random_bytes(forest);
    switch (rng_below(rng, 6)) {
    case 0: return mr_nil();
    case 1: return mr_bool(rng_chance(rng, 0.5));
    case 2: return random_int(rng);
    case 3: return random_float(rng);
    case 4: return random_str(rng);
    default: return mr_bytes(bytes.data, bytes.size);
    }
}

static mr_arg random_leaf(forest *forest) {
    rng *rng = &forest->rng;
    bool room = forest->tensor_count < TENSORS_MAX && forest->custom_count < CUSTOMS_MAX;
    switch (rng_below(rng, room ? 10 : 8)) {
    case 6: return mr_future((mr_ref){{rng_next(rng), rng_next(rng)}});
    case 7: return mr_handle((mr_actor){{rng_next(rng), rng_next(rng)}});
    case 8: return random_tensor(forest);
    case 9: return random_custom(forest);
    default: return random_scalar(forest);
    }
}

static mr_arg random_key(forest *forest, int depth) {
    if (depth == 0 || rng_chance(&forest->rng, 0.8) || forest->arg_count + 3 > ARGS_MAX) return random_scalar(forest);
    mr_arg *items = forest->args + forest->arg_count;
    size_t count = rng_below(&forest->rng, 3);
    forest->arg_count += count;
    for (size_t i = 0; i < count; i++) items[i] = random_key(forest, depth - 1);
    return mr_tuple(items, count);
}

static mr_arg random_tree(forest *forest, int depth) {
    rng *rng = &forest->rng;
    if (depth == 0 || rng_chance(rng, 0.4)) return random_leaf(forest);
    size_t count = rng_below(rng, rng_chance(rng, 0.05) ? 300 : 5);
    int kind = (int)rng_between(rng, MR_KIND_LIST, MR_KIND_MAP);
    size_t items_count = kind == MR_KIND_MAP ? 2 * count : count;
    if (forest->arg_count + items_count > ARGS_MAX) return random_leaf(forest);
    mr_arg *items = forest->args + forest->arg_count;
    forest->arg_count += items_count;
    for (size_t i = 0; i < items_count; i++)
        items[i] = kind == MR_KIND_MAP && i % 2 == 0 ? random_key(forest, 2) : random_tree(forest, depth - 1);
    return kind == MR_KIND_MAP    ? mr_map(items, count)
           : kind == MR_KIND_LIST ? mr_list(items, count)
                                  : mr_tuple(items, count);
}

/* ---- Comparison of decoded and original values. */

static void same_bytes(mr_span a, mr_span b) {
    assert_int_equal(a.size, b.size);
    if (a.size != 0) assert_memory_equal(a.data, b.data, a.size);
}

static void same_tensor(const mr_arg *arg, const mr_value *value) {
    mr_tensor tensor;
    assert_int_equal(mr_value_tensor(value, &tensor), MR_OK);
    assert_int_equal(tensor.dtype, arg->dtype);
    assert_int_equal(tensor.tensor_kind, arg->tensor_kind);
    assert_int_equal(tensor.dims, arg->dims);
    size_t bytes = mr_dtype_size(tensor.dtype);
    for (int i = 0; i < tensor.dims; i++) {
        assert_int_equal(tensor.shape[i], arg->array.shape[i]);
        bytes *= (size_t)tensor.shape[i];
    }
    same_bytes((mr_span){arg->array.data, bytes}, (mr_span){tensor.data, tensor.bytes});
    assert_int_equal((uintptr_t)tensor.data % mr_dtype_size(tensor.dtype), 0);
}

static void same_custom(const mr_arg *arg, const mr_value *value) {
    mr_custom custom;
    assert_int_equal(mr_value_custom(value, &custom), MR_OK);
    assert_int_equal(custom.format, arg->custom->format);
    same_bytes(custom.data, arg->custom->data);
    assert_int_equal(custom.buffer_count, arg->custom->buffer_count);
    for (size_t i = 0; i < custom.buffer_count; i++) {
        mr_span buffer;
        assert_int_equal(mr_value_buffer(value, i, &buffer), MR_OK);
        same_bytes(buffer, arg->custom->buffers[i]);
    }
}

static void same_leaf(const mr_arg *arg, const mr_value *value) {
    bool b;
    int64_t i;
    double f;
    mr_span bytes;
    mr_ref ref;
    mr_actor actor;
    switch (arg->kind) {
    case MR_KIND_BOOL:
        assert_int_equal(mr_value_bool(value, &b), MR_OK);
        assert_int_equal(b, arg->b);
        break;
    case MR_KIND_INT:
        assert_int_equal(mr_value_int(value, &i), MR_OK);
        assert_true(i == arg->i);
        break;
    case MR_KIND_FLOAT:
        assert_int_equal(mr_value_float(value, &f), MR_OK);
        assert_memory_equal(&f, &arg->f, sizeof f);
        break;
    case MR_KIND_STR:
        assert_int_equal(mr_value_str(value, &bytes), MR_OK);
        same_bytes(bytes, arg->bytes);
        break;
    case MR_KIND_BYTES:
        assert_int_equal(mr_value_bytes(value, &bytes), MR_OK);
        same_bytes(bytes, arg->bytes);
        break;
    case MR_KIND_REF:
        assert_int_equal(mr_value_ref(value, &ref), MR_OK);
        assert_memory_equal(&ref, &arg->ref, sizeof ref);
        break;
    case MR_KIND_ACTOR:
        assert_int_equal(mr_value_actor(value, &actor), MR_OK);
        assert_memory_equal(&actor, &arg->actor, sizeof actor);
        break;
    case MR_KIND_TENSOR: same_tensor(arg, value); break;
    case MR_KIND_CUSTOM: same_custom(arg, value); break;
    default: break;
    }
}

static void same(const mr_arg *arg, const mr_value *value) {
    assert_int_equal(mr_value_kind(value), arg->kind);
    if (arg->kind < MR_KIND_LIST || arg->kind > MR_KIND_MAP) {
        same_leaf(arg, value);
        return;
    }
    assert_int_equal(mr_value_count(value), arg->items.count);
    size_t count = arg->kind == MR_KIND_MAP ? 2 * arg->items.count : arg->items.count;
    mr_iter iter = mr_value_iter(value);
    mr_value item;
    for (size_t i = 0; i < count; i++) {
        assert_true(mr_iter_next(&iter, &item));
        same(&arg->items.first[i], &item);
    }
    assert_false(mr_iter_next(&iter, &item));
}

/* ---- The properties. */

static void same_packed(const exact_value *a, const exact_value *b) {
    assert_int_equal(a->payload_size, b->payload_size);
    assert_memory_equal(a->payload, b->payload, a->payload_size);
    assert_int_equal(a->body_size, b->body_size);
    if (a->body_size != 0) assert_memory_equal(a->body, b->body, a->body_size);
}

static const size_t thresholds[] = {0, 16, 64, SIZE_MAX};

static void values_are_decoded_as_encoded(void **state) {
    forest *forest = plant(1);
    size_t containers = 0, buffers = 0;
    for (int round = 0; round < (SANITIZED ? 1000 : 4000); round++) {
        clear(forest);
        mr_arg tree = random_tree(forest, 5);
        size_t out_of_line_min = thresholds[round % 4];
        exact_value value;
        value_doc doc;
        mr_value root;
        assert_int_equal(pack(&tree, out_of_line_min, &value), MR_OK);
        assert_int_equal(exact_value_open(&value, &doc, &root), MR_OK);
        same(&tree, &root);
        containers += doc.skip_count;
        buffers += doc.buffer_count;
        value_close(&doc);
        exact_value_fini(&value);
    }
    assert_true(containers > 10000 && buffers > 1000); /* the trees are large enough */
    free(forest);
}

/* Received values are sent on: unchanged, and with all data moved in or out of line. */
static void a_forwarded_value_stays_the_same(void **state) {
    forest *forest = plant(2);
    for (int round = 0; round < 1000; round++) {
        clear(forest);
        mr_arg tree = random_tree(forest, 5);
        size_t first_min = thresholds[round % 4], other_min = thresholds[(round / 4) % 4];
        exact_value value, again, other;
        value_doc doc, other_doc;
        mr_value root, other_root;
        assert_int_equal(pack(&tree, first_min, &value), MR_OK);
        assert_int_equal(exact_value_open(&value, &doc, &root), MR_OK);
        mr_arg passed = mr_value_arg(&root);
        assert_int_equal(pack(&passed, first_min, &again), MR_OK);
        same_packed(&value, &again);
        mr_arg wrapped[] = {mr_str("odd"), passed}; /* at another offset, so that the padding of tensors changes */
        mr_arg tuple = mr_tuple(wrapped, 2);
        assert_int_equal(pack(&tuple, other_min, &other), MR_OK);
        assert_int_equal(exact_value_open(&other, &other_doc, &other_root), MR_OK);
        mr_value inner;
        assert_int_equal(mr_value_item(&other_root, 1, &inner), MR_OK);
        same(&tree, &inner);
        assert_int_equal(value_digest(&inner), value_digest(&root));
        value_close(&doc);
        value_close(&other_doc);
        exact_value_fini(&value);
        exact_value_fini(&again);
        exact_value_fini(&other);
    }
    free(forest);
}

/* A payload with one changed byte is refused or is a valid value. */
static void broken_bytes_do_no_harm(void **state) {
    forest *forest = plant(3);
    size_t refused = 0, opened = 0;
    for (int round = 0; round < (SANITIZED ? 20 : 120); round++) {
        clear(forest);
        mr_arg tree = random_tree(forest, 3);
        exact_value value;
        assert_int_equal(pack(&tree, thresholds[round % 4], &value), MR_OK);
        size_t step = 1 + value.payload_size / 50;
        for (size_t i = rng_below(&forest->rng, step); i < value.payload_size; i += step) {
            uint8_t kept = value.payload[i];
            const uint8_t tries[] = {0, 0xff, (uint8_t)(kept ^ 1), (uint8_t)(kept + 1),
                                     (uint8_t)rng_next(&forest->rng)};
            for (size_t k = 0; k < sizeof tries; k++) {
                value.payload[i] = tries[k];
                value_doc doc;
                mr_value root;
                mr_status status = exact_value_open(&value, &doc, &root);
                if (status != MR_OK) {
                    assert_true(status == MR_CORRUPT || status == MR_TOO_LARGE);
                    refused++;
                    continue;
                }
                struct exact_value again;
                mr_arg passed = mr_value_arg(&root);
                assert_int_equal(pack(&passed, SIZE_MAX, &again), MR_OK);
                value_doc again_doc;
                mr_value again_root;
                assert_int_equal(exact_value_open(&again, &again_doc, &again_root), MR_OK);
                assert_int_equal(value_digest(&again_root), value_digest(&root));
                value_close(&again_doc);
                value_close(&doc);
                exact_value_fini(&again);
                opened++;
            }
            value.payload[i] = kept;
        }
        exact_value_fini(&value);
    }
    assert_true(refused > 500 && opened > 500);
    free(forest);
}

/* A value truncated at any length is refused, and so is one with further bytes. */
static void cut_bytes_are_refused(void **state) {
    forest *forest = plant(4);
    for (int round = 0; round < 200; round++) {
        clear(forest);
        mr_arg tree = random_tree(forest, 3);
        exact_value exact_value;
        assert_int_equal(pack(&tree, SIZE_MAX, &exact_value), MR_OK);
        span value = exact_value_value(&exact_value);
        size_t step = 1 + value.size / 100;
        for (size_t size = 0; exact_value.buffer_count == 0 && size < value.size; size += step) {
            struct exact_value cut = pack_raw(value.data, size);
            value_doc doc;
            mr_value root;
            assert_int_equal(exact_value_open(&cut, &doc, &root), MR_CORRUPT);
            exact_value_fini(&cut);
        }
        exact_value_fini(&exact_value);
    }
    free(forest);
}

/* Another process may write to the value's memory. Reads then give arbitrary data but stay in bounds. */
static void bytes_that_change_while_open_do_no_harm(void **state) {
    forest *forest = plant(5);
    for (int round = 0; round < 1000; round++) {
        clear(forest);
        mr_arg tree = random_tree(forest, 4);
        exact_value exact_value;
        value_doc doc;
        mr_value root;
        assert_int_equal(pack(&tree, thresholds[round % 4], &exact_value), MR_OK);
        assert_int_equal(exact_value_open(&exact_value, &doc, &root), MR_OK);
        for (int i = 0; i < 10; i++)
            exact_value.payload[rng_below(&forest->rng, exact_value.payload_size)] = (uint8_t)rng_next(&forest->rng);
        mr_value stack[8] = {root};
        uint8_t sum = 0;
        for (int steps = 0; steps < 100; steps++) {
            mr_value *value = &stack[steps % 8];
            mr_iter iter = mr_value_iter(value);
            mr_tensor tensor;
            mr_span bytes;
            if (mr_value_tensor(value, &tensor) == MR_OK)
                for (size_t i = 0; i < tensor.bytes; i++) sum ^= ((const uint8_t *)tensor.data)[i];
            if (mr_value_bytes(value, &bytes) == MR_OK || mr_value_str(value, &bytes) == MR_OK ||
                mr_value_buffer(value, 0, &bytes) == MR_OK)
                for (size_t i = 0; i < bytes.size; i++) sum ^= ((const uint8_t *)bytes.data)[i];
            for (mr_value item; mr_iter_next(&iter, &item);) stack[rng_below(&forest->rng, 8)] = item;
        }
        __asm__ volatile("" : : "r"(sum));
        value_close(&doc);
        exact_value_fini(&exact_value);
    }
    free(forest);
}

/* Only the index of containers is allocated. */
static void without_memory_it_is_refused(void **state) {
    mr_arg inner = mr_int(1), items[200];
    for (size_t i = 0; i < 200; i++) items[i] = mr_list(&inner, 1);
    mr_arg list = mr_list(items, 200), few = mr_list(items, VALUE_SKIPS_FEW - 1);
    exact_value value;
    value_doc doc;
    mr_value root;
    assert_int_equal(pack(&list, SIZE_MAX, &value), MR_OK);
    for (size_t nth = 1;; nth++) {
        alloc_fail_at(nth);
        mr_status status = exact_value_open(&value, &doc, &root);
        alloc_fail_at(0);
        if (status == MR_OK) {
            assert_int_equal(nth, 5); /* 16 entries need no allocation; growth to 32, 64, 128 and 256 does */
            break;
        }
        assert_int_equal(status, MR_NOMEM);
    }
    same(&list, &root);
    value_close(&doc);
    exact_value_fini(&value);
    assert_int_equal(pack(&few, SIZE_MAX, &value), MR_OK);
    alloc_fail_at(1);
    assert_int_equal(exact_value_open(&value, &doc, &root), MR_OK); /* no allocation was needed */
    alloc_fail_at(0);
    value_close(&doc);
    exact_value_fini(&value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_decoded_as_encoded),
        cmocka_unit_test(a_forwarded_value_stays_the_same),
        cmocka_unit_test(broken_bytes_do_no_harm),
        cmocka_unit_test(cut_bytes_are_refused),
        cmocka_unit_test(bytes_that_change_while_open_do_no_harm),
        cmocka_unit_test(without_memory_it_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
