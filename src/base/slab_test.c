/* slab_test.c — records are distinct, found by index, and recycled. */
#include "base/slab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

typedef struct record {
    slab_place place;
    uint64_t number;
} record;

static record *taken(slab *slab) {
    record *made = slab_take(slab);
    if (made == NULL) abort();
    return made;
}

static void records_are_found_by_their_index(void **state) {
    enum { MANY = 10 * SLAB_CHUNK + 1 };
    slab slab;
    slab_init(&slab, sizeof(record));
    for (uint32_t i = 0; i < MANY; i++) {
        record *made = taken(&slab);
        assert_int_equal(made->place.index, i);
        assert_int_equal(made->number, 0);
        assert_int_equal((uintptr_t)made % 64, 0);
        made->number = i + 1;
    }
    assert_int_equal(slab.taken, MANY);
    for (uint32_t i = 0; i < MANY; i++) assert_int_equal(((record *)slab_at(&slab, i))->number, i + 1);
    slab_fini(&slab);
}

static void the_last_one_given_is_the_first_one_taken(void **state) {
    slab slab;
    slab_init(&slab, sizeof(record));
    record *a = taken(&slab), *b = taken(&slab);
    a->number = 7;
    slab_give(&slab, b);
    slab_give(&slab, a);
    assert_ptr_equal(slab_take(&slab), a);
    assert_int_equal(a->number, 7);
    assert_ptr_equal(slab_take(&slab), b);
    assert_int_equal(slab.taken, 2);
    slab_fini(&slab);
}

static void no_memory_is_no_harm(void **state) {
    slab slab;
    slab_init(&slab, sizeof(record));
    for (size_t nth = 1; nth <= 2; nth++) {
        alloc_fail_at(nth);
        assert_null(slab_take(&slab));
    }
    alloc_fail_at(0);
    assert_non_null(slab_take(&slab));
    slab_fini(&slab);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_found_by_their_index),
        cmocka_unit_test(the_last_one_given_is_the_first_one_taken),
        cmocka_unit_test(no_memory_is_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
