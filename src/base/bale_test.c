/* bale_test.c — bytes that several hold go when the last one lets go. */
#include "base/bale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"

typedef struct lent {
    bale bale;
    int given_back;
} lent;

static void give_back(bale *bale) { ((lent *)bale)->given_back++; }

static void the_last_one_gives_it_back(void **state) {
    lent lent = {.bale = {1, give_back}};
    assert_ptr_equal(bale_ref(&lent.bale), &lent.bale);
    bale_unref(&lent.bale);
    assert_int_equal(lent.given_back, 0);
    bale_unref(&lent.bale);
    assert_int_equal(lent.given_back, 1);
}

static void a_copy_is_its_own(void **state) {
    char text[] = "abc";
    bale *bale = bale_copy(span_of(text, 3)), *empty = bale_copy((span){0});
    text[0] = 'x';
    assert_int_equal(bale_bytes(bale).size, 3);
    assert_memory_equal(bale_bytes(bale).data, "abc", 3);
    assert_int_equal(bale_bytes(empty).size, 0);
    bale_unref(bale);
    bale_unref(empty);
}

static void one_grows_and_shrinks(void **state) {
    bale *bale = NULL;
    assert_int_equal(bale_resize(&bale, 3), MR_OK);
    memcpy(bale_room(bale), "abc", 3);
    assert_int_equal(bale_resize(&bale, 100000), MR_OK);
    assert_int_equal(bale_bytes(bale).size, 100000);
    assert_int_equal(bale_resize(&bale, 2), MR_OK);
    assert_int_equal(bale_bytes(bale).size, 2);
    assert_memory_equal(bale_bytes(bale).data, "ab", 2);
    alloc_fail_at(1);
    assert_int_equal(bale_resize(&bale, 1000), MR_NOMEM);
    assert_memory_equal(bale_bytes(bale).data, "ab", 2);
    assert_int_equal((uintptr_t)bale_bytes(bale).data % 8, 0);
    bale_unref(bale);
}

static void a_cut_one_has_room_for_more(void **state) {
    bale *bale = bale_copy(span_of("abcdef", 6));
    bale_cut(bale, 2);
    assert_int_equal(bale_bytes(bale).size, 2);
    assert_memory_equal(bale_room(bale), "abcdef", 6);
    assert_int_equal(bale_resize(&bale, 6), MR_OK);
    assert_int_equal(bale_bytes(bale).size, 6);
    bale_unref(bale);
}

static void nothing_needs_no_holder(void **state) {
    assert_null(bale_ref(NULL));
    bale_unref(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_one_gives_it_back), cmocka_unit_test(a_copy_is_its_own),
        cmocka_unit_test(one_grows_and_shrinks),      cmocka_unit_test(a_cut_one_has_room_for_more),
        cmocka_unit_test(nothing_needs_no_holder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
