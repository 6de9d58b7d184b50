/* private_mapping_test.c — writes into a view change neither the shared bytes nor the next view in the same process. */
#include "store/private_mapping.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"

static void try_size(arena *arena, private_mapping *map, uint64_t size) {
    uint64_t offset = ARENA_EXTENTS_OFFSET + 4 * map->page - ARENA_EXTENTS_OFFSET % map->page;
    uint8_t *shared = arena_at(arena, offset), *view = private_mapping_view(map, offset, size);
    memset(shared, 1, size);
    assert_int_equal(view[0], 1);
    private_mapping_drop(map, offset, size); /* only read */
    shared[0] = 2;                           /* another object is now at this offset */
    view = private_mapping_view(map, offset, size);
    assert_int_equal(view[0], 2);
    view[0] = 99;
    view[size - 1] = 99;
    assert_int_equal(shared[0], 2);
    assert_int_equal(shared[size - 1], 1);
    shared[1] = 3;
    assert_int_equal(view[1], 1); /* the private copy */
    private_mapping_drop(map, offset, size);
    view = private_mapping_view(map, offset, size);
    assert_int_equal(view[0], 2);
    assert_int_equal(view[1], 3);
    assert_int_equal(view[size - 1], 1);
    private_mapping_drop(map, offset, size);
}

static void writes_stay_private_and_go_with_the_view(void **state) {
    arena arena;
    assert_int_equal(arena_create(ARENA_SIZE_MIN + (32u << 20), &arena), MR_OK);
    assert_int_equal(arena_back(&arena, 0, arena.size), MR_OK);
    private_mapping map;
    assert_int_equal(private_mapping_open(&arena, &map), MR_OK);
    for (int look = 0; look < 3; look++) {
        try_size(&arena, &map, 5000);
        try_size(&arena, &map, 1 << 20);
        try_size(&arena, &map, PRIVATE_MAPPING_LOOK_BYTES);
        try_size(&arena, &map, PRIVATE_MAPPING_LOOK_BYTES + 1);
        if (look == 0) map.can_scan = false; /* the same as on an older kernel */
        if (look == 0 || map.pagemap_fd < 0) continue;
        close(map.pagemap_fd);
        map.pagemap_fd = -1; /* the same without /proc/self/pagemap */
    }
    private_mapping_close(&map);
    arena_unmap(&arena);
}

/* Ranges of one to four pages, some of them adjacent, are viewed, read or written, and dropped in any order; between
 * two views the shared bytes change. Each view shows the current shared bytes, however many checks are delayed. */
static void written_pages_are_never_shown_to_a_later_view(void **state) {
    enum { PLACES = 24, STEPS = 4000 };
    arena arena;
    private_mapping map;
    assert_int_equal(arena_create(ARENA_SIZE_MIN + (32u << 20), &arena), MR_OK);
    assert_int_equal(arena_back(&arena, 0, arena.size), MR_OK);
    assert_int_equal(private_mapping_open(&arena, &map), MR_OK);
    private_mapping_range places[PLACES];
    uint8_t seals[PLACES] = {0}, *views[PLACES] = {0};
    uint64_t end = ARENA_EXTENTS_OFFSET + map.page - ARENA_EXTENTS_OFFSET % map.page;
    uint32_t put_off = 0;
    rng rng;
    rng_init(&rng, 3);
    for (int i = 0; i < PLACES; i++) {
        places[i] = (private_mapping_range){end, map.page * (1 + rng_below(&rng, 4)) - rng_below(&rng, 100)};
        end += (places[i].size + map.page - 1) / map.page * map.page + map.page * rng_below(&rng, 2);
        memset(arena_at(&arena, places[i].offset), 0, places[i].size);
    }
    for (int step = 0; step < STEPS; step++) {
        uint32_t i = (uint32_t)rng_below(&rng, PLACES);
        uint64_t last = places[i].size - 1;
        if (views[i] == NULL) {
            seals[i]++;
            memset(arena_at(&arena, places[i].offset), seals[i], places[i].size);
            views[i] = private_mapping_view(&map, places[i].offset, places[i].size);
            assert_int_equal(views[i][0], seals[i]);
            assert_int_equal(views[i][last], seals[i]);
            assert_int_equal(views[i][last / 2], seals[i]);
            continue;
        }
        if (rng_chance(&rng, 0.5)) views[i][rng_below(&rng, last + 1)] ^= 0x80;
        private_mapping_drop(&map, places[i].offset, places[i].size);
        views[i] = NULL;
        if (map.later_count > put_off) put_off = map.later_count;
    }
    assert_int_equal(put_off, map.can_scan ? PRIVATE_MAPPING_LATER : 0);
    private_mapping_close(&map);
    arena_unmap(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_stay_private_and_go_with_the_view),
        cmocka_unit_test(written_pages_are_never_shown_to_a_later_view),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
