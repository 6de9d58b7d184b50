/* map_test.c — comparison with a plain array, with colliding keys. */
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

static char values[8]; /* their addresses are the stored values */

static void an_empty_map_has_nothing(void **state) {
    map map = {0};
    map_entry entry;
    assert_null(map_get(&map, 0));
    assert_null(map_remove(&map, 0));
    assert_int_equal(map_next(&map, 0, &entry), 0);
    map_fini(&map);
}

static void put_gives_back_what_was_there(void **state) {
    map map = {0};
    assert_null(map_put(&map, 0, &values[0])); /* 0 is an ordinary key */
    assert_null(map_put(&map, UINT64_MAX, &values[1]));
    assert_ptr_equal(map_put(&map, 0, &values[2]), &values[0]);
    assert_int_equal(map.count, 2);
    assert_ptr_equal(map_get(&map, 0), &values[2]);
    assert_ptr_equal(map_get(&map, UINT64_MAX), &values[1]);
    assert_null(map_get(&map, 1));
    assert_ptr_equal(map_remove(&map, 0), &values[2]);
    assert_null(map_remove(&map, 0));
    assert_int_equal(map.count, 1);
    map_fini(&map);
    assert_null(map_put(&map, 3, &values[0])); /* empty and ready again */
    map_fini(&map);
}

enum { KEYS = 300 };

static void check_walk(const map *map, void *const *model) {
    map_entry entry;
    size_t seen = 0, expected = 0;
    bool met[KEYS] = {false};
    for (size_t at = 0; (at = map_next(map, at, &entry)) != 0; seen++) {
        uint64_t key = entry.key >> 40;
        assert_true(key < KEYS && !met[key]);
        met[key] = true;
        assert_ptr_equal(entry.value, model[key]);
    }
    for (size_t i = 0; i < KEYS; i++) expected += model[i] != NULL;
    assert_int_equal(seen, expected);
    assert_int_equal(map->count, expected);
}

/* Keys that differ in their high bits only, in a small map: runs wrap around and removal fills holes. */
static void it_agrees_with_an_array(void **state) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        rng rng;
        rng_init(&rng, seed);
        map map = {0};
        void *model[KEYS] = {NULL};
        uint64_t used = 1 + rng_below(&rng, KEYS);
        for (int step = 0; step < 4000; step++) {
            uint64_t index = rng_below(&rng, used), key = index << 40;
            if (rng_chance(&rng, 0.5)) {
                void *value = &values[rng_below(&rng, 8)];
                assert_ptr_equal(map_put(&map, key, value), model[index]);
                model[index] = value;
            } else {
                assert_ptr_equal(map_remove(&map, key), model[index]);
                model[index] = NULL;
            }
            uint64_t other = rng_below(&rng, KEYS);
            assert_ptr_equal(map_get(&map, other << 40), model[other]);
        }
        check_walk(&map, model);
        map_fini(&map);
    }
}

static void replacing_in_a_full_map_takes_no_memory(void **state) {
    map map = {0};
    for (uint64_t key = 0; key < 12; key++) map_put(&map, key, &values[0]);
    size_t capacity = map.capacity;
    assert_int_equal(capacity, 16);
    for (uint64_t key = 0; key < 12; key++) assert_ptr_equal(map_put(&map, key, &values[1]), &values[0]);
    assert_int_equal(map.capacity, capacity);
    map_put(&map, 12, &values[0]);
    assert_int_equal(map.capacity, 32);
    map_fini(&map);
}

static void reserved_room_is_enough(void **state) {
    for (size_t count = 0; count < 200; count++) {
        map map = {0};
        for (uint64_t key = 0; key < 7; key++) map_put(&map, key << 50, &values[0]);
        assert_int_equal(map_reserve(&map, count), MR_OK);
        size_t capacity = map.capacity;
        for (uint64_t key = 0; key < count; key++) map_put(&map, key + 1, &values[1]);
        assert_int_equal(map.capacity, capacity);
        for (uint64_t key = 0; key < 7; key++) assert_ptr_equal(map_get(&map, key << 50), &values[0]);
        map_fini(&map);
    }
}

static void a_reserve_that_fails_changes_nothing(void **state) {
    map map = {0};
    alloc_fail_at(1);
    assert_int_equal(map_reserve(&map, 1), MR_NOMEM);
    for (uint64_t key = 0; key < 10; key++) map_put(&map, key, &values[key % 8]);
    struct map before = map;
    alloc_fail_at(1);
    assert_int_equal(map_reserve(&map, 100), MR_NOMEM);
    assert_int_equal(map_reserve(&map, SIZE_MAX), MR_NOMEM);
    assert_int_equal(map_reserve(&map, SIZE_MAX / sizeof(map_entry)), MR_NOMEM);
    alloc_fail_at(0);
    assert_memory_equal(&map, &before, sizeof map);
    for (uint64_t key = 0; key < 10; key++) assert_ptr_equal(map_get(&map, key), &values[key % 8]);
    map_fini(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_has_nothing), cmocka_unit_test(put_gives_back_what_was_there),
        cmocka_unit_test(it_agrees_with_an_array),  cmocka_unit_test(replacing_in_a_full_map_takes_no_memory),
        cmocka_unit_test(reserved_room_is_enough),  cmocka_unit_test(a_reserve_that_fails_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
