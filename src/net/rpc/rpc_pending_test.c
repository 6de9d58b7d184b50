/* rpc_pending_test.c — places are taken and given back, numbers grow, records do not move. */
#include "net/rpc/rpc_pending.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"

static rpc_call_record *take(rpc_pending *pending) {
    rpc_call_record *first = rpc_pending_first(pending);
    rpc_pending_take_first(pending, first);
    return first;
}

static void the_last_place_given_is_taken_first(void **state) {
    rpc_pending pending = {0};
    assert_int_equal(pending.free, 0);
    assert_int_equal(rpc_pending_grow(&pending, NULL), MR_OK);
    rpc_call_record *first = take(&pending), *second = take(&pending);
    assert_int_equal(first->number, RPC_CALL_WINDOW);
    assert_int_equal(second->number, RPC_CALL_WINDOW + 1);
    rpc_pending_give(&pending, first);
    assert_ptr_equal(take(&pending), first);
    assert_int_equal(first->number, 2 * RPC_CALL_WINDOW);
    assert_int_equal(take(&pending)->number, RPC_CALL_WINDOW + 2);
    rpc_pending_fini(&pending);
}

static void only_numbers_that_were_given_are_found(void **state) {
    rpc_pending pending = {0};
    assert_null(rpc_pending_find(&pending, RPC_CALL_WINDOW));
    assert_int_equal(rpc_pending_grow(&pending, NULL), MR_OK);
    assert_null(rpc_pending_find(&pending, RPC_CALL_WINDOW));
    rpc_call_record *record = take(&pending);
    assert_ptr_equal(rpc_pending_find(&pending, RPC_CALL_WINDOW), record);
    assert_null(rpc_pending_find(&pending, RPC_CALL_WINDOW + 1));
    assert_null(rpc_pending_find(&pending, 2 * RPC_CALL_WINDOW));
    assert_null(rpc_pending_find(&pending, UINT64_MAX));
    rpc_pending_give(&pending, record);
    take(&pending);
    assert_ptr_equal(rpc_pending_find(&pending, RPC_CALL_WINDOW), record); /* the call has ended, but existed */
    assert_ptr_equal(rpc_pending_find(&pending, 2 * RPC_CALL_WINDOW), record);
    rpc_pending_fini(&pending);
}

static void there_are_window_many_and_they_do_not_move(void **state) {
    rpc_pending pending = {0};
    rpc_call_record *records[RPC_CALL_WINDOW];
    for (int i = 0; i < RPC_CALL_WINDOW; i++) {
        if (pending.free == 0) assert_int_equal(rpc_pending_grow(&pending, NULL), MR_OK);
        records[i] = take(&pending);
        assert_int_equal(records[i]->number, RPC_CALL_WINDOW + i);
    }
    assert_int_equal(pending.free, 0);
    assert_int_equal(rpc_pending_grow(&pending, NULL), MR_BUSY);
    for (uint32_t i = 0; i < RPC_CALL_WINDOW; i++) assert_ptr_equal(rpc_pending_at(&pending, i), records[i]);
    rpc_pending_fini(&pending);
}

static void without_memory_nothing_changes(void **state) {
    rpc_pending pending = {0};
    for (size_t nth = 1; nth <= 2; nth++) {
        alloc_fail_at(nth);
        assert_int_equal(rpc_pending_grow(&pending, NULL), MR_NOMEM);
        assert_int_equal(pending.count, 0);
        assert_int_equal(pending.free, 0);
    }
    assert_int_equal(rpc_pending_grow(&pending, NULL), MR_OK);
    rpc_call_record *record = take(&pending);
    alloc_fail_at(1);
    assert_int_equal(rpc_pending_grow(&pending, NULL), MR_NOMEM);
    assert_ptr_equal(rpc_pending_find(&pending, RPC_CALL_WINDOW), record);
    alloc_fail_at(0);
    rpc_pending_fini(&pending);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_place_given_is_taken_first),
        cmocka_unit_test(only_numbers_that_were_given_are_found),
        cmocka_unit_test(there_are_window_many_and_they_do_not_move),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
