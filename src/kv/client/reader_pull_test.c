/* reader_pull_test.c — a pull is repeated until all slots have answered with one version, and asks for a version that
 * every slot has. */
#include "kv/client/reader_pull.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "ps/consistency.h"

static void one_version_is_the_result(void **state) {
    reader_pull pull;
    ticket ticket = {0};
    reader_pull_init(&pull, &ticket);
    assert_true(pull.asked == CONSISTENCY_NEWEST && !reader_pull_fails(&pull));
    for (int i = 0; i < 3; i++) reader_pull_answered(&pull, 7);
    assert_false(reader_pull_fails(&pull));
}

static void two_versions_are_asked_for_the_earlier_one(void **state) {
    reader_pull pull;
    ticket ticket = {0};
    reader_pull_init(&pull, &ticket);
    reader_pull_answered(&pull, 7);
    reader_pull_answered(&pull, 6);
    assert_true(reader_pull_fails(&pull));
    assert_int_equal(reader_pull_repeat(&pull), 6);
    assert_false(reader_pull_fails(&pull));
    reader_pull_answered(&pull, 6);
    reader_pull_answered(&pull, 6);
    assert_false(reader_pull_fails(&pull));
    assert_int_equal(pull.repeats, 1);
}

static void a_version_that_is_gone_is_followed_by_the_newest(void **state) {
    reader_pull pull;
    ticket ticket = {0};
    reader_pull_init(&pull, &ticket);
    reader_pull_answered(&pull, 3);
    reader_pull_answered(&pull, 9); /* much later than the other slot */
    assert_int_equal(reader_pull_repeat(&pull), 8);
    reader_pull_answered(&pull, 8);
    reader_pull_gone(&pull, 10);
    assert_true(reader_pull_fails(&pull));
    assert_true(reader_pull_repeat(&pull) == CONSISTENCY_NEWEST);
    reader_pull_gone(&pull, 12); /* the rest of a large answer */
    assert_true(reader_pull_fails(&pull));
    assert_int_equal(reader_pull_repeat(&pull), 11);
}

/* Slots close their rounds in any order, but no slot closes one before all have closed the one before. */
static void every_slot_has_the_version_that_is_asked_for(void **state) {
    enum { SLOTS = 4 };
    rng rng;
    uint64_t versions[SLOTS] = {0};
    rng_init(&rng, 7);
    for (int i = 0; i < 2000; i++) {
        reader_pull pull;
        ticket ticket = {0};
        reader_pull_init(&pull, &ticket);
        for (bool done = false; !done;) {
            for (size_t k = 0; k < SLOTS; k++) {
                uint64_t least = UINT64_MAX;
                for (size_t j = 0; j < SLOTS; j++) least = versions[j] < least ? versions[j] : least;
                size_t turn = rng_below(&rng, SLOTS);
                if (rng_below(&rng, 3) == 0 && versions[turn] == least) versions[turn]++;
                if (pull.asked == CONSISTENCY_NEWEST) {
                    reader_pull_answered(&pull, versions[k]);
                } else {
                    assert_true(pull.asked <= versions[k]); /* or the pull would wait */
                    if (pull.asked + 1 >= versions[k])
                        reader_pull_answered(&pull, pull.asked);
                    else
                        reader_pull_gone(&pull, versions[k]);
                }
            }
            done = !reader_pull_fails(&pull);
            if (!done) (void)reader_pull_repeat(&pull);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_version_is_the_result),
        cmocka_unit_test(two_versions_are_asked_for_the_earlier_one),
        cmocka_unit_test(a_version_that_is_gone_is_followed_by_the_newest),
        cmocka_unit_test(every_slot_has_the_version_that_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
