/* finder_test.c — against a plain list, in whatever order things happen, also when memory ends. */
#include "kv/table/finder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

/* The invariants of finder.h, of one part: `from` is the first home that counts. */
static uint64_t check_part(const finder_part *part, uint64_t from, uint64_t *least, uint64_t until) {
    uint64_t count = 0;
    for (uint64_t i = 1; i <= FINDER_WINDOW; i++) assert_int_equal(part->entries[part->length - i].row, 0);
    for (uint64_t at = from; at < part->length; at++) {
        const finder_entry *entry = &part->entries[at];
        if (entry->row == 0) continue;
        assert_true(entry->hash >= *least);
        *least = entry->hash + 1;
        uint64_t home = finder_home(part, entry->hash);
        assert_true(home >= from && home <= at && at < until);
        for (uint64_t between = home; between < at; between++) assert_int_not_equal(part->entries[between].row, 0);
        count++;
    }
    return count;
}

static void check(const finder *finder) {
    uint64_t least = 0, count = check_part(&finder->now, 0, &least, UINT64_MAX);
    if (finder->old.entries != NULL) count += check_part(&finder->old, finder->frontier, &least, UINT64_MAX);
    assert_int_equal(count, finder->count);
}

enum { KEYS = 4000 };

typedef struct plain { /* what should be there: hash and row by index; row 0: not there */
    uint64_t hashes[KEYS];
    uint32_t rows[KEYS];
    size_t count;
} plain;

static int by_hash(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void plain_init(plain *plain, rng *rng, bool crowded) {
    for (size_t i = 0; i < KEYS; i++) {
        plain->hashes[i] = rng_next(rng);
        if (crowded) plain->hashes[i] |= UINT64_C(0xffff) << 48; /* all at the end */
    }
    plain->hashes[0] = 0;
    plain->hashes[1] = UINT64_MAX;
    qsort(plain->hashes, KEYS, sizeof(uint64_t), by_hash); /* so that walking is walking through indices */
    memset(plain->rows, 0, sizeof plain->rows);
    plain->count = 0;
}

static void agree(const finder *finder, const plain *plain) {
    const finder_entry *entry = finder_next(finder, 0);
    for (size_t i = 0; i < KEYS; i++) {
        const finder_entry *found = finder_find(finder, plain->hashes[i]);
        assert_true((found != NULL) == (plain->rows[i] != 0));
        if (found == NULL) continue;
        assert_int_equal(found->row, plain->rows[i]);
        assert_ptr_equal(entry, found);
        entry = found->hash == UINT64_MAX ? NULL : finder_next(finder, found->hash + 1);
    }
    assert_null(entry);
    check(finder);
}

/* One random step; with `failing`, each allocation fails the first time. */
static void change(finder *finder, plain *plain, rng *rng, double grows, bool failing) {
    size_t i = (size_t)rng_below(rng, KEYS);
    if (plain->rows[i] == 0 && rng_chance(rng, grows)) {
        finder_entry entry = {plain->hashes[i], (uint32_t)rng_below(rng, 1000) + 1, 0};
        if (failing) alloc_fail_at(1);
        mr_status status = finder_add(finder, entry);
        alloc_fail_at(0);
        if (status != MR_OK) {
            agree(finder, plain);
            assert_int_equal(finder_add(finder, entry), MR_OK);
        }
        plain->rows[i] = entry.row;
    } else if (plain->rows[i] != 0 && !rng_chance(rng, grows)) {
        finder_remove(finder, plain->hashes[i]);
        plain->rows[i] = 0;
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
        assert_int_equal(finder_init(&finder), MR_OK);
        for (int step = 0; step < (crowded ? 1500 : 6000); step++) {
            change(&finder, &plain, &rng, step % 2000 < 1400 ? 0.9 : 0.2, failing);
            if (step % 97 == 0) agree(&finder, &plain);
        }
        agree(&finder, &plain);
        finder_fini(&finder);
    }
}

/* Invariant 1: the same keys in another order, and a removal undone, give the same places. */
static void places_depend_on_what_is_there_only(void **state) {
    rng rng;
    rng_init(&rng, 5);
    uint64_t hashes[500];
    for (size_t i = 0; i < 500; i++) hashes[i] = rng_next(&rng);
    finder a, b;
    assert_true(finder_init(&a) == MR_OK && finder_init(&b) == MR_OK);
    assert_true(finder_reserve(&a, 600) == MR_OK && finder_reserve(&b, 600) == MR_OK);
    for (size_t i = 0; i < 500; i++) assert_int_equal(finder_add(&a, (finder_entry){hashes[i], 7, 0}), MR_OK);
    rng_shuffle(&rng, hashes, 500, sizeof *hashes);
    for (size_t i = 0; i < 500; i++) assert_int_equal(finder_add(&b, (finder_entry){hashes[i], 7, 0}), MR_OK);
    for (size_t i = 0; i < 100; i++) finder_remove(&b, hashes[i]);
    for (size_t i = 0; i < 100; i++) assert_int_equal(finder_add(&b, (finder_entry){hashes[i], 7, 0}), MR_OK);
    assert_true(a.old.entries == NULL && b.old.entries == NULL && a.now.length == b.now.length);
    assert_memory_equal(a.now.entries, b.now.entries, a.now.length * sizeof(finder_entry));
    finder_fini(&a);
    finder_fini(&b);
}

/* No add moves more than a run or two: growth is spread. (The longest run grows with the logarithm of the count.) */
static void growth_is_spread_and_memory_bounded(void **state) {
    finder finder;
    rng rng;
    rng_init(&rng, 9);
    assert_int_equal(finder_init(&finder), MR_OK);
    uint64_t growing = 0;
    for (uint64_t i = 1; i <= 100000; i++) {
        uint64_t before = finder.frontier;
        assert_int_equal(finder_add(&finder, (finder_entry){rng_next(&rng), 1, 0}), MR_OK);
        if (finder.old.entries != NULL && before < finder.frontier) assert_true(finder.frontier - before < 3000);
        growing += finder.old.entries != NULL;
        if (i > 1000 && finder.old.entries == NULL) {
            double load = (double)finder.count / (double)finder.now.capacity;
            assert_true(load > 0.52 && load <= 0.7);
        }
    }
    assert_true(growing > 10000);
    assert_int_equal(finder_reserve(&finder, finder.count), MR_OK);
    for (uint64_t frontier = 0; finder.old.entries != NULL; frontier = finder.frontier) {
        finder_settle(&finder, 1000);
        assert_true(finder.old.entries == NULL || finder.frontier > frontier);
    }
    assert_int_equal(finder_reserve(&finder, UINT64_MAX), MR_NOMEM);
    check(&finder);
    finder_fini(&finder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_a_list),
        cmocka_unit_test(places_depend_on_what_is_there_only),
        cmocka_unit_test(growth_is_spread_and_memory_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
