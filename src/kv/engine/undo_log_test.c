/* undo_log_test.c — the first recorded value of a key is found, also after encoding and decoding. */
#include "kv/engine/undo_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

static void note(undo_log *log, uint64_t key, const float *values, uint32_t length) {
    assert_int_equal(undo_log_note(log, key, values, length), MR_OK);
}

static const undo_log_entry *find(const undo_log *log, uint64_t key) {
    size_t from = 0;
    return undo_log_find(log, key, &from);
}

static void the_first_record_of_a_value_counts(void **state) {
    const float values[] = {1, 2, 3, 4};
    undo_log log = {.item = sizeof(float)};
    undo_log_clear(&log);
    note(&log, 9, values, 2);
    note(&log, 4, NULL, 0);
    note(&log, 9, values + 2, 2);
    note(&log, 4, values, 1);
    note(&log, 6, values, 0); /* present, with no values */
    note(&log, 6, NULL, 0);
    undo_log_end(&log);
    assert_int_equal(log.count, 3);
    assert_memory_equal(undo_log_values(&log, find(&log, 9)), values, 8);
    assert_false(find(&log, 4)->there);
    assert_true(find(&log, 6)->there);
    assert_null(find(&log, 5));
    assert_null(find(&log, 10));
    undo_log_clear(&log);
    undo_log_end(&log);
    assert_null(find(&log, 9));
    undo_log_fini(&log);
}

static void a_walk_finds_what_single_searches_find(void **state) {
    undo_log log = {.item = sizeof(float)};
    undo_log_clear(&log);
    rng rng;
    rng_init(&rng, 3);
    for (uint64_t key = 0; key < 2000; key++)
        if (rng_chance(&rng, 0.3)) note(&log, key, NULL, 0);
    undo_log_end(&log);
    size_t from = 0, found = 0;
    for (uint64_t key = 0; key < 2000; key += 1 + rng_below(&rng, 60)) {
        const undo_log_entry *entry = undo_log_find(&log, key, &from);
        assert_ptr_equal(entry, find(&log, key));
        found += entry != NULL;
    }
    assert_true(found > 5);
    undo_log_fini(&log);
}

static void bytes_come_back(void **state) {
    const float values[] = {1, 2, 3, 4};
    undo_log log = {.item = sizeof(float)}, again = {.item = sizeof(float)};
    undo_log_clear(&log);
    note(&log, 9, values, 2);
    note(&log, 4, NULL, 0);
    note(&log, 12, values, 4);
    undo_log_end(&log);
    uint8_t bytes[256];
    writer writer = writer_of(bytes, undo_log_size(&log));
    undo_log_write(&log, &writer);
    assert_false(writer.failed);
    assert_int_equal(writer_size(&writer), undo_log_size(&log));
    reader reader = reader_of(bytes, writer_size(&writer));
    assert_int_equal(undo_log_read(&again, &reader), MR_OK);
    assert_int_equal(reader_left(&reader), 0);
    assert_memory_equal(undo_log_values(&again, find(&again, 12)), values, 16);
    assert_false(find(&again, 4)->there);
    for (size_t size = 0; size < writer_size(&writer); size++) {
        reader = reader_of(bytes, size);
        assert_int_equal(undo_log_read(&again, &reader), MR_CORRUPT);
    }
    bytes[4] = 0xff; /* the first key is now the largest */
    reader = reader_of(bytes, writer_size(&writer));
    assert_int_equal(undo_log_read(&again, &reader), MR_CORRUPT);
    undo_log_fini(&log);
    undo_log_fini(&again);
}

static void rows_are_noted_as_single_ones_are(void **state) {
    enum { COUNT = 100, DIM = 8 };
    undo_log many = {.item = sizeof(float)}, single = {.item = sizeof(float)};
    uint64_t keys[COUNT];
    float values[COUNT][DIM];
    void *rows[COUNT];
    bool absent[COUNT];
    undo_log_clear(&many);
    undo_log_clear(&single);
    for (uint32_t i = 0; i < COUNT; i++) {
        keys[i] = i < COUNT / 2 ? i : COUNT - i; /* some keys are repeated */
        for (uint32_t k = 0; k < DIM; k++) values[i][k] = (float)(i * DIM + k);
        rows[i] = i % 7 == 0 ? NULL : values[i];
        absent[i] = i % 7 == 0 || i % 5 == 0;
        note(&single, keys[i], absent[i] ? NULL : values[i], DIM);
    }
    assert_int_equal(undo_log_note_rows(&many, keys, COUNT / 3, rows, absent, DIM), MR_OK);
    assert_int_equal(
        undo_log_note_rows(&many, keys + COUNT / 3, COUNT - COUNT / 3, rows + COUNT / 3, absent + COUNT / 3, DIM),
        MR_OK);
    undo_log_end(&many);
    undo_log_end(&single);
    size_t size = undo_log_size(&single);
    assert_int_equal(undo_log_size(&many), size);
    uint8_t *bytes = malloc(2 * size);
    writer first = writer_of(bytes, size), second = writer_of(bytes + size, size);
    undo_log_write(&single, &first);
    undo_log_write(&many, &second);
    assert_memory_equal(bytes, bytes + size, size);
    free(bytes);
    undo_log_fini(&many);
    undo_log_fini(&single);
}

static void without_memory_nothing_is_noted(void **state) {
    const float values[] = {1};
    for (size_t nth = 1; nth <= 2; nth++) {
        undo_log log = {.item = sizeof(float)};
        undo_log_clear(&log);
        alloc_fail_at(nth);
        assert_int_equal(undo_log_note(&log, 1, values, 1), MR_NOMEM);
        assert_int_equal(log.count, 0);
        undo_log_fini(&log);
        alloc_fail_at(nth);
        void *row = &(float){1};
        assert_int_equal(undo_log_note_rows(&log, &(uint64_t){1}, 1, &row, &(bool){false}, 1), MR_NOMEM);
        assert_int_equal(log.count, 0);
        note(&log, 1, values, 1);
        undo_log_fini(&log);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_record_of_a_value_counts),
        cmocka_unit_test(a_walk_finds_what_single_searches_find),
        cmocka_unit_test(bytes_come_back),
        cmocka_unit_test(rows_are_noted_as_single_ones_are),
        cmocka_unit_test(without_memory_nothing_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
