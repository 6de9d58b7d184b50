/* block_allocator_test.c — every block is in a stretch and overlaps no other block; freed memory is allocated again. */
#include "store/block_allocator.h"

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
    block_allocator allocator;
    block_allocator_init(&allocator, 64);
    stretch *stretch = block_allocator_add(&allocator, (extent){MB, MB});
    assert_true(stretch_is_empty(stretch));
    block *a = block_allocator_alloc(&allocator, 1), *b = block_allocator_alloc(&allocator, 65),
          *c = block_allocator_alloc(&allocator, 4096);
    assert_int_equal(a->extent.size, 64);
    assert_int_equal(b->extent.size, 128);
    assert_int_equal(c->extent.size, 4096);
    assert_int_equal(allocator.used, 64 + 128 + 4096);
    block_allocator_check(&allocator);
    assert_ptr_equal(block_allocator_free(&allocator, b), stretch);
    block_allocator_free(&allocator, a);
    assert_false(stretch_is_empty(stretch));
    block_allocator_free(&allocator, c);
    assert_true(stretch_is_empty(stretch));
    block_allocator_check(&allocator);
    block *all = block_allocator_alloc(&allocator, MB); /* the free runs were merged: a whole stretch is one block */
    assert_non_null(all);
    assert_int_equal(all->extent.offset, MB);
    assert_null(block_allocator_alloc(&allocator, 1));
    assert_null(block_allocator_alloc(&allocator, UINT64_MAX));
    block_allocator_free(&allocator, all);
    extent extent = block_allocator_remove(&allocator, stretch);
    assert_int_equal(extent.size, MB);
    assert_null(block_allocator_alloc(&allocator, 1));
    block_allocator_check(&allocator);
    block_allocator_fini(&allocator);
}

static void a_closed_stretch_takes_nothing_new(void **state) {
    block_allocator allocator;
    block_allocator_init(&allocator, 4096);
    stretch *first = block_allocator_add(&allocator, (extent){MB, MB});
    block *a = block_allocator_alloc(&allocator, 4096), *b = block_allocator_alloc(&allocator, 4096);
    block_allocator_close(&allocator, first);
    block_allocator_check(&allocator);
    assert_null(block_allocator_alloc(&allocator, 4096));
    block_allocator_free(&allocator, a);
    assert_null(block_allocator_alloc(&allocator, 4096));
    stretch *second = block_allocator_add(&allocator, (extent){4 * MB, MB});
    block *c = block_allocator_alloc(&allocator, 4096);
    assert_ptr_equal(c->stretch, second);
    assert_ptr_equal(block_allocator_free(&allocator, b), first);
    assert_true(stretch_is_empty(first));
    block_allocator_check(&allocator);
    block_allocator_remove(&allocator, first);
    block_allocator_check(&allocator);
    block_allocator_fini(&allocator);
}

enum { LIVE_MAX = 4096, STRETCH_BYTES = 8 * MB };

static uint64_t random_size(rng *rng, uint64_t least, uint64_t most) {
    return least + rng_below(rng, most - least + 1);
}

/* Allocates until the first failure, while half of the blocks are replaced repeatedly. Returns the share in use. */
static double full_at_refusal(uint64_t seed, uint64_t unit, uint64_t least, uint64_t most) {
    static block *live[LIVE_MAX];
    size_t count = 0;
    block_allocator allocator;
    rng rng;
    rng_init(&rng, seed);
    block_allocator_init(&allocator, unit);
    block_allocator_add(&allocator, (extent){STRETCH_BYTES, STRETCH_BYTES});
    uint8_t *taken = calloc(1, STRETCH_BYTES / 64);
    double full = 0;
    for (unsigned step = 0; full == 0; step++) {
        bool add = count == 0 || (count < LIVE_MAX &&
                                  rng_chance(&rng, step < 20000 && allocator.used > STRETCH_BYTES / 2 ? 0.4 : 0.6));
        if (add) {
            uint64_t size = random_size(&rng, least, most);
            block *block = block_allocator_alloc(&allocator, size);
            if (block == NULL) {
                full = (double)allocator.used / STRETCH_BYTES;
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
            block_allocator_free(&allocator, live[victim]);
            live[victim] = live[--count];
        }
        if (step % 500 == 0) block_allocator_check(&allocator);
    }
    block_allocator_check(&allocator);
    while (count > 0) block_allocator_free(&allocator, live[--count]);
    assert_non_null(block_allocator_alloc(&allocator, STRETCH_BYTES));
    block_allocator_check(&allocator);
    block_allocator_fini(&allocator);
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
        assert_true(large > 0.5); /* a block may be an eighth of the stretch */
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
