/* atlas_test.c — charts that several follow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ps/atlas.h"

/* The chart of this number, whole. */
static span whole(uint64_t number, uint8_t bytes[256]) {
    chart chart = {.number = number, .generation = 7, .birth = 1, .copies = 1, .slot_count = 1};
    chart.slots = xcalloc(1, sizeof *chart.slots);
    chart.slots[0] = (chart_slot){.epoch = number, .count = 1, .chain = {{1, 1, 1}}};
    chart_put_server(&chart, 1, 1, "s1");
    writer writer = writer_of(bytes, 256);
    chart_encode(&chart, 0, &writer);
    assert_false(writer.failed);
    chart_fini(&chart);
    return span_of(bytes, writer_size(&writer));
}

static void follow(atlas *atlas, atlas_page **page, uint64_t number, mr_status expected) {
    uint8_t bytes[256];
    assert_int_equal(atlas_follow(atlas, page, whole(number, bytes)), expected);
}

static void a_chart_that_many_know_is_there_once(void **state) {
    atlas *atlas = atlas_create();
    atlas_page *pages[8];
    for (size_t i = 0; i < 8; i++) pages[i] = atlas_open(atlas);
    for (uint64_t number = 3; number < 6; number++) {
        for (size_t i = 0; i < 8; i++) {
            follow(atlas, &pages[i], number, MR_OK);
            assert_int_equal(atlas_chart(pages[i])->number, number);
        }
        assert_int_equal(atlas_count(atlas), 1);
        assert_ptr_equal(pages[0], pages[7]);
    }
    for (size_t i = 0; i < 8; i++) atlas_close(atlas, pages[i]);
    assert_int_equal(atlas_count(atlas), 0);
    atlas_unref(atlas);
}

/* One goes on: the others keep what they know. */
static void nobody_goes_on_with_another(void **state) {
    atlas *atlas = atlas_create();
    atlas_page *one = atlas_open(atlas), *other = atlas_open(atlas);
    follow(atlas, &one, 3, MR_OK);
    follow(atlas, &other, 3, MR_OK);
    follow(atlas, &one, 4, MR_OK);
    assert_int_equal(atlas_chart(one)->number, 4);
    assert_int_equal(atlas_chart(other)->number, 3);
    assert_int_equal(atlas_chart(other)->slots[0].epoch, 3);
    follow(atlas, &one, 3, MR_STALE); /* it is here, and older */
    assert_int_equal(atlas_chart(one)->number, 4);
    atlas_close(atlas, one);
    follow(atlas, &other, 5, MR_OK);
    atlas_close(atlas, other);
    atlas_unref(atlas);
}

static void bytes_that_are_no_chart_change_nothing(void **state) {
    atlas *atlas = atlas_create();
    atlas_page *one = atlas_open(atlas), *other = atlas_open(atlas);
    follow(atlas, &one, 3, MR_OK);
    follow(atlas, &other, 3, MR_OK);
    uint8_t bytes[256];
    size_t whole_size = whole(9, bytes).size;
    for (size_t size = 0; size < whole_size; size++) {
        assert_int_equal(atlas_follow(atlas, &one, span_of(bytes, size)), MR_CORRUPT);
        assert_int_equal(atlas_chart(one)->number, 3);
        assert_int_equal(atlas_count(atlas), 1);
    }
    atlas_close(atlas, one);
    atlas_close(atlas, other);
    atlas_unref(atlas);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chart_that_many_know_is_there_once),
        cmocka_unit_test(nobody_goes_on_with_another),
        cmocka_unit_test(bytes_that_are_no_chart_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
