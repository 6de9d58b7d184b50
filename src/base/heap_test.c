/* heap_test.c — order, ties and removal. */
#include "base/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"

static void items_come_out_in_order(void **state) {
    rng rng;
    rng_init(&rng, 1);
    heap heap = {0};
    heap_item items[500] = {0};
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < 500; i++) heap_add(&heap, &items[i], (int64_t)rng_below(&rng, 50));
        for (size_t i = 0; i < 500; i += 3) heap_remove(&heap, &items[i]);
        heap_item *last = NULL, *item;
        size_t count = 0;
        while ((item = heap_pop_due(&heap, 100)) != NULL) {
            assert_false(heap_holds(item));
            if (last != NULL)
                assert_true(last->at_us < item->at_us || (last->at_us == item->at_us && last->order < item->order));
            last = item;
            count++;
        }
        assert_int_equal(count, 333);
    }
    heap_fini(&heap);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(items_come_out_in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
