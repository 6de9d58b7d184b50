/* timer_heap_test.c — order, ties and removal. */
#include "base/timer_heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"

static void items_come_out_in_order(void **state) {
    rng rng;
    rng_init(&rng, 1);
    timer_heap heap = {0};
    timer_heap_item items[500] = {0};
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < 500; i++) timer_heap_add(&heap, &items[i], (int64_t)rng_below(&rng, 50));
        for (size_t i = 0; i < 500; i += 3) timer_heap_remove(&heap, &items[i]);
        timer_heap_item *last = NULL, *item;
        size_t count = 0;
        while ((item = timer_heap_pop_due(&heap, 100)) != NULL) {
            assert_false(timer_heap_holds(item));
            if (last != NULL)
                assert_true(last->at_us < item->at_us || (last->at_us == item->at_us && last->order < item->order));
            last = item;
            count++;
        }
        assert_int_equal(count, 333);
    }
    timer_heap_fini(&heap);
}

/* The first item by linear search; an item that was added again counts as added later. */
static timer_heap_item *first_by_search(timer_heap_item *items, const bool *in, size_t count) {
    timer_heap_item *first = NULL;
    for (size_t i = 0; i < count; i++)
        if (in[i] && (first == NULL || items[i].at_us < first->at_us ||
                      (items[i].at_us == first->at_us && items[i].order < first->order)))
            first = &items[i];
    return first;
}

static void it_agrees_with_a_search(void **state) {
    enum { COUNT = 60 };
    for (uint64_t seed = 1; seed <= 20; seed++) {
        rng rng;
        rng_init(&rng, seed);
        timer_heap heap = {0};
        timer_heap_item items[COUNT] = {0};
        bool in[COUNT] = {false};
        for (int step = 0; step < 2000; step++) {
            size_t i = (size_t)rng_below(&rng, COUNT);
            if (rng_chance(&rng, 0.6)) {
                timer_heap_add(&heap, &items[i], rng_between(&rng, -20, 20));
                in[i] = true;
            } else {
                timer_heap_remove(&heap, &items[i]);
                in[i] = false;
            }
            assert_int_equal(timer_heap_holds(&items[i]), in[i]);
            timer_heap_item *first = first_by_search(items, in, COUNT);
            assert_ptr_equal(timer_heap_first(&heap), first);
            assert_int_equal(timer_heap_next_us(&heap), first == NULL ? CLOCK_NEVER_US : first->at_us);
        }
        timer_heap_fini(&heap);
    }
}

static void only_what_is_due_comes_out(void **state) {
    timer_heap heap = {0};
    timer_heap_item a = {0}, b = {0};
    assert_null(timer_heap_first(&heap));
    assert_null(timer_heap_pop_due(&heap, INT64_MAX));
    assert_int_equal(timer_heap_next_us(&heap), CLOCK_NEVER_US);
    timer_heap_remove(&heap, &a);
    timer_heap_add(&heap, &a, 10);
    timer_heap_add(&heap, &b, 5);
    assert_null(timer_heap_pop_due(&heap, 4));
    assert_ptr_equal(timer_heap_pop_due(&heap, 5), &b);
    assert_null(timer_heap_pop_due(&heap, 9));
    timer_heap_add(&heap, &a, 3); /* moves the item */
    assert_int_equal(heap.count, 1);
    assert_int_equal(timer_heap_next_us(&heap), 3);
    timer_heap_add(&heap, &b, 3); /* after a, which was added first */
    assert_ptr_equal(timer_heap_pop_due(&heap, 3), &a);
    assert_ptr_equal(timer_heap_pop_due(&heap, 3), &b);
    timer_heap_fini(&heap);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_out_in_order),
        cmocka_unit_test(it_agrees_with_a_search),
        cmocka_unit_test(only_what_is_due_comes_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
