/* overflow_index_test.c — random operations compared with a plain list, also without memory. */
#include "kv/table/overflow_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

/* Checks the invariants of overflow_index.h for one part; `from` is the first home that counts. */
static uint64_t check_part(const overflow_index_part *part, uint64_t from, uint64_t *least, uint64_t until) {
    uint64_t count = 0;
    for (uint64_t i = 1; i <= OVERFLOW_INDEX_WINDOW && part->length > 0; i++)
        assert_int_equal(part->entries[part->length - i].row, 0);
    for (uint64_t at = from; at < part->length; at++) {
        const overflow_index_entry *entry = &part->entries[at];
        if (entry->row == 0) continue;
        assert_true(entry->hash >= *least);
        *least = entry->hash + 1;
        uint64_t home = overflow_index_home(part, entry->hash);
        assert_true(home >= from && home <= at && at < until);
        for (uint64_t between = home; between < at; between++) assert_int_not_equal(part->entries[between].row, 0);
        count++;
    }
    return count;
}

static void check(const overflow_index *index) {
    uint64_t least = 0, count = check_part(&index->now, 0, &least, UINT64_MAX);
    if (index->old.entries != NULL) count += check_part(&index->old, index->frontier, &least, UINT64_MAX);
    assert_int_equal(count, index->count);
}

enum { KEYS = 4000 };

typedef struct plain { /* expected content by index; row 0: absent */
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
        if (crowded) plain->hashes[i] |= UINT64_C(0xffff) << 48; /* all at the end of the array */
    }
    plain->hashes[0] = 0;
    plain->hashes[1] = UINT64_MAX;
    qsort(plain->hashes, KEYS, sizeof(uint64_t), by_hash); /* so that indices are in the order of the hashes */
    memset(plain->rows, 0, sizeof plain->rows);
    plain->count = 0;
}

static void agree(const overflow_index *index, const plain *plain) {
    const overflow_index_entry *entry = overflow_index_next(index, 0);
    for (size_t i = 0; i < KEYS; i++) {
        const overflow_index_entry *found = overflow_index_find(index, plain->hashes[i]);
        assert_true((found != NULL) == (plain->rows[i] != 0));
        if (found == NULL) continue;
        assert_int_equal(found->row, plain->rows[i]);
        assert_ptr_equal(entry, found);
        entry = found->hash == UINT64_MAX ? NULL : overflow_index_next(index, found->hash + 1);
    }
    assert_null(entry);
    check(index);
}

/* One random operation; with `failing`, each allocation fails the first time. */
static void change(overflow_index *index, plain *plain, rng *rng, double grows, bool failing) {
    size_t i = (size_t)rng_below(rng, KEYS);
    if (plain->rows[i] == 0 && rng_chance(rng, grows)) {
        overflow_index_entry entry = {plain->hashes[i], (uint32_t)rng_below(rng, 1000) + 1, 0};
        if (failing) alloc_fail_at(1);
        mr_status status = overflow_index_add(index, entry);
        alloc_fail_at(0);
        if (status != MR_OK) {
            agree(index, plain);
            assert_int_equal(overflow_index_add(index, entry), MR_OK);
        }
        plain->rows[i] = entry.row;
    } else if (plain->rows[i] != 0 && !rng_chance(rng, grows)) {
        overflow_index_remove(index, plain->hashes[i]);
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
        overflow_index index = {0};
        for (int step = 0; step < (crowded ? 1500 : 6000); step++) {
            change(&index, &plain, &rng, step % 2000 < 1400 ? 0.9 : 0.2, failing);
            if (step % 97 == 0) agree(&index, &plain);
        }
        agree(&index, &plain);
        overflow_index_fini(&index);
    }
}

/* Invariant 1: places do not depend on the order of adds or on undone removals. */
static void places_depend_on_what_is_there_only(void **state) {
    rng rng;
    rng_init(&rng, 5);
    uint64_t hashes[500];
    for (size_t i = 0; i < 500; i++) hashes[i] = rng_next(&rng);
    overflow_index a = {0}, b = {0};
    assert_true(overflow_index_reserve(&a, 600) == MR_OK && overflow_index_reserve(&b, 600) == MR_OK);
    for (size_t i = 0; i < 500; i++)
        assert_int_equal(overflow_index_add(&a, (overflow_index_entry){hashes[i], 7, 0}), MR_OK);
    rng_shuffle(&rng, hashes, 500, sizeof *hashes);
    for (size_t i = 0; i < 500; i++)
        assert_int_equal(overflow_index_add(&b, (overflow_index_entry){hashes[i], 7, 0}), MR_OK);
    for (size_t i = 0; i < 100; i++) overflow_index_remove(&b, hashes[i]);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(overflow_index_add(&b, (overflow_index_entry){hashes[i], 7, 0}), MR_OK);
    assert_true(a.old.entries == NULL && b.old.entries == NULL && a.now.length == b.now.length);
    assert_memory_equal(a.now.entries, b.now.entries, a.now.length * sizeof(overflow_index_entry));
    overflow_index_fini(&a);
    overflow_index_fini(&b);
}

/* No add moves more than a run or two. (The longest run grows with the logarithm of the count.) */
static void growth_is_spread_and_memory_bounded(void **state) {
    overflow_index index = {0};
    rng rng;
    rng_init(&rng, 9);
    assert_true(overflow_index_bytes(&index) == 0 && overflow_index_find(&index, 1) == NULL &&
                overflow_index_next(&index, 0) == NULL);
    uint64_t growing = 0;
    for (uint64_t i = 1; i <= 100000; i++) {
        uint64_t before = index.frontier;
        assert_int_equal(overflow_index_add(&index, (overflow_index_entry){rng_next(&rng), 1, 0}), MR_OK);
        if (index.old.entries != NULL && before < index.frontier) assert_true(index.frontier - before < 3000);
        growing += index.old.entries != NULL;
        if (i > 1000 && index.old.entries == NULL) {
            double load = (double)index.count / (double)index.now.capacity;
            assert_true(load > 0.52 && load <= 0.7);
        }
    }
    assert_true(growing > 10000);
    assert_int_equal(overflow_index_reserve(&index, UINT64_MAX), MR_NOMEM);
    check(&index);
    overflow_index_fini(&index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_a_list),
        cmocka_unit_test(places_depend_on_what_is_there_only),
        cmocka_unit_test(growth_is_spread_and_memory_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
