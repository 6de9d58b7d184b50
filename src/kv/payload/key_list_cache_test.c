/* key_list_cache_test.c — lists are found by hash and length, bounded, and kept while they are held. */
#include "kv/payload/key_list_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

enum { COUNT = 100 };

static void fill(uint64_t *keys, uint64_t seed) {
    for (uint64_t i = 0; i < COUNT; i++) keys[i] = i * 1000 + seed;
}

static void cached_lists_are_found(void **state) {
    key_list_cache cache;
    uint64_t keys[COUNT], other[COUNT];
    key_list_cache_init(&cache, 1 << 20);
    fill(keys, 1);
    fill(other, 2);
    key_list_cache_name name = key_list_cache_name_of(keys, COUNT);
    assert_null(key_list_cache_find(&cache, name, COUNT));
    key_list_cache_item *item = key_list_cache_keep(&cache, name, keys, COUNT);
    assert_memory_equal(item->keys, keys, sizeof keys);
    assert_ptr_equal(key_list_cache_find(&cache, name, COUNT), item);
    assert_ptr_equal(key_list_cache_keep(&cache, name, keys, COUNT), item);
    assert_null(key_list_cache_find(&cache, name, COUNT - 1));
    assert_null(key_list_cache_find(&cache, (key_list_cache_name){name.low, name.high ^ 1}, COUNT));
    key_list_cache_name second = key_list_cache_name_of(other, COUNT);
    assert_true(second.low != name.low && second.high != name.high);
    assert_non_null(key_list_cache_keep(&cache, second, other, COUNT));

    /* Two hashes with equal lower halves: the later list replaces the earlier one, unless that is held. */
    key_list_cache_name half = {name.low, ~name.high};
    key_list_cache_hold(item);
    assert_null(key_list_cache_keep(&cache, half, other, COUNT));
    key_list_cache_release(item);
    assert_non_null(key_list_cache_keep(&cache, half, other, COUNT));
    assert_null(key_list_cache_find(&cache, name, COUNT));
    key_list_cache_fini(&cache);
}

static void the_oldest_go(void **state) {
    key_list_cache cache;
    uint64_t keys[COUNT];
    key_list_cache_init(&cache, 10000);
    fill(keys, 0);
    key_list_cache_item *held = key_list_cache_keep(&cache, key_list_cache_name_of(keys, COUNT), keys, COUNT);
    key_list_cache_hold(held);
    for (uint64_t i = 1; i < 50; i++) {
        fill(keys, i);
        assert_non_null(key_list_cache_keep(&cache, key_list_cache_name_of(keys, COUNT), keys, COUNT));
        assert_true(cache.bytes <= cache.bytes_max);
        assert_non_null(key_list_cache_find(&cache, key_list_cache_name_of(keys, COUNT), COUNT));
    }
    fill(keys, 1);
    assert_null(key_list_cache_find(&cache, key_list_cache_name_of(keys, COUNT), COUNT));
    fill(keys, 0);
    assert_ptr_equal(key_list_cache_find(&cache, key_list_cache_name_of(keys, COUNT), COUNT), held);
    key_list_cache_release(held);
    key_list_cache_fini(&cache);
    key_list_cache_init(&cache, 100);
    /* the list is too long */
    assert_null(key_list_cache_keep(&cache, key_list_cache_name_of(keys, COUNT), keys, COUNT));
    key_list_cache_fini(&cache);
}

static void an_entry_keeps_its_list_and_its_count(void **state) {
    key_list_cache cache;
    uint64_t keys[COUNT];
    key_list_cache_init(&cache, 10000);
    fill(keys, 0);
    key_list_cache_item *item = key_list_cache_keep(&cache, key_list_cache_name_of(keys, COUNT), keys, COUNT);
    size_t before = cache.bytes;
    uint32_t *note = key_list_cache_note(&cache, item, COUNT * sizeof *note);
    assert_int_equal(cache.bytes, before + COUNT * sizeof *note);
    assert_true(note[0] == 0 && note[COUNT - 1] == 0);
    note[COUNT - 1] = 5;
    assert_ptr_equal(key_list_cache_note(&cache, item, COUNT * sizeof *note), note);
    assert_ptr_equal(key_list_cache_find(&cache, key_list_cache_name_of(keys, COUNT), COUNT)->note, note);
    for (uint64_t i = 1; i < 50; i++) {
        fill(keys, i);
        item = key_list_cache_keep(&cache, key_list_cache_name_of(keys, COUNT), keys, COUNT);
        assert_non_null(key_list_cache_note(&cache, item, COUNT * sizeof *note));
        assert_true(cache.bytes <= cache.bytes_max);
        assert_ptr_equal(key_list_cache_find(&cache, key_list_cache_name_of(keys, COUNT), COUNT), item);
    }
    fill(keys, 51);
    item = key_list_cache_keep(&cache, key_list_cache_name_of(keys, COUNT), keys, COUNT);
    assert_null(key_list_cache_note(&cache, item, 10000)); /* the note is too large */
    alloc_fail_at(1);
    assert_null(key_list_cache_note(&cache, item, 8));
    alloc_fail_at(0);
    assert_non_null(key_list_cache_note(&cache, item, 8));
    key_list_cache_fini(&cache);
}

static void no_memory(void **state) {
    uint64_t keys[COUNT];
    fill(keys, 0);
    for (size_t nth = 1; nth <= 2; nth++) {
        key_list_cache cache;
        key_list_cache_init(&cache, 10000);
        alloc_fail_at(nth);
        assert_null(key_list_cache_keep(&cache, key_list_cache_name_of(keys, COUNT), keys, COUNT));
        alloc_fail_at(0);
        assert_non_null(key_list_cache_keep(&cache, key_list_cache_name_of(keys, COUNT), keys, COUNT));
        key_list_cache_fini(&cache);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cached_lists_are_found),
        cmocka_unit_test(the_oldest_go),
        cmocka_unit_test(an_entry_keeps_its_list_and_its_count),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
