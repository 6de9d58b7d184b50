/* round_sum_test.c — a round's sum has the bits of a plain loop over the ranks, with keys ascending. */
#include "kv/engine/round_sum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "kv/engine/engine_internal.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/payload_builder.h"

enum { KEYS = 300, DIM = 4, RANKS = 7 };

static const engine no_tables;

static void give(void *sum, payload_writer *writer) { /* adds the payload as a contribution, and empties it */
    round_sum_add(sum, payload_written(writer));
    payload_fini(writer);
}

static shared_bytes *sum_of(void *sum) { /* ends the sum */
    shared_bytes *bytes = shared_bytes_new(round_sum_size(sum));
    round_sum_write(sum, shared_bytes_room(bytes));
    round_sum_end(sum);
    assert_int_equal(payload_check(shared_bytes_bytes(bytes)), MR_OK);
    return bytes;
}

static payload_section next(payload_reader *reader, payload_op op) {
    payload_section section;
    assert_true(payload_next(reader, &section));
    assert_int_equal(section.op, op);
    return section;
}

static const float *floats(const payload_section *section) { return (const float *)(const void *)section->values.data; }

static void assert_end(payload_reader *reader, shared_bytes *bytes) {
    payload_section section;
    assert_false(payload_next(reader, &section));
    shared_bytes_unref(bytes);
}

static void rows_are_added_in_the_order_of_ranks(void **state) {
    rng rng;
    rng_init(&rng, 2);
    for (int turn = 0; turn < 20; turn++) {
        float expected[KEYS][DIM];
        int pushes[KEYS] = {0};
        void *sum = round_sum_begin(&no_tables);
        for (int rank = 0; rank < RANKS; rank++) {
            payload_writer writer = {0};
            uint64_t keys[KEYS];
            float values[KEYS * DIM];
            uint32_t count = 0;
            for (uint64_t key = 0; key < KEYS; key++) {
                if (!rng_chance(&rng, (double)turn / 20)) continue;
                keys[count] = key * 1000;
                for (size_t i = 0; i < DIM; i++) {
                    float value = (float)(rng_unit(&rng) - 0.5);
                    values[count * DIM + i] = value;
                    expected[key][i] = pushes[key] == 0 ? value : expected[key][i] + value;
                }
                pushes[key]++;
                count++;
            }
            payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, count, values, DIM);
            give(sum, &writer);
        }
        shared_bytes *bytes = sum_of(sum);
        payload_reader reader = payload_open(shared_bytes_bytes(bytes));
        assert_int_equal(next(&reader, PAYLOAD_ROUND).count, RANKS);
        size_t at = 0;
        payload_section section = {0};
        if (turn > 0) section = next(&reader, PAYLOAD_ADD_ROWS);
        for (uint64_t key = 0; key < KEYS; key++) {
            if (pushes[key] == 0) continue;
            assert_int_equal(section.keys[at], key * 1000);
            assert_memory_equal(floats(&section) + at++ * DIM, expected[key], sizeof expected[key]);
        }
        assert_int_equal(at, section.count);
        assert_end(&reader, bytes);
    }
}

static void a_round_is_in_order(void **state) {
    void *sum = round_sum_begin(&no_tables);
    const uint64_t keys[] = {1, 2};
    for (int rank = 0; rank < 2; rank++) {
        const float add[] = {1, 2}, set[] = {(float)rank, 5};
        payload_writer writer = {0};
        payload_plain(&writer, PAYLOAD_DROP, 3);
        payload_rows(&writer, PAYLOAD_ADD_ROWS, 2, keys, 2, add, 1);
        payload_rows(&writer, PAYLOAD_SET_ROWS, 2, keys + rank, 1, set, 1);
        payload_keys(&writer, PAYLOAD_ERASE, 2, keys + rank, 1);
        payload_define(&writer, (definition_options){.id = 2});
        payload_keys(&writer, PAYLOAD_GET_ROWS, 2, keys, 2); /* a query in a contribution adds nothing */
        give(sum, &writer);
    }
    shared_bytes *bytes = sum_of(sum);
    payload_reader reader = payload_open(shared_bytes_bytes(bytes));
    assert_int_equal(next(&reader, PAYLOAD_ROUND).count, 2);
    assert_int_equal(next(&reader, PAYLOAD_DEFINE).values.size, TABLE_SCHEMA_SIZE);
    assert_int_equal(next(&reader, PAYLOAD_ERASE).count, 2);
    payload_section section = next(&reader, PAYLOAD_SET_ROWS);
    assert_true(section.count == 2 && floats(&section)[0] == 0 && floats(&section)[1] == 1);
    section = next(&reader, PAYLOAD_ADD_ROWS);
    assert_true(floats(&section)[0] == 2 && floats(&section)[1] == 4);
    assert_int_equal(next(&reader, PAYLOAD_DROP).table, 3);
    assert_end(&reader, bytes);
}

/* A rank that is left out is no member, and its pushes do not count; its schemas and dropped tables do. */
static void a_rank_may_be_left_out(void **state) {
    static const uint64_t keys[] = {1, 2};
    void *sum = round_sum_begin(&no_tables);
    payload_writer writer = {0};
    for (int rank = 0; rank < 4; rank++) {
        payload_define(&writer, (definition_options){.id = 2});
        if (rank != 3) payload_rows(&writer, PAYLOAD_ADD_ROWS, 2, keys, 2, (const float[]){1, 2}, 1);
        if (rank == 1) payload_plain(&writer, PAYLOAD_DROP, 3);
        if (rank == 1) payload_plain(&writer, PAYLOAD_SKIP, 0);
        give(sum, &writer); /* the last rank pushes nothing, and is a member */
    }
    shared_bytes *bytes = sum_of(sum);
    payload_reader reader = payload_open(shared_bytes_bytes(bytes));
    assert_int_equal(next(&reader, PAYLOAD_ROUND).count, 3);
    (void)next(&reader, PAYLOAD_DEFINE);
    payload_section section = next(&reader, PAYLOAD_ADD_ROWS);
    assert_true(floats(&section)[0] == 2 && floats(&section)[1] == 4);
    assert_int_equal(next(&reader, PAYLOAD_DROP).table, 3);
    assert_end(&reader, bytes);
    sum = round_sum_begin(&no_tables);
    payload_plain(&writer, PAYLOAD_SKIP, 0);
    give(sum, &writer);
    assert_int_equal(round_sum_size(sum), 0); /* all ranks are left out: no update */
    round_sum_end(sum);
}

typedef struct rates { /* calls of on_rates */
    int count;
    uint32_t table;
    float applies, other;
} rates;

static void on_rates(void *context, uint32_t table, float applies, float other) {
    rates *rates = context;
    *rates = (struct rates){rates->count + 1, table, applies, other};
}

/* Contributions come in the order of ranks. A RATE may be anywhere in a contribution. */
static void the_lowest_rank_gives_the_rate(void **state) {
    static const uint64_t keys[] = {1, 2};
    rates rates = {0};
    engine_host host = {.on_rates = on_rates, .context = &rates};
    engine engine = {.host = &host};
    void *sum = round_sum_begin(&engine);
    payload_writer writer = {0};
    payload_rate(&writer, 1, 7); /* this rank is left out */
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 2, (const float[]){1, 2}, 1);
    payload_plain(&writer, PAYLOAD_SKIP, 0);
    give(sum, &writer);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 2, (const float[]){1, 2}, 1); /* gives none */
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 2, (payload_place){0, 5, 10, 6}, (const float[]){1, 2}, 2);
    give(sum, &writer);
    payload_rate(&writer, 1, 4);
    payload_rate(&writer, 3, 8); /* a table without pushes */
    payload_rate(&writer, 1, 0.5f);
    give(sum, &writer);
    assert_int_equal(rates.count, 0); /* one rank changed its mind */
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 2, (const float[]){1, 2}, 1);
    payload_rows(&writer, PAYLOAD_SET_ROWS, 1, keys, 1, (const float[]){3}, 1);
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 2, (payload_place){1, 0, 10, 6}, (const float[]){1, 2}, 2);
    payload_rate(&writer, 1, 0.5f);
    payload_rate(&writer, 2, 0);
    give(sum, &writer);
    assert_int_equal(rates.count, 0);
    payload_rate(&writer, 1, 2);
    give(sum, &writer);
    assert_true(rates.count == 1 && rates.table == 1 && rates.applies == 0.5f && rates.other == 2);
    shared_bytes *bytes = sum_of(sum);
    payload_reader reader = payload_open(shared_bytes_bytes(bytes));
    assert_int_equal(next(&reader, PAYLOAD_ROUND).count, 4);
    (void)next(&reader, PAYLOAD_SET_ROWS);
    (void)next(&reader, PAYLOAD_RATE);
    payload_section section = next(&reader, PAYLOAD_ADD_ROWS);
    assert_true(section.rated && section.rate == 0.5f && floats(&section)[0] == 2);
    for (int i = 0; i < 2; i++) {
        (void)next(&reader, PAYLOAD_RATE);
        section = next(&reader, PAYLOAD_ADD_BLOCK);
        assert_true(section.rated && section.rate == 0);
    }
    assert_end(&reader, bytes);
    sum = round_sum_begin(&no_tables);
    payload_rate(&writer, 1, 2); /* rates alone are no update */
    give(sum, &writer);
    payload_rate(&writer, 1, 3); /* and no host is informed */
    give(sum, &writer);
    assert_int_equal(round_sum_size(sum), 0);
    round_sum_end(sum);
}

static void stretches_of_a_block_are_one(void **state) {
    void *sum = round_sum_begin(&no_tables);
    payload_writer writer = {0};
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 1, (payload_place){0, 5, 10, 6}, (const float[]){1, 2}, 2);
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 1, (payload_place){0, 4, 10, 0}, (const float[]){9}, 1);
    give(sum, &writer);
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 1, (payload_place){0, 5, 10, 3}, (const float[]){5, 6}, 2);
    payload_block(&writer, PAYLOAD_SET_BLOCK, 1, (payload_place){0, 5, 10, 0}, (const float[]){1, 1}, 2);
    payload_block(&writer, PAYLOAD_SET_BLOCK, 1, (payload_place){0, 5, 10, 1}, (const float[]){2, 2}, 2);
    payload_block(&writer, PAYLOAD_SET_BLOCK, 1, (payload_place){0, 5, 10, 0}, (const float[]){3, 3}, 2);
    /* another block size */
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 1, (payload_place){0, 5, 11, 0}, (const float[]){5}, 1);
    give(sum, &writer);
    shared_bytes *bytes = sum_of(sum);
    payload_reader reader = payload_open(shared_bytes_bytes(bytes));
    (void)next(&reader, PAYLOAD_ROUND);
    assert_int_equal(next(&reader, PAYLOAD_SET_BLOCK).place.first, 1);
    payload_section section = next(&reader, PAYLOAD_SET_BLOCK);
    assert_true(section.place.first == 0 && floats(&section)[1] == 3);
    assert_int_equal(next(&reader, PAYLOAD_ADD_BLOCK).place.block, 4);
    section = next(&reader, PAYLOAD_ADD_BLOCK);
    assert_int_equal(section.place.first, 3);
    assert_memory_equal(section.values.data, ((const float[]){5, 6, 0, 1, 2}), 20);
    assert_end(&reader, bytes);
}

static void values_of_another_shape_are_left_out(void **state) {
    void *sum = round_sum_begin(&no_tables);
    payload_writer writer = {0};
    assert_int_equal(round_sum_size(sum), 0);
    round_sum_add(sum, span_of("nonsense", 8));
    assert_int_equal(round_sum_size(sum), 0);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, (const uint64_t[]){7}, 1, (const float[]){1, -0.0f}, 2);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, (const uint64_t[]){7}, 1, (const float[]){1, 2, 3}, 3);
    payload_counters(&writer, 1, 7, 5);
    payload_vector(&writer, PAYLOAD_ADD_VECTORS, 1, 7, (const float[]){1}, 1);
    give(sum, &writer);
    shared_bytes *bytes = sum_of(sum);
    payload_reader reader = payload_open(shared_bytes_bytes(bytes));
    assert_int_equal(next(&reader, PAYLOAD_ROUND).count, 2);
    payload_section section = next(&reader, PAYLOAD_ADD_ROWS);
    assert_memory_equal(section.values.data, ((const float[]){1, -0.0f}), 8); /* -0 is kept */
    assert_end(&reader, bytes);
}

static void vectors_become_as_long_as_the_longest(void **state) {
    void *sum = round_sum_begin(&no_tables);
    static const float values[] = {1, 2, 3, 4, 5};
    const uint32_t lengths[] = {2, 0, 5, 1, 5};
    for (size_t i = 0; i < 5; i++) {
        payload_writer writer = {0};
        payload_vector(&writer, PAYLOAD_ADD_VECTORS, 1, 9, values, lengths[i]);
        payload_vector(&writer, PAYLOAD_SET_VECTORS, 1, 8, values, lengths[i == 4 ? 0 : i]);
        payload_vector(&writer, PAYLOAD_ADD_VECTORS, 1, i, values, 1);
        give(sum, &writer);
    }
    uint8_t *odd = xmalloc(round_sum_size(sum) + 1); /* the destination need not be aligned */
    size_t size = round_sum_size(sum);
    round_sum_write(sum, odd + 1);
    shared_bytes *bytes = sum_of(sum);
    assert_int_equal(shared_bytes_bytes(bytes).size, size);
    assert_memory_equal(shared_bytes_bytes(bytes).data, odd + 1, size);
    free(odd);
    payload_reader reader = payload_open(shared_bytes_bytes(bytes));
    (void)next(&reader, PAYLOAD_ROUND);
    payload_section section = next(&reader, PAYLOAD_SET_VECTORS);
    assert_int_equal(section.lengths[0], 2);
    section = next(&reader, PAYLOAD_ADD_VECTORS);
    assert_int_equal(section.count, 6);
    assert_int_equal(section.lengths[5], 5);
    assert_memory_equal(floats(&section) + 5, ((const float[]){4, 6, 6, 8, 10}), 20);
    assert_end(&reader, bytes);
}

/* Each section of a sum is small enough to be applied, whatever the size of the sum. */
static void a_large_sum_is_several_sections(void **state) {
    enum { WIDE = 1 << 16, ROWS = 32, GIVEN = 34 }; /* 8 MB in each of 34 contributions */
    float *values = xcalloc((size_t)ROWS * WIDE, sizeof *values);
    void *sum = round_sum_begin(&no_tables);
    for (uint64_t i = 0; i < GIVEN; i++) {
        payload_writer writer = {0};
        uint64_t keys[ROWS];
        for (uint64_t k = 0; k < ROWS; k++) {
            keys[k] = k * GIVEN + i;
            values[k * WIDE + WIDE - 1] = (float)keys[k];
        }
        payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, ROWS, values, WIDE);
        give(sum, &writer);
    }
    free(values);
    shared_bytes *bytes = sum_of(sum);
    payload_reader reader = payload_open(shared_bytes_bytes(bytes));
    assert_int_equal(next(&reader, PAYLOAD_ROUND).count, GIVEN);
    uint64_t key = 0;
    for (int i = 0; i < 2; i++) {
        payload_section section = next(&reader, PAYLOAD_ADD_ROWS);
        assert_true(section.values.size <= ROUND_SUM_SECTION);
        assert_int_equal(section.values.size, (size_t)section.count * WIDE * sizeof(float));
        for (uint32_t k = 0; k < section.count; k++, key++) {
            assert_int_equal(section.keys[k], key);
            assert_true(floats(&section)[k * WIDE + WIDE - 1] == (float)key && floats(&section)[k * WIDE] == 0);
        }
    }
    assert_int_equal(key, ROWS * GIVEN);
    assert_end(&reader, bytes);
}

/* A contribution of rows, compressed with lz4. False: this machine has no lz4. */
static bool give_pressed(void *sum) {
    static const uint64_t keys[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const float values[8 * 16];
    payload_writer writer = {0};
    compressor *compressor;
    if (compressor_open(COMPRESSOR_LZ4, &compressor) != MR_OK) return false;
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 8, values, 16);
    assert_int_equal(payload_press(&writer, compressor), MR_OK);
    compressor_close(compressor);
    give(sum, &writer);
    return true;
}

/* A server has the libraries of its tables only: a contribution with another compression must not make it end. The
 * table is known to the engine, or defined in the round, or neither. */
static void only_the_compression_of_the_table_is_decoded(void **state) {
    static const char *const codecs[] = {"none", "zstd", "lz4", NULL};
    for (int defines = 0; defines < 2; defines++)
        for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
            void *engine = engine_fixture_new(true), *sum = round_sum_begin(engine);
            definition_options table = {.dim = 16, .codec = codecs[i]};
            payload_writer writer = {0};
            if (codecs[i] != NULL && defines) {
                payload_define(&writer, table);
                give(sum, &writer);
            } else if (codecs[i] != NULL) {
                engine_fixture_define(engine, table);
            }
            size_t before = round_sum_size(sum);
            if (give_pressed(sum)) assert_int_equal(round_sum_size(sum) >= before + 8 * 16 * sizeof(float), i == 2);
            round_sum_end(sum);
            engine_ops.destroy(engine);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_added_in_the_order_of_ranks),
        cmocka_unit_test(a_round_is_in_order),
        cmocka_unit_test(a_rank_may_be_left_out),
        cmocka_unit_test(the_lowest_rank_gives_the_rate),
        cmocka_unit_test(stretches_of_a_block_are_one),
        cmocka_unit_test(values_of_another_shape_are_left_out),
        cmocka_unit_test(vectors_become_as_long_as_the_longest),
        cmocka_unit_test(a_large_sum_is_several_sections),
        cmocka_unit_test(only_the_compression_of_the_table_is_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
