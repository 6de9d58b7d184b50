/* hub_loan_test.c — stretches of the arena that the hub's host borrows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/shm/hub.h"
#include "tests/support/temp.h"

/* A long stretch is made ready by a helper: whoever asks does not wait, and asks again. */
static mr_status borrow(hub *hub, uint64_t size, extent *out) {
    mr_status status;
    while ((status = hub_extent_alloc(hub, size, out)) == MR_BUSY) usleep(500);
    return status;
}

static void what_is_borrowed_is_counted_and_comes_back(void **state) {
    char folder[TEMP_FOLDER_MAX], path[TEMP_FOLDER_MAX + 8];
    assert_true(temp_folder(folder));
    snprintf(path, sizeof path, "%s/hub", folder);
    loop *loop;
    hub *hub;
    assert_int_equal(loop_create(&loop), MR_OK);
    assert_int_equal(hub_open(loop, &(hub_options){.path = path, .arena_bytes = 32u << 20}, &hub), MR_OK);

    extent small, large, none;
    assert_int_equal(hub_extent_alloc(hub, 0, &none), MR_INVALID);
    assert_int_equal(hub_extent_alloc(hub, 100, &small), MR_OK);
    assert_int_equal(borrow(hub, 20u << 20, &large), MR_OK);
    assert_int_equal(hub_extent_alloc(hub, 20u << 20, &none), MR_NOMEM);
    hub_stats stats = hub_stats_now(hub);
    assert_int_equal(stats.loans, 2);
    assert_int_equal(stats.lent, small.size + large.size);
    assert_int_equal(stats.used, 0); /* rings only */
    assert_true(stats.backed >= large.offset + large.size);
    assert_true(arena_holds(hub_arena(hub), large));
    memset(arena_at(hub_arena(hub), large.offset), 7, large.size); /* all of it is there */

    assert_int_equal(hub_extent_take(hub, large), MR_NOMEM); /* it is not free */
    hub_extent_free(hub, large);
    assert_int_equal(hub_stats_now(hub).loans, 1);
    assert_int_equal(hub_extent_take(hub, large), MR_OK);
    assert_int_equal(hub_stats_now(hub).loans, 2);
    assert_int_equal(hub_stats_now(hub).lent, small.size + large.size);
    hub_check(hub);
    hub_extent_free(hub, large);
    hub_extent_free(hub, small);
    assert_int_equal(hub_stats_now(hub).loans, 0);
    assert_int_equal(hub_stats_now(hub).lent, 0);
    hub_close(hub);
    loop_destroy(loop);
    assert_int_equal(rmdir(folder), 0);
}

/* Whoever lends everything that it gets leaves enough for new links. */
static void some_is_kept_for_rings(void **state) {
    enum { BYTES = 16 << 20, PIECE = 64 << 10 };
    char folder[TEMP_FOLDER_MAX], path[TEMP_FOLDER_MAX + 8];
    assert_true(temp_folder(folder));
    snprintf(path, sizeof path, "%s/hub", folder);
    loop *loop;
    hub *hub;
    assert_int_equal(loop_create(&loop), MR_OK);
    assert_int_equal(hub_open(loop, &(hub_options){.path = path, .arena_bytes = BYTES}, &hub), MR_OK);
    static extent loans[BYTES / PIECE];
    size_t count = 0;
    while (borrow(hub, PIECE, &loans[count]) == MR_OK) count++;
    assert_non_null(strstr(mr_last_error(), "kept for links"));
    assert_in_range(hub_stats_now(hub).lent, BYTES / 2, BYTES - ARENA_EXTENTS_OFFSET - BYTES / 32);
    while (count > 0) hub_extent_free(hub, loans[--count]);
    hub_close(hub);
    loop_destroy(loop);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_borrowed_is_counted_and_comes_back),
        cmocka_unit_test(some_is_kept_for_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
