/* broker_loan_test.c — ranges of the arena allocated by the broker's host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/shm/broker.h"
#include "tests/support/temp_dir.h"

/* A helper thread backs a long range: the allocation returns MR_BUSY and is retried. */
static mr_status borrow(broker *broker, uint64_t size, extent *out) {
    mr_status status;
    while ((status = broker_extent_alloc(broker, size, out)) == MR_BUSY) usleep(500);
    return status;
}

static void borrowed_extents_are_counted_and_returned(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 8];
    assert_true(temp_dir_folder(folder));
    snprintf(path, sizeof path, "%s/hub", folder);
    event_loop *loop;
    broker *broker;
    assert_int_equal(event_loop_create(&loop), MR_OK);
    assert_int_equal(broker_open(loop, &(broker_options){.path = path, .arena_bytes = 32u << 20}, &broker), MR_OK);

    extent small, large, none;
    assert_int_equal(broker_extent_alloc(broker, 0, &none), MR_INVALID);
    assert_int_equal(broker_extent_alloc(broker, 100, &small), MR_OK);
    assert_int_equal(borrow(broker, 20u << 20, &large), MR_OK);
    assert_int_equal(broker_extent_alloc(broker, 20u << 20, &none), MR_NOMEM);
    broker_stats stats = broker_stats_now(broker);
    assert_int_equal(stats.loans, 2);
    assert_int_equal(stats.exported, small.size + large.size);
    assert_int_equal(stats.used, 0); /* rings only */
    assert_true(stats.backed >= large.offset + large.size);
    assert_true(arena_holds(broker_arena(broker), large));
    memset(arena_at(broker_arena(broker), large.offset), 7, large.size); /* all pages exist */

    assert_int_equal(broker_extent_take(broker, large), MR_NOMEM); /* the range is in use */
    broker_extent_free(broker, large);
    assert_int_equal(broker_stats_now(broker).loans, 1);
    assert_int_equal(broker_extent_take(broker, large), MR_OK);
    assert_int_equal(broker_stats_now(broker).loans, 2);
    assert_int_equal(broker_stats_now(broker).exported, small.size + large.size);
    broker_check(broker);
    broker_extent_free(broker, large);
    broker_extent_free(broker, small);
    assert_int_equal(broker_stats_now(broker).loans, 0);
    assert_int_equal(broker_stats_now(broker).exported, 0);
    broker_close(broker);
    event_loop_destroy(loop);
    assert_int_equal(rmdir(folder), 0);
}

/* A host that allocates as much as possible leaves memory for the rings of new links. */
static void some_is_kept_for_rings(void **state) {
    enum { BYTES = 16 << 20, PIECE = 64 << 10 };
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 8];
    assert_true(temp_dir_folder(folder));
    snprintf(path, sizeof path, "%s/hub", folder);
    event_loop *loop;
    broker *broker;
    assert_int_equal(event_loop_create(&loop), MR_OK);
    assert_int_equal(broker_open(loop, &(broker_options){.path = path, .arena_bytes = BYTES}, &broker), MR_OK);
    static extent loans[BYTES / PIECE];
    size_t count = 0;
    while (borrow(broker, PIECE, &loans[count]) == MR_OK) count++;
    assert_non_null(strstr(mr_last_error(), "kept for links"));
    assert_in_range(broker_stats_now(broker).exported, BYTES / 2, BYTES - ARENA_EXTENTS_OFFSET - BYTES / 32);
    while (count > 0) broker_extent_free(broker, loans[--count]);
    broker_close(broker);
    event_loop_destroy(loop);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(borrowed_extents_are_counted_and_returned),
        cmocka_unit_test(some_is_kept_for_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
