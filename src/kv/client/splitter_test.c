/* splitter_test.c — every key of a request is in the run of its slot, once, in order. */
#include "kv/client/splitter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

enum { KEYS = 1000 };

static void assert_split(splitter *splitter, const slot_placement_table *table, const uint64_t *keys, uint32_t count) {
    uint32_t seen = 0;
    assert_int_equal(splitter_keys(splitter, table, keys, count), MR_OK);
    for (uint32_t i = 0; i < splitter->touch_count; i++) {
        splitter_run run = splitter_at(splitter, i);
        assert_true(run.count > 0);
        for (uint32_t k = 0; k < run.count; k++) {
            assert_int_equal(slot_placement_slot(table, keys[run.places[k]]), run.slot);
            if (k > 0) assert_true(run.places[k] > run.places[k - 1]);
        }
        seen += run.count;
    }
    assert_int_equal(seen, count);
}

static void keys_are_found_in_the_runs_of_their_slots(void **state) {
    static const uint32_t counts[] = {KEYS, 1, 0, 17, KEYS - 1};
    splitter splitter = {0};
    uint64_t keys[KEYS];
    rng rng;
    rng_init(&rng, 5);
    for (uint64_t i = 0, key = 0; i < KEYS; i++) keys[i] = key += 1 + rng_below(&rng, 1000);
    for (uint32_t slots = 1; slots < 100; slots += 7)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            slot_placement_table hashed = {.slots = slots},
                                 ordered = {.order = SLOT_PLACEMENT_ORDERED, .slots = slots, .last = keys[KEYS - 1]};
            assert_split(&splitter, &hashed, keys, counts[i]);
            assert_split(&splitter, &ordered, keys, counts[i]);
        }
    splitter_fini(&splitter);
}

static void keys_that_cannot_be_are_named(void **state) {
    splitter splitter = {0};
    const slot_placement_table hashed = {.slots = 3},
                               ordered = {.order = SLOT_PLACEMENT_ORDERED, .slots = 3, .first_key = 5, .last = 20};
    assert_int_equal(splitter_keys(&splitter, &hashed, (const uint64_t[]){1, 5, 4}, 3), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "keys[2] is 4, below"));
    assert_int_equal(splitter_keys(&splitter, &hashed, (const uint64_t[]){1, 5, 5}, 3), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "keys[2] is 5, equal to"));
    assert_int_equal(splitter_keys(&splitter, &ordered, (const uint64_t[]){4, 5}, 2), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "key 4 is outside the table's range 5 to 20"));
    assert_int_equal(splitter_keys(&splitter, &ordered, (const uint64_t[]){5, 21}, 2), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "key 21"));
    assert_split(&splitter, &ordered, (const uint64_t[]){5, 20}, 2);
    splitter_fini(&splitter);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_found_in_the_runs_of_their_slots),
        cmocka_unit_test(keys_that_cannot_be_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
