/* blocks_test.c — every block lies in a stretch and overlaps no other; what is free can be had again. */
#include "store/blocks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

enum { KB = 1024, MB = 1024 * 1024 };

static void a_block_is_cut_and_joined_again(void **state) {
    blocks blocks;
    blocks_init(&blocks, 64);
    stretch *stretch = blocks_add(&blocks, (extent){MB, MB});
    assert_true(stretch_is_empty(stretch));
    block *a = blocks_alloc(&blocks, 1), *b = blocks_alloc(&blocks, 65), *c = blocks_alloc(&blocks, 4096);
    assert_int_equal(a->extent.size, 64);
    assert_int_equal(b->extent.size, 128);
    assert_int_equal(c->extent.size, 4096);
    assert_int_equal(blocks.used, 64 + 128 + 4096);
    blocks_check(&blocks);
    assert_ptr_equal(blocks_free(&blocks, b), stretch);
    blocks_free(&blocks, a);
    assert_false(stretch_is_empty(stretch));
    blocks_free(&blocks, c);
    assert_true(stretch_is_empty(stretch));
    blocks_check(&blocks);
    block *all = blocks_alloc(&blocks, MB); /* one run again, and a whole stretch is a block */
    assert_non_null(all);
    assert_int_equal(all->extent.offset, MB);
    assert_null(blocks_alloc(&blocks, 1));
    assert_null(blocks_alloc(&blocks, UINT64_MAX));
    blocks_free(&blocks, all);
    extent extent = blocks_remove(&blocks, stretch);
    assert_int_equal(extent.size, MB);
    assert_null(blocks_alloc(&blocks, 1));
    blocks_check(&blocks);
    blocks_fini(&blocks);
}

static void a_closed_stretch_takes_nothing_new(void **state) {
    blocks blocks;
    blocks_init(&blocks, 4096);
    stretch *first = blocks_add(&blocks, (extent){MB, MB});
    block *a = blocks_alloc(&blocks, 4096), *b = blocks_alloc(&blocks, 4096);
    blocks_close(&blocks, first);
    blocks_check(&blocks);
    assert_null(blocks_alloc(&blocks, 4096));
    blocks_free(&blocks, a);
    assert_null(blocks_alloc(&blocks, 4096));
    stretch *second = blocks_add(&blocks, (extent){4 * MB, MB});
    block *c = blocks_alloc(&blocks, 4096);
    assert_ptr_equal(c->stretch, second);
    assert_ptr_equal(blocks_free(&blocks, b), first);
    assert_true(stretch_is_empty(first));
    blocks_check(&blocks);
    blocks_remove(&blocks, first);
    blocks_check(&blocks);
    blocks_fini(&blocks);
}

enum { LIVE_MAX = 4096, STRETCH_BYTES = 8 * MB };

static uint64_t random_size(rng *rng, uint64_t least, uint64_t most) {
    return least + rng_below(rng, most - least + 1);
}

/* Fills until the first refusal, with half of what is there replaced again and again on the way: how full is it? */
static double full_at_refusal(uint64_t seed, uint64_t unit, uint64_t least, uint64_t most) {
    static block *live[LIVE_MAX];
    size_t count = 0;
    blocks blocks;
    rng rng;
    rng_init(&rng, seed);
    blocks_init(&blocks, unit);
    blocks_add(&blocks, (extent){STRETCH_BYTES, STRETCH_BYTES});
    uint8_t *taken = calloc(1, STRETCH_BYTES / 64);
    double full = 0;
    for (unsigned step = 0; full == 0; step++) {
        bool add = count == 0 ||
                   (count < LIVE_MAX && rng_chance(&rng, step < 20000 && blocks.used > STRETCH_BYTES / 2 ? 0.4 : 0.6));
        if (add) {
            uint64_t size = random_size(&rng, least, most);
            block *block = blocks_alloc(&blocks, size);
            if (block == NULL) {
                full = (double)blocks.used / STRETCH_BYTES;
                break;
            }
            assert_true(block->extent.size >= size && block->extent.size < size + unit);
            size_t from = (block->extent.offset - STRETCH_BYTES) / 64, units = block->extent.size / 64;
            for (size_t i = 0; i < units; i++) {
                assert_int_equal(taken[from + i], 0);
                taken[from + i] = 1;
            }
            live[count++] = block;
        } else {
            size_t victim = rng_below(&rng, count);
            memset(taken + (live[victim]->extent.offset - STRETCH_BYTES) / 64, 0, live[victim]->extent.size / 64);
            blocks_free(&blocks, live[victim]);
            live[victim] = live[--count];
        }
        if (step % 500 == 0) blocks_check(&blocks);
    }
    blocks_check(&blocks);
    while (count > 0) blocks_free(&blocks, live[--count]);
    assert_non_null(blocks_alloc(&blocks, STRETCH_BYTES));
    blocks_check(&blocks);
    blocks_fini(&blocks);
    free(taken);
    return full;
}

static void fragmentation_is_bounded(void **state) {
    double least = 1, least_large = 1;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        double small = full_at_refusal(seed, 64, 512, 32 * KB), large = full_at_refusal(seed, 4096, 32 * KB, MB);
        if (small < least) least = small;
        if (large < least_large) least_large = large;
        assert_true(small > 0.7);
        assert_true(large > 0.5); /* a block may be an eighth of the whole */
    }
    print_message("the first refusal comes with %.0f %% in use or more, %.0f %% where blocks are large\n", least * 100,
                  least_large * 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_cut_and_joined_again),
        cmocka_unit_test(a_closed_stretch_takes_nothing_new),
        cmocka_unit_test(fragmentation_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
