/* priority_queue_test.c — order of the queue: priority, age, and patience. */
#include "ps/priority_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"

enum { PATIENCE = 5, MANY = 40, ROUNDS = 4000 };

static void the_preferred_goes_first_and_among_equals_the_oldest(void **state) {
    priority_queue queue = {0};
    priority_entry a = {.since = 3}, b = {.since = 2}, c = {.since = 9};
    assert_null(priority_queue_next(&queue, PATIENCE));
    priority_queue_wait(&queue, &a, 1);
    priority_queue_wait(&queue, &b, 1);
    priority_queue_wait(&queue, &c, 0);
    priority_queue_wait(&queue, &c, 7); /* no-op: the entry waits already */
    assert_ptr_equal(priority_queue_next(&queue, PATIENCE), &b);
    priority_queue_prefer(&queue, &c, 2);
    assert_ptr_equal(priority_queue_next(&queue, PATIENCE), &c);
    priority_queue_leave(&queue, &c);
    priority_queue_leave(&queue, &c);     /* no-op: the entry does not wait */
    priority_queue_prefer(&queue, &c, 9); /* no-op, too */
    assert_ptr_equal(priority_queue_next(&queue, PATIENCE), &b);
    priority_queue_go(&queue, &b);
    priority_queue_go(&queue, &a);
    assert_null(priority_queue_next(&queue, PATIENCE));
    priority_queue_fini(&queue);
}

static void an_item_passed_over_too_often_goes_first(void **state) {
    priority_queue queue = {0};
    priority_entry low = {.since = 1}, high = {.since = 2};
    priority_queue_wait(&queue, &low, 0);
    int passed = 0;
    for (uint64_t since = 2;; passed++) {
        high.since = since++;
        priority_queue_wait(&queue, &high, 9);
        if (priority_queue_next(&queue, PATIENCE) == &low) break;
        priority_queue_go(&queue, &high);
    }
    assert_int_equal(passed, PATIENCE);
    priority_queue_fini(&queue);
}

typedef struct plain { /* reference model: a list that is searched */
    priority_entry entry;
    uint8_t priority;
    uint64_t passed;
    bool waits;
} plain;

static plain *plain_next(plain *all) {
    plain *best = NULL, *worn = NULL;
    for (size_t i = 0; i < MANY; i++) {
        plain *one = &all[i];
        if (!one->waits) continue;
        bool before = best == NULL || one->priority > best->priority ||
                      (one->priority == best->priority && one->entry.since < best->entry.since);
        if (before) best = one;
        if (worn == NULL || one->passed > worn->passed) worn = one;
    }
    return worn != NULL && worn->passed >= MANY ? worn : best;
}

static void it_is_as_if_all_were_looked_at(void **state) {
    plain all[MANY] = {0};
    priority_queue queue = {0};
    rng rng;
    rng_init(&rng, 7);
    uint64_t ages = 0;
    size_t worn = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        plain *one = &all[rng_below(&rng, MANY)];
        if (!one->waits) {
            one->entry.since = ++ages;
            one->passed = 0;
            one->waits = true;
            one->priority = (uint8_t)rng_below(&rng, 3);
            priority_queue_wait(&queue, &one->entry, one->priority);
        }
        if (rng_chance(&rng, 0.3)) continue;
        const plain *expected = plain_next(all);
        priority_entry *next = priority_queue_next(&queue, MANY);
        plain *goes = (plain *)(void *)next;
        /* among entries passed over equally often, any may be next */
        assert_true(goes == expected || goes->passed == expected->passed);
        worn += goes->passed >= MANY;
        priority_queue_go(&queue, next);
        goes->waits = false;
        for (size_t i = 0; i < MANY; i++) all[i].passed += all[i].waits;
    }
    assert_true(worn > 0);
    priority_queue_fini(&queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_preferred_goes_first_and_among_equals_the_oldest),
        cmocka_unit_test(an_item_passed_over_too_often_goes_first),
        cmocka_unit_test(it_is_as_if_all_were_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
