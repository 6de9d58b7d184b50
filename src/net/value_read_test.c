/* value_read_test.c — reading received values: right and wrong kinds, items and fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/exact_value.h"

typedef struct opened {
    exact_value value;
    value_doc doc;
    mr_value root;
} opened;

static void open_arg(opened *opened, mr_arg arg, size_t out_of_line_min) {
    assert_int_equal(pack(&arg, out_of_line_min, &opened->value), MR_OK);
    assert_int_equal(exact_value_open(&opened->value, &opened->doc, &opened->root), MR_OK);
}

static void close_arg(opened *opened) {
    value_close(&opened->doc);
    exact_value_fini(&opened->value);
}

static void a_zeroed_value_is_nil(void **state) {
    mr_value value = {{0}};
    int64_t i;
    assert_int_equal(mr_value_kind(&value), MR_KIND_NIL);
    assert_int_equal(mr_value_count(&value), 0);
    assert_int_equal(mr_value_int(&value, &i), MR_INVALID);
    mr_iter iter = mr_value_iter(&value);
    mr_value item;
    assert_false(mr_iter_next(&iter, &item));
    mr_value_release(&value);
}

static void the_wrong_kind_is_named(void **state) {
    opened text;
    open_arg(&text, mr_str("seven"), SIZE_MAX);
    bool b;
    int64_t i;
    double f;
    mr_span bytes;
    mr_tensor tensor;
    mr_ref ref;
    mr_actor actor;
    mr_custom custom;
    mr_value value;
    const mr_value *root = &text.root;
    assert_int_equal(mr_value_int(root, &i), MR_INVALID);
    assert_string_equal(mr_last_error(), "the value is a str; expected an int");
    assert_int_equal(mr_value_bool(root, &b), MR_INVALID);
    assert_int_equal(mr_value_float(root, &f), MR_INVALID);
    assert_int_equal(mr_value_bytes(root, &bytes), MR_INVALID);
    assert_int_equal(mr_value_tensor(root, &tensor), MR_INVALID);
    assert_int_equal(mr_value_ref(root, &ref), MR_INVALID);
    assert_int_equal(mr_value_actor(root, &actor), MR_INVALID);
    assert_int_equal(mr_value_custom(root, &custom), MR_INVALID);
    assert_int_equal(mr_value_buffer(root, 0, &bytes), MR_INVALID);
    assert_int_equal(mr_value_item(root, 0, &value), MR_INVALID);
    assert_int_equal(mr_value_field(root, "x", &value), MR_INVALID);
    assert_string_equal(mr_last_error(), "the value is a str; expected a map");
    close_arg(&text);
    open_arg(&text, mr_int(1), SIZE_MAX);
    assert_int_equal(mr_value_str(&text.root, &bytes), MR_INVALID);
    close_arg(&text);
}

static void ints_are_floats_where_they_fit(void **state) {
    opened number;
    double f = 0;
    open_arg(&number, mr_int(-(INT64_C(1) << 53)), SIZE_MAX);
    assert_int_equal(mr_value_float(&number.root, &f), MR_OK);
    assert_true(f == -9007199254740992.0);
    close_arg(&number);
    open_arg(&number, mr_int((INT64_C(1) << 53) + 1), SIZE_MAX);
    assert_int_equal(mr_value_float(&number.root, &f), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "the int 9007199254740993 is not exact as a float"));
    close_arg(&number);
}

static void items_and_fields_are_found(void **state) {
    const mr_arg inner[] = {mr_int(10), mr_int(11), mr_int(12)};
    const mr_arg pairs[] = {mr_str("a"), mr_list(inner, 3),  mr_int(1),   mr_int(2),
                            mr_str("b"), mr_tuple(inner, 2), mr_str("a"), mr_nil()};
    const mr_arg items[] = {mr_list(inner, 3), mr_map(pairs, 4), mr_tuple(inner, 3), mr_int(7)};
    opened list;
    open_arg(&list, mr_list(items, 4), SIZE_MAX);
    mr_value value, map;
    int64_t i = 0;
    assert_int_equal(mr_value_count(&list.root), 4);
    assert_int_equal(mr_value_item(&list.root, 3, &value), MR_OK);
    assert_int_equal(mr_value_int(&value, &i), MR_OK);
    assert_int_equal(i, 7);
    assert_int_equal(mr_value_item(&list.root, 4, &value), MR_NOT_FOUND);
    assert_string_equal(mr_last_error(), "no item 4: the list has 4");
    assert_int_equal(mr_value_item(&list.root, 1, &map), MR_OK);
    assert_int_equal(mr_value_count(&map), 4);
    assert_int_equal(mr_value_field(&map, "b", &value), MR_OK);
    assert_int_equal(mr_value_kind(&value), MR_KIND_TUPLE);
    assert_int_equal(mr_value_item(&value, 1, &value), MR_OK);
    assert_int_equal(mr_value_int(&value, &i), MR_OK);
    assert_int_equal(i, 11);
    assert_int_equal(mr_value_field(&map, "a", &value), MR_OK); /* the first of two equal keys */
    assert_int_equal(mr_value_kind(&value), MR_KIND_LIST);
    assert_int_equal(mr_value_field(&map, "", &value), MR_NOT_FOUND);
    assert_int_equal(mr_value_field(&map, "ab", &value), MR_NOT_FOUND);
    assert_string_equal(mr_last_error(), "the map of 4 pairs has no key 'ab'");
    assert_int_equal(mr_value_item(&map, 0, &value), MR_INVALID);
    close_arg(&list);
}

/* The index states where a container ends: arbitrary bytes inside do not affect iteration. */
static void walking_jumps_over_containers(void **state) {
    const mr_arg deep[] = {mr_int(1), mr_int(2)}, middle[] = {mr_list(deep, 2), mr_map(deep, 1), mr_list(NULL, 0)};
    const mr_arg items[] = {mr_tuple(middle, 3), mr_list(middle, 3), mr_map(deep, 1), mr_list(deep, 2), mr_int(77)};
    opened list;
    open_arg(&list, mr_list(items, 5), SIZE_MAX);
    span bytes = exact_value_value(&list.value);
    mr_value value, inner;
    assert_int_equal(mr_value_item(&list.root, 1, &inner), MR_OK);
    const size_t at = bytes.size - 13; /* inside the second item, which is "93 92 01 02 81 01 02 90" */
    uint8_t *raw = list.value.payload + (list.value.payload_size - bytes.size);
    assert_int_equal(raw[at - 2], 0x93);
    memset(raw + at, 0xc1, 3);
    int64_t i = 0;
    assert_int_equal(mr_value_item(&list.root, 4, &value), MR_OK);
    assert_int_equal(mr_value_int(&value, &i), MR_OK);
    assert_int_equal(i, 77);
    assert_int_equal(mr_value_item(&list.root, 3, &value), MR_OK);
    assert_int_equal(mr_value_item(&value, 1, &value), MR_OK);
    assert_int_equal(mr_value_int(&value, &i), MR_OK);
    assert_int_equal(i, 2);
    close_arg(&list);
}

/* A container that appeared after opening is not in the index: iteration ends there. */
static void a_container_that_came_later_ends_the_walk(void **state) {
    const mr_arg items[] = {mr_int(1), mr_int(2), mr_int(3)};
    opened list;
    open_arg(&list, mr_list(items, 3), SIZE_MAX);
    list.value.payload[list.value.payload_size - 2] = 0x91; /* the second item: a list of one */
    mr_iter iter = mr_value_iter(&list.root);
    mr_value item;
    assert_true(mr_iter_next(&iter, &item));
    assert_false(mr_iter_next(&iter, &item));
    assert_int_equal(mr_value_kind(&item), MR_KIND_NIL);
    assert_false(mr_iter_next(&iter, &item));
    assert_int_equal(mr_value_item(&list.root, 2, &item), MR_CORRUPT);
    assert_string_equal(mr_last_error(), "the value changed while it was open: an item is not there any more");
    close_arg(&list);
}

static bool same(mr_arg a, mr_arg b, size_t out_of_line_min) {
    opened one, two;
    open_arg(&one, mr_tuple((mr_arg[]){mr_int(1), a, mr_list(NULL, 0)}, 3), out_of_line_min);
    open_arg(&two, mr_tuple((mr_arg[]){mr_int(2), b, mr_nil()}, 3), out_of_line_min);
    mr_value first, second;
    assert_int_equal(mr_value_item(&one.root, 1, &first), MR_OK);
    assert_int_equal(mr_value_item(&two.root, 1, &second), MR_OK);
    bool equal = value_same_bytes(&first, &second);
    assert_true(equal == value_same_bytes(&second, &first));
    close_arg(&one);
    close_arg(&two);
    return equal;
}

static void containers_of_the_same_bytes_are_known(void **state) {
    const float numbers[] = {1, 2, 3};
    mr_arg inner = mr_list((mr_arg[]){mr_str("x"), mr_vector(numbers, 3)}, 2);
    mr_arg some[] = {mr_int(3), inner, mr_nil(), inner};
    assert_true(same(mr_list(some, 4), mr_list(some, 4), SIZE_MAX));
    assert_true(same(mr_map(some, 2), mr_map(some, 2), SIZE_MAX));
    assert_false(same(mr_list(some, 4), mr_list(some, 3), SIZE_MAX));
    assert_false(same(mr_list(some, 4), mr_tuple(some, 4), SIZE_MAX));
    assert_false(same(mr_list(some, 4), mr_map(some, 2), SIZE_MAX)); /* the items are the same */
    mr_arg others[] = {mr_int(3), inner, mr_nil(), mr_list((mr_arg[]){mr_str("x"), mr_vector(numbers, 2)}, 2)};
    assert_false(same(mr_list(some, 4), mr_list(others, 4), SIZE_MAX));
    others[3] = mr_list((mr_arg[]){mr_str("y"), mr_vector(numbers, 3)}, 2);
    assert_false(same(mr_list(some, 4), mr_list(others, 4), SIZE_MAX));
    assert_false(same(mr_list(some, 4), mr_list(some, 4), sizeof numbers)); /* the numbers are out of line */
    assert_false(same(mr_list(NULL, 0), mr_list(NULL, 0), SIZE_MAX));       /* empty containers are not compared */
    assert_false(same(mr_int(5), mr_int(5), SIZE_MAX));
}

static void large_data_is_read_where_it_lies(void **state) {
    static const float numbers[64] = {1, 2, 3};
    const mr_arg items[] = {mr_bytes(numbers, 100), mr_vector(numbers, 64), mr_vector(numbers, 3)};
    opened list;
    open_arg(&list, mr_list(items, 3), 64);
    mr_value value;
    mr_span bytes;
    mr_tensor tensor;
    const uint8_t *body = list.value.body;
    assert_int_equal(mr_value_item(&list.root, 0, &value), MR_OK);
    assert_int_equal(mr_value_bytes(&value, &bytes), MR_OK);
    assert_ptr_equal(bytes.data, body);
    assert_int_equal(mr_value_item(&list.root, 1, &value), MR_OK);
    assert_int_equal(mr_value_tensor(&value, &tensor), MR_OK);
    assert_ptr_equal(tensor.data, body + 128);
    assert_int_equal((uintptr_t)tensor.data % 64, 0);
    assert_int_equal(mr_value_item(&list.root, 2, &value), MR_OK);
    assert_int_equal(mr_value_tensor(&value, &tensor), MR_OK);
    assert_in_range((uintptr_t)tensor.data, (uintptr_t)list.value.payload,
                    (uintptr_t)list.value.payload + list.value.payload_size - 12);
    assert_memory_equal(tensor.data, numbers, 12);
    close_arg(&list);
}

static int released;
static void note_release(value_doc *doc) { released++; }

static void releasing_the_root_tells_its_holder(void **state) {
    const mr_arg one = mr_int(1);
    opened list;
    mr_value item;
    open_arg(&list, mr_list(&one, 1), SIZE_MAX);
    list.doc.release = note_release;
    released = 0;
    assert_int_equal(mr_value_item(&list.root, 0, &item), MR_OK);
    mr_value_release(&item); /* only the root releases */
    assert_int_equal(released, 0);
    mr_value_release(&list.root);
    assert_int_equal(released, 1);
    mr_value_release(&list.root); /* the released root is nil */
    assert_int_equal(released, 1);
    assert_int_equal(mr_value_kind(&list.root), MR_KIND_NIL);
    close_arg(&list);
}

static void foreign_objects_have_no_more_buffers_than_they_say(void **state) {
    const mr_custom pickle = {.format = MR_PICKLE, .data = {"N.", 2}};
    const mr_arg items[] = {mr_nil(), mr_custom_arg(&pickle)};
    opened list;
    mr_value value;
    mr_span buffer;
    open_arg(&list, mr_list(items, 2), SIZE_MAX);
    assert_int_equal(mr_value_item(&list.root, 1, &value), MR_OK);
    assert_int_equal(mr_value_buffer(&value, 0, &buffer), MR_NOT_FOUND);
    assert_string_equal(mr_last_error(), "the custom object has no buffer 0: it has 0");
    close_arg(&list);
}

static void names_are_known(void **state) {
    assert_string_equal(mr_kind_name(MR_KIND_TENSOR), "tensor");
    assert_string_equal(mr_kind_name((mr_kind)99), "unknown");
    assert_string_equal(mr_dtype_name(MR_BF16), "bfloat16");
    assert_string_equal(mr_dtype_name((mr_dtype)99), "unknown");
    assert_int_equal(mr_dtype_size(MR_F64), 8);
    assert_int_equal(mr_dtype_size((mr_dtype)99), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_zeroed_value_is_nil),
        cmocka_unit_test(the_wrong_kind_is_named),
        cmocka_unit_test(ints_are_floats_where_they_fit),
        cmocka_unit_test(items_and_fields_are_found),
        cmocka_unit_test(walking_jumps_over_containers),
        cmocka_unit_test(a_container_that_came_later_ends_the_walk),
        cmocka_unit_test(containers_of_the_same_bytes_are_known),
        cmocka_unit_test(large_data_is_read_where_it_lies),
        cmocka_unit_test(releasing_the_root_tells_its_holder),
        cmocka_unit_test(foreign_objects_have_no_more_buffers_than_they_say),
        cmocka_unit_test(names_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
