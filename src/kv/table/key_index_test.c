/* key_index_test.c — random operations compared with a plain list, also without memory. */
#include "kv/table/key_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

enum { KEYS = 4000 };

typedef struct plain { /* expected content by index; row 0: absent */
    key_index_entry entries[KEYS];
    uint32_t made; /* row numbers 1 … made were given */
} plain;

static int by_hash(const void *a, const void *b) {
    const key_index_entry *x = a, *y = b;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static void plain_init(plain *plain, rng *rng, bool crowded) {
    memset(plain, 0, sizeof *plain);
    for (size_t i = 0; i < KEYS; i++) {
        plain->entries[i].hash = rng_next(rng);
        if (crowded && i % 3 != 0) plain->entries[i].hash |= UINT64_C(0xffff) << 48; /* all in the last bucket */
    }
    plain->entries[0].hash = 0;
    plain->entries[1].hash = UINT64_MAX;
    qsort(plain->entries, KEYS, sizeof *plain->entries, by_hash); /* so that indices are in the order of the hashes */
}

/* Checks the invariants of key_index.h for one part; returns its number of entries. */
static uint64_t check_part(const key_index *index, const key_index_part *part, uint64_t from) {
    uint64_t count = 0;
    for (uint64_t home = from; home < part->capacity; home++) {
        assert_true(part->buckets[home].count <= KEY_INDEX_PLACES);
        count += part->buckets[home].count;
    }
    for (const overflow_index_entry *e = overflow_index_next(&index->index, 0); e != NULL;
         e = overflow_index_next(&index->index, e->hash + 1)) {
        if (key_index_part_of(index, e->hash) == part)
            assert_int_equal(part->buckets[key_index_home(part, e->hash)].count, KEY_INDEX_PLACES);
        if (e->hash == UINT64_MAX) break;
    }
    return count;
}

static void check(const key_index *index) {
    uint64_t count = check_part(index, &index->now, 0);
    if (index->old.buckets != NULL) count += check_part(index, &index->old, index->frontier);
    assert_int_equal(count + index->index.count, index->count);
}

static void agree(const key_index *index, const plain *plain) {
    key_index_entry next;
    bool more = key_index_next(index, 0, &next);
    for (size_t i = 0; i < KEYS; i++) {
        const key_index_entry *is = &plain->entries[i];
        assert_int_equal(key_index_find(index, is->hash), is->row);
        if (is->row == 0) continue;
        assert_true(more && next.hash == is->hash && next.row == is->row);
        assert_int_equal(next.seen, index->ages ? is->seen : 0);
        more = next.hash != UINT64_MAX && key_index_next(index, next.hash + 1, &next);
    }
    assert_false(more);
    check(index);
}

static uint32_t number(plain *plain, rng *rng) {
    if (rng_chance(rng, 0.2)) return KEY_INDEX_MARKS + (uint32_t)rng_below(rng, 256);
    return rng_chance(rng, 0.5) ? 1 + plain->made / 2 : ++plain->made;
}

/* One random operation; with `failing`, each allocation fails the first time. */
static void change(key_index *index, plain *plain, rng *rng, double grows, bool failing) {
    key_index_entry *is = &plain->entries[rng_below(rng, KEYS)];
    if (is->row == 0 && rng_chance(rng, grows)) {
        key_index_entry entry = {is->hash, number(plain, rng), (uint32_t)rng_next(rng)};
        if (failing) alloc_fail_at(1);
        mr_status status = key_index_add(index, entry);
        alloc_fail_at(0);
        if (status != MR_OK) {
            agree(index, plain);
            assert_int_equal(key_index_add(index, entry), MR_OK);
        }
        *is = entry;
    } else if (is->row != 0 && rng_chance(rng, grows)) {
        is->row = number(plain, rng);
        key_index_set(index, is->hash, is->row);
        is->seen = (uint32_t)rng_next(rng);
        key_index_saw(index, is->hash, is->seen);
    } else if (is->row != 0) {
        key_index_remove(index, is->hash);
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
        key_index index;
        assert_int_equal(key_index_init(&index, seed % 4 < 2), MR_OK);
        for (int step = 0; step < (crowded ? 3000 : 6000); step++) {
            change(&index, &plain, &rng, step % 2000 < 1400 ? 0.9 : 0.2, failing);
            if (step % 97 == 0) agree(&index, &plain);
        }
        assert_true(crowded == (index.index.count > index.count / 4));
        agree(&index, &plain);
        key_index_fini(&index);
    }
}

/* Invariant 1: enumeration does not depend on the order of adds, on undone removals or on the capacity. */
static void walks_depend_on_what_is_there_only(void **state) {
    enum { COUNT = 500 };
    rng rng;
    rng_init(&rng, 5);
    key_index_entry entries[COUNT], x, y;
    for (uint32_t i = 0; i < COUNT; i++) entries[i] = (key_index_entry){rng_next(&rng), i + 1, i};
    key_index a, b;
    assert_true(key_index_init(&a, true) == MR_OK && key_index_init(&b, true) == MR_OK);
    assert_int_equal(key_index_reserve(&a, 3 * COUNT), MR_OK);
    for (size_t i = 0; i < COUNT; i++) assert_int_equal(key_index_add(&a, entries[i]), MR_OK);
    rng_shuffle(&rng, entries, COUNT, sizeof *entries);
    for (size_t i = 0; i < COUNT; i++) assert_int_equal(key_index_add(&b, entries[i]), MR_OK);
    for (size_t i = 0; i < COUNT / 5; i++) key_index_remove(&b, entries[i].hash);
    for (size_t i = 0; i < COUNT / 5; i++) assert_int_equal(key_index_add(&b, entries[i]), MR_OK);
    assert_true(a.now.capacity > b.now.capacity);
    bool more_a = key_index_next(&a, 0, &x), more_b = key_index_next(&b, 0, &y);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(more_a && more_b && x.hash == y.hash && x.row == y.row && x.seen == y.seen);
        more_a = key_index_next(&a, x.hash + 1, &x);
        more_b = key_index_next(&b, y.hash + 1, &y);
    }
    assert_true(!more_a && !more_b);
    key_index_fini(&a);
    key_index_fini(&b);
}

/* No add moves more than a few buckets, and little memory is unused. */
static void growth_is_spread_and_memory_bounded(void **state) {
    key_index index;
    rng rng;
    rng_init(&rng, 9);
    assert_int_equal(key_index_init(&index, false), MR_OK);
    uint64_t growing = 0;
    for (uint32_t i = 1; i <= 100000; i++) {
        uint64_t before = index.frontier;
        assert_int_equal(key_index_add(&index, (key_index_entry){rng_next(&rng), i, 0}), MR_OK);
        if (index.old.buckets != NULL && before < index.frontier) assert_true(index.frontier - before <= 4);
        growing += index.old.buckets != NULL;
        if (i > 1000 && index.old.buckets == NULL) {
            double load = (double)index.count / (double)(index.now.capacity * KEY_INDEX_PLACES);
            assert_true(load > 0.44 && load <= 0.6);
            assert_true(index.index.count < index.count / 20);
            assert_true(key_index_bytes(&index) < index.count * 24);
        }
    }
    assert_true(growing > 10000);
    assert_int_equal(key_index_reserve(&index, index.count), MR_OK);
    for (uint64_t frontier = 0; index.old.buckets != NULL; frontier = index.frontier) {
        key_index_settle(&index, 1000);
        assert_true(index.old.buckets == NULL || index.frontier > frontier);
    }
    assert_int_equal(key_index_reserve(&index, UINT64_MAX), MR_NOMEM);
    check(&index);
    key_index_fini(&index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_a_list),
        cmocka_unit_test(walks_depend_on_what_is_there_only),
        cmocka_unit_test(growth_is_spread_and_memory_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
