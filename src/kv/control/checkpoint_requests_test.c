/* checkpoint_requests_test.c — a request is answered with a checkpoint that was begun after it. */
#include "kv/control/checkpoint_requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

static checkpoint_requests *after_the_first(uint64_t number) {
    checkpoint_requests *requests = xcalloc(1, sizeof *requests);
    checkpoint_requests_whole(requests, number);
    return requests;
}

static void the_next_one_is_for_who_asks(void **state) {
    checkpoint_requests *requests = after_the_first(4);
    assert_int_equal(checkpoint_requests_ask(requests, 11, false, 0), 0);
    assert_int_equal(checkpoint_requests_ask(requests, 11, true, 1), 0); /* the requested checkpoint is under way */
    checkpoint_requests_whole(requests, 5);
    assert_int_equal(checkpoint_requests_ask(requests, 11, false, 2), 5);
    checkpoint_requests_whole(requests, 6);
    assert_int_equal(checkpoint_requests_ask(requests, 11, false, 3), 5); /* repeated, because the answer was lost */
    free(requests);
}

static void one_that_is_under_way_is_too_early(void **state) {
    checkpoint_requests *requests = after_the_first(4);
    assert_int_equal(checkpoint_requests_ask(requests, 11, true, 0), 0);
    checkpoint_requests_whole(requests, 5);
    assert_int_equal(checkpoint_requests_ask(requests, 12, false, 1), 0);
    assert_int_equal(checkpoint_requests_ask(requests, 11, false, 1), 0);
    checkpoint_requests_whole(requests, 7);
    assert_int_equal(checkpoint_requests_ask(requests, 11, false, 2), 7);
    assert_int_equal(checkpoint_requests_ask(requests, 12, false, 2), 7);
    free(requests);
}

static void the_first_checkpoint_of_a_scheduler_has_no_requester(void **state) {
    checkpoint_requests *requests = xcalloc(1, sizeof *requests);
    assert_int_equal(checkpoint_requests_ask(requests, 11, false, 0), 0);
    checkpoint_requests_whole(requests, 9);
    assert_int_equal(checkpoint_requests_ask(requests, 11, false, 1), 0);
    checkpoint_requests_whole(requests, 10);
    assert_int_equal(checkpoint_requests_ask(requests, 11, false, 2), 10);
    free(requests);
}

static void a_silent_requester_is_dropped(void **state) {
    checkpoint_requests *requests = after_the_first(1);
    for (uint64_t i = 0; i < CHECKPOINT_REQUESTS_MAX; i++)
        assert_int_equal(checkpoint_requests_ask(requests, 1 + i, false, 0), 0);
    assert_int_equal(checkpoint_requests_ask(requests, 7, false, CHECKPOINT_REQUESTS_SILENT_US - 1), 0);
    /* the list is full */
    assert_int_equal(checkpoint_requests_ask(requests, 1000, false, CHECKPOINT_REQUESTS_SILENT_US - 1), 0);
    checkpoint_requests_whole(requests, 2);
    /* a silent request was deleted */
    assert_int_equal(checkpoint_requests_ask(requests, 1000, false, CHECKPOINT_REQUESTS_SILENT_US), 0);
    assert_int_equal(requests->count, 2);
    assert_int_equal(checkpoint_requests_ask(requests, 7, false, CHECKPOINT_REQUESTS_SILENT_US), 2);
    checkpoint_requests_whole(requests, 3);
    assert_int_equal(checkpoint_requests_ask(requests, 1000, false, CHECKPOINT_REQUESTS_SILENT_US), 3);
    free(requests);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_one_is_for_who_asks),
        cmocka_unit_test(one_that_is_under_way_is_too_early),
        cmocka_unit_test(the_first_checkpoint_of_a_scheduler_has_no_requester),
        cmocka_unit_test(a_silent_requester_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
