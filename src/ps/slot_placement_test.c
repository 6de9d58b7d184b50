/* slot_placement_test.c — every key has one slot, ordered tables have runs of keys; pins come first. */
#include "ps/slot_placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"

static void ordered_slots_are_runs_of_equal_length(void **state) {
    const slot_placement_table table = {SLOT_PLACEMENT_ORDERED, 7, 100, 199};
    size_t counts[7] = {0};
    uint32_t last = 0;
    for (uint64_t key = 100; key <= 199; key++) {
        uint32_t slot = slot_placement_slot(&table, key);
        assert_true(slot == last || slot == last + 1);
        counts[last = slot]++;
    }
    for (size_t i = 0; i < 7; i++) assert_true(counts[i] == 14 || counts[i] == 15);
}

static void the_whole_space_of_keys_can_be_ordered(void **state) {
    const slot_placement_table table = {SLOT_PLACEMENT_ORDERED, 1000, 0, UINT64_MAX};
    assert_int_equal(slot_placement_check(&table), MR_OK);
    assert_int_equal(slot_placement_slot(&table, 0), 0);
    assert_int_equal(slot_placement_slot(&table, UINT64_MAX), 999);
    rng rng;
    rng_init(&rng, 4);
    for (int i = 0; i < 10000; i++) {
        uint64_t key = rng_next(&rng);
        uint32_t slot = slot_placement_slot(&table, key);
        assert_true(slot == (uint32_t)((unsigned __int128)key * 1000 >> 64));
    }
}

static void hashed_slots_part_neighbours(void **state) {
    const slot_placement_table table = {SLOT_PLACEMENT_HASHED, 64, 0, 0};
    size_t counts[64] = {0};
    for (uint64_t key = 0; key < 64000; key++) counts[slot_placement_slot(&table, key)]++;
    for (size_t i = 0; i < 64; i++) assert_true(counts[i] > 850 && counts[i] < 1150);
}

static void slots_begin_where_the_table_says(void **state) {
    const slot_placement_table ordered = {SLOT_PLACEMENT_ORDERED, 7, 100, 199, 20},
                               hashed = {SLOT_PLACEMENT_HASHED, 64, 0, 0, 5},
                               plain = {SLOT_PLACEMENT_HASHED, 64, 0, 0, 0};
    assert_int_equal(slot_placement_slot(&ordered, 100), 20);
    assert_int_equal(slot_placement_slot(&ordered, 199), 26);
    for (uint64_t key = 0; key < 100; key++)
        assert_int_equal(slot_placement_slot(&hashed, key), 5 + slot_placement_slot(&plain, key));
}

static void tables_that_cannot_be_are_refused(void **state) {
    const slot_placement_table wrong[] = {
        {SLOT_PLACEMENT_HASHED, 0, 0, 0},
        {SLOT_PLACEMENT_HASHED, SLOT_PLACEMENT_SLOTS_MAX + 1, 0, 0},
        {SLOT_PLACEMENT_ORDERED, 4, 10, 9},
        {SLOT_PLACEMENT_ORDERED, 4, 10, 12},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(slot_placement_check(&wrong[i]), MR_INVALID);
    const slot_placement_table right = {SLOT_PLACEMENT_ORDERED, 4, 10, 13};
    assert_int_equal(slot_placement_check(&right), MR_OK);
}

static void pins_come_first(void **state) {
    const hash_ring_server servers[] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}};
    const uint64_t alive[] = {1, 2, 3, 4, 5};
    const slot_placement_pin pins[] = {{3, 1, {4}}, {8, 3, {9, 2, 1}}};
    hash_ring *ring;
    assert_int_equal(hash_ring_create(servers, 5, &ring), MR_OK);
    uint64_t ids[3], plain[3];
    for (uint32_t slot = 0; slot < 12; slot++) {
        assert_int_equal(slot_placement_target(ring, pins, 2, alive, 5, slot, 3, ids), 3);
        assert_true(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
        assert_int_equal(hash_ring_owners(ring, slot, plain, 3), 3);
        if (slot == 3) assert_true(ids[0] == 4);
        if (slot == 8) assert_true(ids[0] == 2 && ids[1] == 1); /* server 9 is not alive */
        if (slot != 3 && slot != 8) assert_memory_equal(ids, plain, sizeof ids);
    }
    assert_int_equal(slot_placement_target(ring, pins, 2, alive, 5, 3, 1, ids), 1);
    assert_true(ids[0] == 4);
    hash_ring_destroy(ring);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordered_slots_are_runs_of_equal_length),
        cmocka_unit_test(the_whole_space_of_keys_can_be_ordered),
        cmocka_unit_test(hashed_slots_part_neighbours),
        cmocka_unit_test(slots_begin_where_the_table_says),
        cmocka_unit_test(tables_that_cannot_be_are_refused),
        cmocka_unit_test(pins_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
