/* extent_allocator_test.c — no byte allocated twice or lost, low and recently used extents first, and utilization at
 * the first refusal. */
#include "net/shm/extent_allocator.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tests/support/test_child.h"

#define FROM UINT64_C(4096 * 385)
#define MB   (UINT64_C(1) << 20)

static extent take(extent_allocator *allocator, uint64_t size) {
    extent got = {0};
    assert_int_equal(extent_allocator_alloc(allocator, size, &got), MR_OK);
    assert_int_equal(got.offset % EXTENT_UNIT, 0);
    assert_true(got.size >= size && got.size < size + EXTENT_UNIT);
    return got;
}

static void the_whole_arena_is_one_extent(void **state) {
    extent_allocator *allocator = extent_allocator_create(FROM, FROM + 11 * EXTENT_UNIT);
    extent all = take(allocator, 11 * EXTENT_UNIT), more;
    assert_int_equal(all.offset, FROM);
    assert_int_equal(extent_allocator_alloc(allocator, 1, &more), MR_NOMEM);
    extent_allocator_free(allocator, all);
    assert_int_equal(extent_allocator_alloc(allocator, 11 * EXTENT_UNIT + 1, &more), MR_NOMEM);
    assert_int_equal(extent_allocator_alloc(allocator, UINT64_MAX, &more), MR_NOMEM);
    assert_int_equal(extent_allocator_alloc(allocator, 0, &more), MR_INVALID);
    all = take(allocator, 10 * EXTENT_UNIT + 1);
    assert_int_equal(all.size, 11 * EXTENT_UNIT);
    extent_allocator_free(allocator, all);
    extent_allocator_check(allocator);
    assert_int_equal(extent_allocator_stats_now(allocator).used, 0);
    extent_allocator_destroy(allocator);
}

static void low_offsets_come_first(void **state) {
    extent_allocator *allocator = extent_allocator_create(FROM, FROM + 64 * MB);
    extent a = take(allocator, MB), b = take(allocator, MB), c = take(allocator, MB);
    assert_int_equal(a.offset, FROM);
    assert_int_equal(c.offset, FROM + 2 * MB);
    assert_int_equal(extent_allocator_stats_now(allocator).top, FROM + 3 * MB);
    extent_allocator_free(allocator, a);
    extent small = take(allocator, EXTENT_UNIT);
    assert_int_equal(small.offset, FROM);
    extent_allocator_free(allocator, c); /* the top is not reused while lower room is free */
    extent half = take(allocator, MB / 2);
    assert_int_equal(half.offset, FROM + EXTENT_UNIT);
    assert_int_equal(extent_allocator_stats_now(allocator).top, FROM + 2 * MB);
    extent_allocator_free(allocator, b);
    extent_allocator_free(allocator, small);
    extent_allocator_free(allocator, half);
    assert_int_equal(extent_allocator_stats_now(allocator).top, FROM);
    assert_int_equal(extent_allocator_stats_now(allocator).largest, 64 * MB);
    assert_int_equal(extent_allocator_stats_now(allocator).runs, 1);
    extent_allocator_destroy(allocator);
}

static void the_last_freed_extent_is_allocated_first(void **state) {
    extent_allocator *allocator = extent_allocator_create(FROM, FROM + 64 * MB);
    extent all[6];
    for (size_t i = 0; i < 6; i++) all[i] = take(allocator, 64 * 1024);
    extent_allocator_free(allocator, all[0]);
    extent_allocator_free(allocator, all[3]);
    assert_int_equal(take(allocator, 64 * 1024).offset, all[3].offset); /* freed later, though it is higher */
    assert_int_equal(take(allocator, 64 * 1024).offset, all[0].offset);
    extent_allocator_free(allocator, all[2]);
    assert_int_equal(take(allocator, 32 * 1024).offset, all[2].offset);        /* another size: first fit */
    assert_int_equal(take(allocator, 64 * 1024).offset, FROM + 6 * 64 * 1024); /* the rest of the run is too short */
    extent_allocator_free(allocator, all[4]);
    extent_allocator_free(allocator, all[5]);
    extent_allocator_check(allocator);
    extent_allocator_destroy(allocator);
}

static void a_place_that_is_known_is_taken_again(void **state) {
    extent_allocator *allocator = extent_allocator_create(FROM, FROM + 64 * MB);
    extent all[12];
    for (size_t i = 0; i < 12; i++) all[i] = take(allocator, MB);
    assert_int_equal(extent_allocator_take(allocator, all[3]), MR_NOMEM); /* in use */
    extent_allocator_free(allocator, all[3]);
    extent_allocator_free(allocator, all[4]);
    /* The last third is in use. */
    assert_int_equal(extent_allocator_take(allocator, (extent){all[3].offset, 3 * MB}), MR_NOMEM);
    assert_int_equal(extent_allocator_take(allocator, (extent){all[3].offset - EXTENT_UNIT, MB}), MR_NOMEM);
    assert_int_equal(extent_allocator_take(allocator, all[3]), MR_OK); /* although the other extent was freed later */
    assert_int_equal(extent_allocator_take(allocator, all[4]), MR_OK);
    extent_allocator_check(allocator);
    assert_int_equal(extent_allocator_stats_now(allocator).used, 12 * MB);
    for (size_t i = 1; i < 12; i++) extent_allocator_free(allocator, all[i]);
    assert_int_equal(extent_allocator_stats_now(allocator).top, FROM + MB);
    assert_int_equal(extent_allocator_take(allocator, all[10]), MR_NOMEM); /* too far above the extents in use */
    assert_int_equal(extent_allocator_take(allocator, all[EXTENT_RAISE_MAX]), MR_OK);
    assert_int_equal(extent_allocator_take(allocator, all[10]), MR_OK); /* close enough now */
    assert_int_equal(take(allocator, MB).offset, all[9].offset);        /* freed last below the top */
    extent_allocator_check(allocator);
    extent_allocator_destroy(allocator);
}

/* `owners` has one byte for each unit of the arena. */
static void mark(uint8_t *owners, extent extent, uint8_t from, uint8_t to) {
    for (uint64_t at = (extent.offset - FROM) / EXTENT_UNIT; at < (extent.offset + extent.size - FROM) / EXTENT_UNIT;
         at++) {
        assert_int_equal(owners[at], from);
        owners[at] = to;
    }
}

/* 4 KB to 1 MB, in equal shares per power of two. */
static uint64_t random_size(rng *rng) { return rng_below(rng, (uint64_t)EXTENT_UNIT << rng_below(rng, 9)) + 1; }

/* Random allocations and frees, filled until the first refusal: every byte always has one owner, and refusals come
 * late. */
static void a_random_life_loses_nothing(void **state) {
    enum { ARENA = 64 << 20, HELD_MAX = 16384 };
    uint8_t *owners = calloc(ARENA / EXTENT_UNIT, 1);
    extent *held = calloc(HELD_MAX, sizeof *held);
    double worst = 1;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        rng rng;
        rng_init(&rng, seed);
        extent_allocator *allocator = extent_allocator_create(FROM, FROM + ARENA);
        size_t count = 0;
        for (int round = 0; round < 40; round++) {
            extent got;
            while (extent_allocator_alloc(allocator, random_size(&rng), &got) == MR_OK) {
                mark(owners, got, 0, 1);
                assert_true(count < HELD_MAX);
                held[count++] = got;
            }
            extent_allocator_stats full = extent_allocator_stats_now(allocator);
            double share = (double)full.used / (double)full.size;
            if (share < worst) worst = share;
            for (size_t deaths = count / 2; deaths > 0; deaths--) {
                size_t victim = (size_t)rng_below(&rng, count);
                mark(owners, held[victim], 1, 0);
                extent_allocator_free(allocator, held[victim]);
                held[victim] = held[--count];
            }
            extent_allocator_check(allocator);
        }
        while (count > 0) {
            mark(owners, held[--count], 1, 0);
            extent_allocator_free(allocator, held[count]);
        }
        extent_allocator_check(allocator);
        extent_allocator_stats empty = extent_allocator_stats_now(allocator);
        assert_int_equal(empty.used, 0);
        assert_int_equal(empty.count, 0);
        assert_int_equal(empty.runs, 1);
        assert_int_equal(empty.top, FROM);
        extent_allocator_destroy(allocator);
    }
    print_message("the earliest refusal came with %.1f %% in use\n", worst * 100);
    assert_true(worst > 0.6);
    free(held);
    free(owners);
}

static int frees_what_nobody_has(void *argument) {
    if (freopen("/dev/null", "w", stderr) == NULL) return 2; /* the assertion's message is expected */
    extent_allocator *allocator = extent_allocator_create(FROM, FROM + MB);
    extent got;
    if (extent_allocator_alloc(allocator, 2 * EXTENT_UNIT, &got) != MR_OK) return 1;
    if (*(const int *)argument == 0) got.offset += EXTENT_UNIT;
    if (*(const int *)argument == 1) got.size -= EXTENT_UNIT;
    if (*(const int *)argument == 2) extent_allocator_free(allocator, got);
    extent_allocator_free(allocator, got);
    return 0;
}

static void an_unknown_extent_is_a_bug(void **state) {
    for (int kind = 0; kind < 3; kind++)
        assert_int_equal(test_child_run(frees_what_nobody_has, &kind, 10000), -SIGABRT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_whole_arena_is_one_extent),
        cmocka_unit_test(low_offsets_come_first),
        cmocka_unit_test(the_last_freed_extent_is_allocated_first),
        cmocka_unit_test(a_place_that_is_known_is_taken_again),
        cmocka_unit_test(a_random_life_loses_nothing),
        cmocka_unit_test(an_unknown_extent_is_a_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
