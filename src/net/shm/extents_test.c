/* extents_test.c — no byte twice, none lost, low and warm first, and how full it gets before it refuses. */
#include "net/shm/extents.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tests/support/child.h"

#define FROM UINT64_C(4096 * 385)
#define MB   (UINT64_C(1) << 20)

static extent take(extents *extents, uint64_t size) {
    extent got = {0};
    assert_int_equal(extents_alloc(extents, size, &got), MR_OK);
    assert_int_equal(got.offset % EXTENT_UNIT, 0);
    assert_true(got.size >= size && got.size < size + EXTENT_UNIT);
    return got;
}

static void the_whole_arena_is_one_extent(void **state) {
    extents *extents = extents_create(FROM, FROM + 11 * EXTENT_UNIT);
    extent all = take(extents, 11 * EXTENT_UNIT), more;
    assert_int_equal(all.offset, FROM);
    assert_int_equal(extents_alloc(extents, 1, &more), MR_NOMEM);
    extents_free(extents, all);
    assert_int_equal(extents_alloc(extents, 11 * EXTENT_UNIT + 1, &more), MR_NOMEM);
    assert_int_equal(extents_alloc(extents, UINT64_MAX, &more), MR_NOMEM);
    assert_int_equal(extents_alloc(extents, 0, &more), MR_INVALID);
    all = take(extents, 10 * EXTENT_UNIT + 1);
    assert_int_equal(all.size, 11 * EXTENT_UNIT);
    extents_free(extents, all);
    extents_check(extents);
    assert_int_equal(extents_stats_now(extents).used, 0);
    extents_destroy(extents);
}

static void low_offsets_come_first(void **state) {
    extents *extents = extents_create(FROM, FROM + 64 * MB);
    extent a = take(extents, MB), b = take(extents, MB), c = take(extents, MB);
    assert_int_equal(a.offset, FROM);
    assert_int_equal(c.offset, FROM + 2 * MB);
    assert_int_equal(extents_stats_now(extents).top, FROM + 3 * MB);
    extents_free(extents, a);
    extent small = take(extents, EXTENT_UNIT);
    assert_int_equal(small.offset, FROM);
    extents_free(extents, c); /* the top is not taken again while there is room below */
    extent half = take(extents, MB / 2);
    assert_int_equal(half.offset, FROM + EXTENT_UNIT);
    assert_int_equal(extents_stats_now(extents).top, FROM + 2 * MB);
    extents_free(extents, b);
    extents_free(extents, small);
    extents_free(extents, half);
    assert_int_equal(extents_stats_now(extents).top, FROM);
    assert_int_equal(extents_stats_now(extents).largest, 64 * MB);
    assert_int_equal(extents_stats_now(extents).runs, 1);
    extents_destroy(extents);
}

static void what_was_given_back_last_is_taken_first(void **state) {
    extents *extents = extents_create(FROM, FROM + 64 * MB);
    extent all[6];
    for (size_t i = 0; i < 6; i++) all[i] = take(extents, 64 * 1024);
    extents_free(extents, all[0]);
    extents_free(extents, all[3]);
    assert_int_equal(take(extents, 64 * 1024).offset, all[3].offset); /* the younger one, though it is higher */
    assert_int_equal(take(extents, 64 * 1024).offset, all[0].offset);
    extents_free(extents, all[2]);
    assert_int_equal(take(extents, 32 * 1024).offset, all[2].offset);        /* another size: first fit */
    assert_int_equal(take(extents, 64 * 1024).offset, FROM + 6 * 64 * 1024); /* its rest is too short */
    extents_free(extents, all[4]);
    extents_free(extents, all[5]);
    extents_check(extents);
    extents_destroy(extents);
}

static void a_place_that_is_known_is_taken_again(void **state) {
    extents *extents = extents_create(FROM, FROM + 64 * MB);
    extent all[12];
    for (size_t i = 0; i < 12; i++) all[i] = take(extents, MB);
    assert_int_equal(extents_take(extents, all[3]), MR_NOMEM); /* in use */
    extents_free(extents, all[3]);
    extents_free(extents, all[4]);
    assert_int_equal(extents_take(extents, (extent){all[3].offset, 3 * MB}), MR_NOMEM); /* the last third is */
    assert_int_equal(extents_take(extents, (extent){all[3].offset - EXTENT_UNIT, MB}), MR_NOMEM);
    assert_int_equal(extents_take(extents, all[3]), MR_OK); /* though the other one was given back later */
    assert_int_equal(extents_take(extents, all[4]), MR_OK);
    extents_check(extents);
    assert_int_equal(extents_stats_now(extents).used, 12 * MB);
    for (size_t i = 1; i < 12; i++) extents_free(extents, all[i]);
    assert_int_equal(extents_stats_now(extents).top, FROM + MB);
    assert_int_equal(extents_take(extents, all[10]), MR_NOMEM); /* too far above what is in use */
    assert_int_equal(extents_take(extents, all[EXTENT_RAISE_MAX]), MR_OK);
    assert_int_equal(extents_take(extents, all[10]), MR_OK);   /* it is not any more */
    assert_int_equal(take(extents, MB).offset, all[9].offset); /* the last one that was given back below the top */
    extents_check(extents);
    extents_destroy(extents);
}

/* `owners` has one byte for each unit of the arena. */
static void mark(uint8_t *owners, extent extent, uint8_t from, uint8_t to) {
    for (uint64_t at = (extent.offset - FROM) / EXTENT_UNIT; at < (extent.offset + extent.size - FROM) / EXTENT_UNIT;
         at++) {
        assert_int_equal(owners[at], from);
        owners[at] = to;
    }
}

/* 4 KB to 1 MB, small ones as frequent as large ones. */
static uint64_t random_size(rng *rng) { return rng_below(rng, (uint64_t)EXTENT_UNIT << rng_below(rng, 9)) + 1; }

/* A life of random sizes and random deaths, filled until it refuses: again and again every byte has one owner, and the
 * refusals come late. */
static void a_random_life_loses_nothing(void **state) {
    enum { ARENA = 64 << 20, HELD_MAX = 16384 };
    uint8_t *owners = calloc(ARENA / EXTENT_UNIT, 1);
    extent *held = calloc(HELD_MAX, sizeof *held);
    double worst = 1;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        rng rng;
        rng_init(&rng, seed);
        extents *extents = extents_create(FROM, FROM + ARENA);
        size_t count = 0;
        for (int round = 0; round < 40; round++) {
            extent got;
            while (extents_alloc(extents, random_size(&rng), &got) == MR_OK) {
                mark(owners, got, 0, 1);
                assert_true(count < HELD_MAX);
                held[count++] = got;
            }
            extents_stats full = extents_stats_now(extents);
            double share = (double)full.used / (double)full.size;
            if (share < worst) worst = share;
            for (size_t deaths = count / 2; deaths > 0; deaths--) {
                size_t victim = (size_t)rng_below(&rng, count);
                mark(owners, held[victim], 1, 0);
                extents_free(extents, held[victim]);
                held[victim] = held[--count];
            }
            extents_check(extents);
        }
        while (count > 0) {
            mark(owners, held[--count], 1, 0);
            extents_free(extents, held[count]);
        }
        extents_check(extents);
        extents_stats empty = extents_stats_now(extents);
        assert_int_equal(empty.used, 0);
        assert_int_equal(empty.count, 0);
        assert_int_equal(empty.runs, 1);
        assert_int_equal(empty.top, FROM);
        extents_destroy(extents);
    }
    print_message("the earliest refusal came with %.1f %% in use\n", worst * 100);
    assert_true(worst > 0.6);
    free(held);
    free(owners);
}

static int frees_what_nobody_has(void *argument) {
    if (freopen("/dev/null", "w", stderr) == NULL) return 2; /* the assertion's message is expected */
    extents *extents = extents_create(FROM, FROM + MB);
    extent got;
    if (extents_alloc(extents, 2 * EXTENT_UNIT, &got) != MR_OK) return 1;
    if (*(const int *)argument == 0) got.offset += EXTENT_UNIT;
    if (*(const int *)argument == 1) got.size -= EXTENT_UNIT;
    if (*(const int *)argument == 2) extents_free(extents, got);
    extents_free(extents, got);
    return 0;
}

static void an_unknown_extent_is_a_bug(void **state) {
    for (int kind = 0; kind < 3; kind++) assert_int_equal(child_run(frees_what_nobody_has, &kind, 10000), -SIGABRT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_whole_arena_is_one_extent),
        cmocka_unit_test(low_offsets_come_first),
        cmocka_unit_test(what_was_given_back_last_is_taken_first),
        cmocka_unit_test(a_place_that_is_known_is_taken_again),
        cmocka_unit_test(a_random_life_loses_nothing),
        cmocka_unit_test(an_unknown_extent_is_a_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
