/* finder_test.c — against a plain list, in whatever order things happen, also when memory ends. */
#include "kv/table/finder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

enum { KEYS = 4000 };

typedef struct plain { /* what should be there: by index; row 0: not there */
    finder_entry entries[KEYS];
    uint32_t made; /* numbers of rows from 1 to this were given */
} plain;

static int by_hash(const void *a, const void *b) {
    const finder_entry *x = a, *y = b;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static void plain_init(plain *plain, rng *rng, bool crowded) {
    memset(plain, 0, sizeof *plain);
    for (size_t i = 0; i < KEYS; i++) {
        plain->entries[i].hash = rng_next(rng);
        if (crowded && i % 3 != 0) plain->entries[i].hash |= UINT64_C(0xffff) << 48; /* in one bucket, the last */
    }
    plain->entries[0].hash = 0;
    plain->entries[1].hash = UINT64_MAX;
    qsort(plain->entries, KEYS, sizeof *plain->entries, by_hash); /* so that walking is walking through indices */
}

/* The invariants of finder.h, of one part; gives how many are in it. */
static uint64_t check_part(const finder *finder, const finder_part *part, uint64_t from) {
    uint64_t count = 0;
    for (uint64_t home = from; home < part->capacity; home++) {
        assert_true(part->buckets[home].count <= FINDER_PLACES);
        count += part->buckets[home].count;
    }
    for (const surplus_entry *e = surplus_next(&finder->surplus, 0); e != NULL;
         e = surplus_next(&finder->surplus, e->hash + 1)) {
        if (finder_part_of(finder, e->hash) == part)
            assert_int_equal(part->buckets[finder_home(part, e->hash)].count, FINDER_PLACES);
        if (e->hash == UINT64_MAX) break;
    }
    return count;
}

static void check(const finder *finder) {
    uint64_t count = check_part(finder, &finder->now, 0);
    if (finder->old.buckets != NULL) count += check_part(finder, &finder->old, finder->frontier);
    assert_int_equal(count + finder->surplus.count, finder->count);
}

static void agree(const finder *finder, const plain *plain) {
    finder_entry next;
    bool more = finder_next(finder, 0, &next);
    for (size_t i = 0; i < KEYS; i++) {
        const finder_entry *is = &plain->entries[i];
        assert_int_equal(finder_find(finder, is->hash), is->row);
        if (is->row == 0) continue;
        assert_true(more && next.hash == is->hash && next.row == is->row);
        assert_int_equal(next.seen, finder->ages ? is->seen : 0);
        more = next.hash != UINT64_MAX && finder_next(finder, next.hash + 1, &next);
    }
    assert_false(more);
    check(finder);
}

static uint32_t number(plain *plain, rng *rng) {
    if (rng_chance(rng, 0.2)) return FINDER_MARKS + (uint32_t)rng_below(rng, 256);
    return rng_chance(rng, 0.5) ? 1 + plain->made / 2 : ++plain->made;
}

/* One random step; with `failing`, each allocation fails the first time. */
static void change(finder *finder, plain *plain, rng *rng, double grows, bool failing) {
    finder_entry *is = &plain->entries[rng_below(rng, KEYS)];
    if (is->row == 0 && rng_chance(rng, grows)) {
        finder_entry entry = {is->hash, number(plain, rng), (uint32_t)rng_next(rng)};
        if (failing) alloc_fail_at(1);
        mr_status status = finder_add(finder, entry);
        alloc_fail_at(0);
        if (status != MR_OK) {
            agree(finder, plain);
            assert_int_equal(finder_add(finder, entry), MR_OK);
        }
        *is = entry;
    } else if (is->row != 0 && rng_chance(rng, grows)) {
        is->row = number(plain, rng);
        finder_set(finder, is->hash, is->row);
        is->seen = (uint32_t)rng_next(rng);
        finder_saw(finder, is->hash, is->seen);
    } else if (is->row != 0) {
        finder_remove(finder, is->hash);
        is->row = 0;
    }
}

static void it_agrees_with_a_list(void **state) {
    static plain plain;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        rng rng;
        rng_init(&rng, seed);
        bool crowded = seed % 3 == 0, failing = seed % 2 == 0;
        plain_init(&plain, &rng, crowded);
        finder finder;
        assert_int_equal(finder_init(&finder, seed % 4 < 2), MR_OK);
        for (int step = 0; step < (crowded ? 3000 : 6000); step++) {
            change(&finder, &plain, &rng, step % 2000 < 1400 ? 0.9 : 0.2, failing);
            if (step % 97 == 0) agree(&finder, &plain);
        }
        assert_true(crowded == (finder.surplus.count > finder.count / 4));
        agree(&finder, &plain);
        finder_fini(&finder);
    }
}

/* Invariant 1: the same keys in another order, and a removal undone, are walked through alike; of whatever capacity. */
static void walks_depend_on_what_is_there_only(void **state) {
    enum { COUNT = 500 };
    rng rng;
    rng_init(&rng, 5);
    finder_entry entries[COUNT], x, y;
    for (uint32_t i = 0; i < COUNT; i++) entries[i] = (finder_entry){rng_next(&rng), i + 1, i};
    finder a, b;
    assert_true(finder_init(&a, true) == MR_OK && finder_init(&b, true) == MR_OK);
    assert_int_equal(finder_reserve(&a, 3 * COUNT), MR_OK);
    for (size_t i = 0; i < COUNT; i++) assert_int_equal(finder_add(&a, entries[i]), MR_OK);
    rng_shuffle(&rng, entries, COUNT, sizeof *entries);
    for (size_t i = 0; i < COUNT; i++) assert_int_equal(finder_add(&b, entries[i]), MR_OK);
    for (size_t i = 0; i < COUNT / 5; i++) finder_remove(&b, entries[i].hash);
    for (size_t i = 0; i < COUNT / 5; i++) assert_int_equal(finder_add(&b, entries[i]), MR_OK);
    assert_true(a.now.capacity > b.now.capacity);
    bool more_a = finder_next(&a, 0, &x), more_b = finder_next(&b, 0, &y);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(more_a && more_b && x.hash == y.hash && x.row == y.row && x.seen == y.seen);
        more_a = finder_next(&a, x.hash + 1, &x);
        more_b = finder_next(&b, y.hash + 1, &y);
    }
    assert_true(!more_a && !more_b);
    finder_fini(&a);
    finder_fini(&b);
}

/* No add moves more than a few buckets, and hardly anything is surplus. */
static void growth_is_spread_and_memory_bounded(void **state) {
    finder finder;
    rng rng;
    rng_init(&rng, 9);
    assert_int_equal(finder_init(&finder, false), MR_OK);
    uint64_t growing = 0;
    for (uint32_t i = 1; i <= 100000; i++) {
        uint64_t before = finder.frontier;
        assert_int_equal(finder_add(&finder, (finder_entry){rng_next(&rng), i, 0}), MR_OK);
        if (finder.old.buckets != NULL && before < finder.frontier) assert_true(finder.frontier - before <= 4);
        growing += finder.old.buckets != NULL;
        if (i > 1000 && finder.old.buckets == NULL) {
            double load = (double)finder.count / (double)(finder.now.capacity * FINDER_PLACES);
            assert_true(load > 0.44 && load <= 0.6);
            assert_true(finder.surplus.count < finder.count / 20);
            assert_true(finder_bytes(&finder) < finder.count * 24);
        }
    }
    assert_true(growing > 10000);
    assert_int_equal(finder_reserve(&finder, finder.count), MR_OK);
    for (uint64_t frontier = 0; finder.old.buckets != NULL; frontier = finder.frontier) {
        finder_settle(&finder, 1000);
        assert_true(finder.old.buckets == NULL || finder.frontier > frontier);
    }
    assert_int_equal(finder_reserve(&finder, UINT64_MAX), MR_NOMEM);
    check(&finder);
    finder_fini(&finder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_a_list),
        cmocka_unit_test(walks_depend_on_what_is_there_only),
        cmocka_unit_test(growth_is_spread_and_memory_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
