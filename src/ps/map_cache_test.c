/* map_cache_test.c — cluster maps with several followers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ps/map_cache.h"

/* A complete cluster map with this number. */
static span whole(uint64_t number, uint8_t bytes[256]) {
    cluster_map map = {.number = number, .generation = 7, .birth = 1, .copies = 1, .slot_count = 1};
    map.slots = xcalloc(1, sizeof *map.slots);
    map.slots[0] = (cluster_map_slot){.epoch = number, .count = 1, .chain = {{1, 1, 1}}};
    cluster_map_put_server(&map, 1, 1, "s1");
    writer writer = writer_of(bytes, 256);
    cluster_map_encode(&map, 0, &writer);
    assert_false(writer.failed);
    cluster_map_fini(&map);
    return span_of(bytes, writer_size(&writer));
}

static void follow(map_cache *cache, map_cache_page **page, uint64_t number, mr_status expected) {
    uint8_t bytes[256];
    assert_int_equal(map_cache_follow(cache, page, whole(number, bytes)), expected);
}

static void a_map_that_many_know_is_there_once(void **state) {
    map_cache *cache = map_cache_create();
    map_cache_page *pages[8];
    for (size_t i = 0; i < 8; i++) pages[i] = map_cache_open(cache);
    for (uint64_t number = 3; number < 6; number++) {
        for (size_t i = 0; i < 8; i++) {
            follow(cache, &pages[i], number, MR_OK);
            assert_int_equal(map_cache_map(pages[i])->number, number);
        }
        assert_int_equal(map_cache_count(cache), 1);
        assert_ptr_equal(pages[0], pages[7]);
    }
    for (size_t i = 0; i < 8; i++) map_cache_close(cache, pages[i]);
    assert_int_equal(map_cache_count(cache), 0);
    map_cache_unref(cache);
}

/* When one follower moves to a newer map, the others keep theirs. */
static void a_map_of_another_generation_is_refused(void **state) {
    map_cache *cache = map_cache_create();
    map_cache_page *one = map_cache_open(cache), *other = map_cache_open(cache);
    follow(cache, &one, 3, MR_OK);
    follow(cache, &other, 3, MR_OK);
    follow(cache, &one, 4, MR_OK);
    assert_int_equal(map_cache_map(one)->number, 4);
    assert_int_equal(map_cache_map(other)->number, 3);
    assert_int_equal(map_cache_map(other)->slots[0].epoch, 3);
    follow(cache, &one, 3, MR_STALE); /* the cache has this map, but it is older */
    assert_int_equal(map_cache_map(one)->number, 4);
    map_cache_close(cache, one);
    follow(cache, &other, 5, MR_OK);
    map_cache_close(cache, other);
    map_cache_unref(cache);
}

static void bytes_that_are_no_map_change_nothing(void **state) {
    map_cache *cache = map_cache_create();
    map_cache_page *one = map_cache_open(cache), *other = map_cache_open(cache);
    follow(cache, &one, 3, MR_OK);
    follow(cache, &other, 3, MR_OK);
    uint8_t bytes[256];
    size_t whole_size = whole(9, bytes).size;
    for (size_t size = 0; size < whole_size; size++) {
        assert_int_equal(map_cache_follow(cache, &one, span_of(bytes, size)), MR_CORRUPT);
        assert_int_equal(map_cache_map(one)->number, 3);
        assert_int_equal(map_cache_count(cache), 1);
    }
    map_cache_close(cache, one);
    map_cache_close(cache, other);
    map_cache_unref(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_that_many_know_is_there_once),
        cmocka_unit_test(a_map_of_another_generation_is_refused),
        cmocka_unit_test(bytes_that_are_no_map_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
