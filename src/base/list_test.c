/* list_test.c — order, removal, and removal within loops. */
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

typedef struct thing {
    int number;
    list link;
} thing;

static thing *thing_of(list *link) { return container_of(link, thing, link); }

/* The numbers in the list as digits; checks that the links agree in both directions. */
static long digits(list *head) {
    long forward = 0, backward = 0, place = 1;
    for (list *at = head->next; at != head; at = at->next) {
        assert_ptr_equal(at->next->prev, at);
        forward = forward * 10 + thing_of(at)->number;
    }
    for (list *at = head->prev; at != head; at = at->prev, place *= 10) backward += thing_of(at)->number * place;
    assert_int_equal(forward, backward);
    return forward;
}

static void items_keep_their_order(void **state) {
    list head;
    thing things[5];
    list_init(&head);
    assert_true(list_empty(&head));
    assert_null(list_pop_front(&head));
    for (int i = 0; i < 5; i++) things[i].number = i + 1;
    list_push_back(&head, &things[1].link);
    list_push_back(&head, &things[2].link);
    list_push_front(&head, &things[0].link);
    list_push_back(&head, &things[4].link);
    list_insert_before(&things[4].link, &things[3].link);
    assert_false(list_empty(&head));
    assert_int_equal(digits(&head), 12345);
    assert_ptr_equal(thing_of(list_pop_front(&head)), &things[0]);
    assert_int_equal(digits(&head), 2345);
}

static void removing_twice_does_no_harm(void **state) {
    list head;
    thing things[3];
    list_init(&head);
    for (int i = 0; i < 3; i++) {
        things[i].number = i + 1;
        list_push_back(&head, &things[i].link);
    }
    assert_false(list_empty(&things[1].link));
    list_remove(&things[1].link);
    assert_true(list_empty(&things[1].link));
    list_remove(&things[1].link);
    assert_int_equal(digits(&head), 13);
    list_push_front(&head, &things[1].link);
    assert_int_equal(digits(&head), 213);
    for (int i = 0; i < 3; i++) list_remove(&things[i].link);
    assert_true(list_empty(&head));
}

static void a_loop_over_items_may_remove_them_and_end_early(void **state) {
    list head;
    thing things[4];
    list_init(&head);
    list_for_each_item (none, &head, thing, link) fail_msg("an empty list has item %d", none->number);
    for (int i = 0; i < 4; i++) {
        things[i].number = i + 1;
        list_push_back(&head, &things[i].link);
    }
    list_for_each_item (thing, &head, struct thing, link)
        if (thing->number % 2 == 0) list_remove(&thing->link);
    assert_int_equal(digits(&head), 13);
    list_for_each_item (thing, &head, struct thing, link) {
        list_remove(&thing->link);
        break;
    }
    assert_int_equal(digits(&head), 3);
}

static void a_loop_may_free_the_item_it_is_at(void **state) {
    list head;
    list_init(&head);
    for (int i = 1; i <= 9; i++) {
        thing *thing = xmalloc(sizeof *thing);
        thing->number = i;
        list_push_back(&head, &thing->link);
    }
    int seen = 0;
    list_for_each (at, &head) {
        seen++;
        if (thing_of(at)->number % 2 != 0) continue;
        list_remove(at);
        free(thing_of(at));
    }
    assert_int_equal(seen, 9);
    assert_int_equal(digits(&head), 13579);
    list_for_each (outer, &head)
        list_for_each (inner, &head) seen++;
    assert_int_equal(seen, 9 + 25);
    for (list *at; (at = list_pop_front(&head)) != NULL;) free(thing_of(at));
    list_for_each (none, &head) fail();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_keep_their_order),
        cmocka_unit_test(removing_twice_does_no_harm),
        cmocka_unit_test(a_loop_over_items_may_remove_them_and_end_early),
        cmocka_unit_test(a_loop_may_free_the_item_it_is_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
