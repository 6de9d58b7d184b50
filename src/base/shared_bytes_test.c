/* shared_bytes_test.c — shared bytes are freed with the last reference. */
#include "base/shared_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"

typedef struct borrowed {
    shared_bytes bytes;
    int given_back;
} borrowed;

static void give_back(shared_bytes *bytes) { ((borrowed *)bytes)->given_back++; }

static void the_last_one_gives_it_back(void **state) {
    borrowed borrowed = {.bytes = {1, give_back}};
    assert_ptr_equal(shared_bytes_ref(&borrowed.bytes), &borrowed.bytes);
    shared_bytes_unref(&borrowed.bytes);
    assert_int_equal(borrowed.given_back, 0);
    shared_bytes_unref(&borrowed.bytes);
    assert_int_equal(borrowed.given_back, 1);
}

static void a_copy_is_its_own(void **state) {
    char text[] = "abc";
    shared_bytes *bytes = shared_bytes_copy(span_of(text, 3)), *empty = shared_bytes_copy((span){0});
    text[0] = 'x';
    assert_int_equal(shared_bytes_bytes(bytes).size, 3);
    assert_memory_equal(shared_bytes_bytes(bytes).data, "abc", 3);
    assert_int_equal(shared_bytes_bytes(empty).size, 0);
    shared_bytes_unref(bytes);
    shared_bytes_unref(empty);
}

static void one_grows_and_shrinks(void **state) {
    shared_bytes *bytes = NULL;
    assert_int_equal(shared_bytes_resize(&bytes, 3), MR_OK);
    memcpy(shared_bytes_room(bytes), "abc", 3);
    assert_int_equal(shared_bytes_resize(&bytes, 100000), MR_OK);
    assert_int_equal(shared_bytes_bytes(bytes).size, 100000);
    assert_int_equal(shared_bytes_resize(&bytes, 2), MR_OK);
    assert_int_equal(shared_bytes_bytes(bytes).size, 2);
    assert_memory_equal(shared_bytes_bytes(bytes).data, "ab", 2);
    alloc_fail_at(1);
    assert_int_equal(shared_bytes_resize(&bytes, 1000), MR_NOMEM);
    assert_memory_equal(shared_bytes_bytes(bytes).data, "ab", 2);
    assert_int_equal((uintptr_t)shared_bytes_bytes(bytes).data % 8, 0);
    shared_bytes_unref(bytes);
}

static void a_cut_one_has_room_for_more(void **state) {
    shared_bytes *bytes = shared_bytes_copy(span_of("abcdef", 6));
    shared_bytes_cut(bytes, 2);
    assert_int_equal(shared_bytes_bytes(bytes).size, 2);
    assert_memory_equal(shared_bytes_room(bytes), "abcdef", 6);
    assert_int_equal(shared_bytes_resize(&bytes, 6), MR_OK);
    assert_int_equal(shared_bytes_bytes(bytes).size, 6);
    shared_bytes_unref(bytes);
}

static void nothing_needs_no_holder(void **state) {
    assert_null(shared_bytes_ref(NULL));
    shared_bytes_unref(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_one_gives_it_back), cmocka_unit_test(a_copy_is_its_own),
        cmocka_unit_test(one_grows_and_shrinks),      cmocka_unit_test(a_cut_one_has_room_for_more),
        cmocka_unit_test(nothing_needs_no_holder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
