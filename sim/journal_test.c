/* journal_test.c — the hash depends on everything that is recorded, and on its order; the story changes nothing. */
#include "sim/journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint64_t hash_of(int64_t now_us, uint32_t node, journal_kind kind, uint64_t a, uint64_t b, span bytes) {
    journal journal;
    journal_init(&journal, 7, false);
    journal_record(&journal, now_us, node, kind, a, b);
    journal_bytes(&journal, bytes);
    assert_int_equal(journal.count, 1);
    return journal.hash;
}

static void everything_counts(void **state) {
    span text = span_of("text", 4);
    uint64_t hash = hash_of(1, 2, JOURNAL_SEND, 3, 4, text);
    assert_true(hash == hash_of(1, 2, JOURNAL_SEND, 3, 4, text));
    assert_true(hash != hash_of(2, 2, JOURNAL_SEND, 3, 4, text));
    assert_true(hash != hash_of(1, 1, JOURNAL_SEND, 3, 4, text));
    assert_true(hash != hash_of(1, 2, JOURNAL_RECEIVE, 3, 4, text));
    assert_true(hash != hash_of(1, 2, JOURNAL_SEND, 4, 4, text));
    assert_true(hash != hash_of(1, 2, JOURNAL_SEND, 3, 5, text));
    assert_true(hash != hash_of(1, 2, JOURNAL_SEND, 3, 4, span_of("test", 4)));
}

static void order_counts(void **state) {
    journal a, b;
    journal_init(&a, 7, false);
    journal_init(&b, 7, false);
    journal_record(&a, 1, 1, JOURNAL_TICK, 0, 0);
    journal_record(&a, 1, 2, JOURNAL_TICK, 0, 0);
    journal_record(&b, 1, 2, JOURNAL_TICK, 0, 0);
    journal_record(&b, 1, 1, JOURNAL_TICK, 0, 0);
    assert_true(a.hash != b.hash);
}

static void a_story_is_not_history(void **state) {
    journal journal;
    journal_init(&journal, 7, false);
    uint64_t hash = journal.hash;
    journal_tell(&journal, 1, "n0", "%s", "once upon a time");
    assert_true(journal.hash == hash);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_counts),
        cmocka_unit_test(order_counts),
        cmocka_unit_test(a_story_is_not_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
