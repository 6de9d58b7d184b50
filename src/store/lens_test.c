/* lens_test.c — who writes into a view changes nobody else's bytes, and not his own next view. */
#include "store/lens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void try_size(arena *arena, lens *map, uint64_t size) {
    uint64_t offset = ARENA_EXTENTS_OFFSET + 4 * map->page - ARENA_EXTENTS_OFFSET % map->page;
    uint8_t *shared = arena_at(arena, offset), *view = lens_at(map, offset);
    memset(shared, 1, size);
    assert_int_equal(view[0], 1);
    lens_drop(map, offset, size); /* only read */
    shared[0] = 2;                /* another object came here meanwhile */
    assert_int_equal(view[0], 2);
    view[0] = 99;
    view[size - 1] = 99;
    assert_int_equal(shared[0], 2);
    assert_int_equal(shared[size - 1], 1);
    shared[1] = 3;
    assert_int_equal(view[1], 1); /* a copy */
    lens_drop(map, offset, size);
    assert_int_equal(view[0], 2);
    assert_int_equal(view[1], 3);
    assert_int_equal(view[size - 1], 1);
}

static void writes_stay_private_and_go_with_the_view(void **state) {
    arena arena;
    assert_int_equal(arena_create(ARENA_SIZE_MIN + (32u << 20), &arena), MR_OK);
    assert_int_equal(arena_back(&arena, 0, arena.size), MR_OK);
    lens map;
    assert_int_equal(lens_open(&arena, &map), MR_OK);
    for (int look = 0; look < 3; look++) {
        try_size(&arena, &map, 5000);
        try_size(&arena, &map, 1 << 20);
        try_size(&arena, &map, LENS_LOOK_BYTES);
        try_size(&arena, &map, LENS_LOOK_BYTES + 1);
        if (look == 0) map.can_scan = false; /* and the same on an older Linux */
        if (look == 0 || map.pagemap_fd < 0) continue;
        close(map.pagemap_fd);
        map.pagemap_fd = -1; /* and where /proc does not tell */
    }
    lens_close(&map);
    arena_unmap(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(writes_stay_private_and_go_with_the_view)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
