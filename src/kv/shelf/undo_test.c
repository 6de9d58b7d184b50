/* undo_test.c — the first value noted of a key is found, also after a round trip through bytes. */
#include "kv/shelf/undo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

static void note(undo *undo, uint64_t key, const float *values, uint32_t length) {
    assert_int_equal(undo_note(undo, key, values, length), MR_OK);
}

static const undo_entry *find(const undo *undo, uint64_t key) {
    size_t from = 0;
    return undo_find(undo, key, &from);
}

static void the_first_note_counts(void **state) {
    const float values[] = {1, 2, 3, 4};
    undo undo = {.item = sizeof(float)};
    undo_clear(&undo);
    note(&undo, 9, values, 2);
    note(&undo, 4, NULL, 0);
    note(&undo, 9, values + 2, 2);
    note(&undo, 4, values, 1);
    note(&undo, 6, values, 0); /* there, and empty */
    note(&undo, 6, NULL, 0);
    undo_end(&undo);
    assert_int_equal(undo.count, 3);
    assert_memory_equal(undo_values(&undo, find(&undo, 9)), values, 8);
    assert_false(find(&undo, 4)->there);
    assert_true(find(&undo, 6)->there);
    assert_null(find(&undo, 5));
    assert_null(find(&undo, 10));
    undo_clear(&undo);
    undo_end(&undo);
    assert_null(find(&undo, 9));
    undo_fini(&undo);
}

static void a_walk_finds_what_single_searches_find(void **state) {
    undo undo = {.item = sizeof(float)};
    undo_clear(&undo);
    rng rng;
    rng_init(&rng, 3);
    for (uint64_t key = 0; key < 2000; key++)
        if (rng_chance(&rng, 0.3)) note(&undo, key, NULL, 0);
    undo_end(&undo);
    size_t from = 0, found = 0;
    for (uint64_t key = 0; key < 2000; key += 1 + rng_below(&rng, 60)) {
        const undo_entry *entry = undo_find(&undo, key, &from);
        assert_ptr_equal(entry, find(&undo, key));
        found += entry != NULL;
    }
    assert_true(found > 5);
    undo_fini(&undo);
}

static void bytes_come_back(void **state) {
    const float values[] = {1, 2, 3, 4};
    undo undo = {.item = sizeof(float)}, again = {.item = sizeof(float)};
    undo_clear(&undo);
    note(&undo, 9, values, 2);
    note(&undo, 4, NULL, 0);
    note(&undo, 12, values, 4);
    undo_end(&undo);
    uint8_t bytes[256];
    writer writer = writer_of(bytes, undo_size(&undo));
    undo_write(&undo, &writer);
    assert_false(writer.failed);
    assert_int_equal(writer_size(&writer), undo_size(&undo));
    reader reader = reader_of(bytes, writer_size(&writer));
    assert_int_equal(undo_read(&again, &reader), MR_OK);
    assert_int_equal(reader_left(&reader), 0);
    assert_memory_equal(undo_values(&again, find(&again, 12)), values, 16);
    assert_false(find(&again, 4)->there);
    for (size_t size = 0; size < writer_size(&writer); size++) {
        reader = reader_of(bytes, size);
        assert_int_equal(undo_read(&again, &reader), MR_CORRUPT);
    }
    bytes[4] = 0xff; /* the first key is now the largest */
    reader = reader_of(bytes, writer_size(&writer));
    assert_int_equal(undo_read(&again, &reader), MR_CORRUPT);
    undo_fini(&undo);
    undo_fini(&again);
}

static void rows_are_noted_as_single_ones_are(void **state) {
    enum { COUNT = 100, DIM = 8 };
    undo many = {.item = sizeof(float)}, single = {.item = sizeof(float)};
    uint64_t keys[COUNT];
    float values[COUNT][DIM];
    void *rows[COUNT];
    bool absent[COUNT];
    undo_clear(&many);
    undo_clear(&single);
    for (uint32_t i = 0; i < COUNT; i++) {
        keys[i] = i < COUNT / 2 ? i : COUNT - i; /* some come again */
        for (uint32_t k = 0; k < DIM; k++) values[i][k] = (float)(i * DIM + k);
        rows[i] = i % 7 == 0 ? NULL : values[i];
        absent[i] = i % 7 == 0 || i % 5 == 0;
        note(&single, keys[i], absent[i] ? NULL : values[i], DIM);
    }
    assert_int_equal(undo_note_rows(&many, keys, COUNT / 3, rows, absent, DIM), MR_OK);
    assert_int_equal(
        undo_note_rows(&many, keys + COUNT / 3, COUNT - COUNT / 3, rows + COUNT / 3, absent + COUNT / 3, DIM), MR_OK);
    undo_end(&many);
    undo_end(&single);
    size_t size = undo_size(&single);
    assert_int_equal(undo_size(&many), size);
    uint8_t *bytes = malloc(2 * size);
    writer first = writer_of(bytes, size), second = writer_of(bytes + size, size);
    undo_write(&single, &first);
    undo_write(&many, &second);
    assert_memory_equal(bytes, bytes + size, size);
    free(bytes);
    undo_fini(&many);
    undo_fini(&single);
}

static void without_memory_nothing_is_noted(void **state) {
    const float values[] = {1};
    for (size_t nth = 1; nth <= 2; nth++) {
        undo undo = {.item = sizeof(float)};
        undo_clear(&undo);
        alloc_fail_at(nth);
        assert_int_equal(undo_note(&undo, 1, values, 1), MR_NOMEM);
        assert_int_equal(undo.count, 0);
        undo_fini(&undo);
        alloc_fail_at(nth);
        void *row = &(float){1};
        assert_int_equal(undo_note_rows(&undo, &(uint64_t){1}, 1, &row, &(bool){false}, 1), MR_NOMEM);
        assert_int_equal(undo.count, 0);
        note(&undo, 1, values, 1);
        undo_fini(&undo);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_note_counts),
        cmocka_unit_test(a_walk_finds_what_single_searches_find),
        cmocka_unit_test(bytes_come_back),
        cmocka_unit_test(rows_are_noted_as_single_ones_are),
        cmocka_unit_test(without_memory_nothing_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
