/* replica_log_test.c — entries are kept in order until they are applied and dropped; shared buffers are held with
 * them. */
#include "ps/replica_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void add(replica_log *log, uint64_t name, shared_bytes *bytes) {
    replica_log_add(
        log, &(replica_log_entry){.rank = 1, .name = name, .payload = shared_bytes_bytes(bytes), .bytes = bytes});
}

static void entries_come_out_as_they_went_in(void **state) {
    replica_log log = {0};
    shared_bytes *bytes = shared_bytes_copy(span_of("abc", 3));
    for (uint64_t i = 1; i <= 20; i++) add(&log, 100 + i, bytes);
    assert_int_equal(replica_log_last(&log), 20);
    for (uint64_t i = 1; i <= 20; i++) assert_int_equal(replica_log_at(&log, i)->name, 100 + i);
    assert_int_equal(bytes->refs, 21);
    for (int i = 0; i < 12; i++) replica_log_apply(&log);
    replica_log_trim(&log, 5); /* later entries are kept */
    assert_int_equal(replica_log_at(&log, 6)->name, 106);
    replica_log_trim(&log, 99); /* unapplied entries stay */
    assert_int_equal(replica_log_at(&log, 13)->name, 113);
    assert_int_equal(bytes->refs, 9);
    for (uint64_t i = 21; i <= 40; i++) add(&log, 100 + i, bytes); /* wraps around the end of the ring */
    assert_true(replica_log_holds(&log, REPLICA_LOG_PUSH, 1, 113) &&
                !replica_log_holds(&log, REPLICA_LOG_PUSH, 1, 112)); /* applied */
    assert_true(!replica_log_holds(&log, REPLICA_LOG_PUSH, 0, 113) &&
                !replica_log_holds(&log, REPLICA_LOG_FREEZE, 1, 113));
    for (uint64_t i = 13; i <= 40; i++) assert_int_equal(replica_log_at(&log, i)->name, 100 + i);
    replica_log_fini(&log);
    assert_int_equal(bytes->refs, 1);
    shared_bytes_unref(bytes);
}

static void a_log_may_begin_anywhere(void **state) {
    replica_log log = {0};
    shared_bytes *bytes = shared_bytes_copy(span_of("x", 1));
    add(&log, 1, bytes);
    replica_log_reset(&log, 41);
    assert_int_equal(replica_log_last(&log), 41);
    add(&log, 2, bytes);
    assert_int_equal(replica_log_at(&log, 42)->name, 2);
    replica_log_apply(&log);
    assert_int_equal(log.applied, 42);
    replica_log_fini(&log);
    shared_bytes_unref(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_out_as_they_went_in),
        cmocka_unit_test(a_log_may_begin_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
