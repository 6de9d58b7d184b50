/* dense_table_test.c — arrays cut into blocks, versions, and copies made of pieces. */
#include "kv/table/dense_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/half.h"

static dense_table_options array(uint32_t block) {
    return (dense_table_options){.dtype = MR_F32,
                                 .dims = 3,
                                 .shape = {7, 11, 13},
                                 .block = block,
                                 .states = 2,
                                 .init = {INITIALIZER_NORMAL, 0, 1, 5, 6}};
}

static dense_table *make(const dense_table_options *options, uint32_t block) {
    dense_table *table;
    assert_int_equal(dense_table_create(options, block, &table), MR_OK);
    return table;
}

static void how_it_is_cut_does_not_show_in_the_values(void **state) {
    enum { ITEMS = 7 * 11 * 13 };
    float whole[ITEMS], cut[ITEMS];
    for (uint32_t block = 64; block <= 1024; block *= 4) {
        dense_table_options options = array(block);
        dense_table_plan plan;
        assert_int_equal(dense_table_cut(&options, &plan), MR_OK);
        assert_int_equal(plan.items, ITEMS);
        assert_int_equal(plan.blocks, (ITEMS + block - 1) / block);
        for (uint32_t i = 0; i < plan.blocks; i++) {
            dense_table *table = make(&options, i);
            assert_int_equal(dense_table_items(table), dense_table_count(&plan, i));
            assert_int_equal((uintptr_t)dense_table_values(table) % 64, 0);
            dense_table_read(table, dense_table_values(table), 0, dense_table_items(table), MR_F32,
                             cut + dense_table_first(&plan, i));
            assert_true(dense_table_state(table, 1)[0] == 0 &&
                        dense_table_state(table, 0)[dense_table_items(table) - 1] == 0);
            dense_table_destroy(table);
        }
        if (block == 64) memcpy(whole, cut, sizeof whole);
        assert_memory_equal(whole, cut, sizeof whole);
    }
}

static void wrong_options_are_refused(void **state) {
    dense_table_options wrong[8];
    dense_table_plan plan;
    for (size_t i = 0; i < 8; i++) wrong[i] = array(64);
    wrong[0].dtype = MR_BOOL;
    wrong[1].dims = MR_TENSOR_DIMS_MAX + 1;
    wrong[2].shape[1] = 0;
    wrong[3].shape[0] = wrong[3].shape[1] = INT64_C(1) << 40;
    wrong[4].states = DENSE_TABLE_STATES_MAX + 1;
    wrong[5].dtype = MR_I64; /* counters have no state and no random initial values */
    wrong[6].init.b = -1;
    wrong[7].block = DENSE_TABLE_BLOCK_MAX + 1;
    for (size_t i = 0; i < 8; i++) assert_int_equal(dense_table_cut(&wrong[i], &plan), MR_INVALID);
    dense_table *table;
    dense_table_options good = array(64);
    assert_int_equal(dense_table_create(&good, 16, &table), MR_INVALID);
    alloc_fail_at(1);
    assert_int_equal(dense_table_create(&good, 0, &table), MR_NOMEM);
    assert_int_equal(dense_table_cut(&(dense_table_options){.dtype = MR_F32}, &plan), MR_OK);
    assert_true(plan.items == 1 && plan.blocks == 1); /* a scalar */
}

static void the_version_before_is_kept(void **state) {
    dense_table_options options = {.dtype = MR_BF16, .dims = 1, .shape = {100}, .versions = true};
    dense_table *table = make(&options, 0);
    assert_null(dense_table_kept(table));
    for (uint32_t version = 1; version < 5; version++) {
        const float *from = dense_table_values(table);
        float *to = dense_table_next(table);
        assert_ptr_not_equal(from, to);
        for (uint32_t i = 0; i < 100; i++) to[i] = from[i] + (float)i;
        dense_table_turn(table);
        assert_ptr_equal(dense_table_values(table), to);
        assert_ptr_equal(dense_table_kept(table), from);
        uint16_t out[2];
        dense_table_read(table, dense_table_kept(table), 7, 2, MR_BF16, out);
        assert_int_equal(out[1], half_to_bf16(8 * (float)(version - 1)));
    }
    dense_table_destroy(table);
    options.versions = false;
    table = make(&options, 0);
    assert_ptr_equal(dense_table_values(table), dense_table_next(table));
    dense_table_destroy(table);
}

static void counters_are_wide(void **state) {
    dense_table_options options = {.dtype = MR_I64, .dims = 1, .shape = {10}, .init = {INITIALIZER_CONSTANT, 3}};
    dense_table *table = make(&options, 0);
    ((int64_t *)dense_table_next(table))[9] += INT64_C(1) << 50;
    int64_t out[10];
    dense_table_read(table, dense_table_values(table), 0, 10, MR_I64, out);
    assert_true(out[0] == 3 && out[9] == (INT64_C(1) << 50) + 3);
    dense_table_destroy(table);
}

/* Pieces are packed while the table changes; later changes are applied to the copy. */
static void copies_are_made_in_pieces(void **state) {
    dense_table_options options = array(1024);
    options.versions = true;
    dense_table *one = make(&options, 0), *copy = make(&options, 0);
    uint32_t items = dense_table_items(one), sent = 0, first, count;
    uint8_t *piece = malloc(dense_table_piece_size(one, items)), *other = malloc(dense_table_piece_size(one, items));
    for (uint32_t step = 1; sent < items; step++) {
        dense_table *both[2] = {one, copy};
        for (size_t k = 0; k < 2; k++) {
            uint32_t until = k == 0 ? items : sent;
            const float *from = dense_table_values(both[k]);
            float *to = dense_table_next(both[k]);
            for (uint32_t i = 0; i < until; i++) {
                to[i] = from[i] * 0.5f + (float)step;
                dense_table_state(both[k], 1)[i] += from[i];
            }
            dense_table_turn(both[k]);
        }
        uint32_t size = items - sent < 150 ? items - sent : 150;
        dense_table_pack(one, sent, size, piece);
        assert_int_equal(dense_table_unpack(copy, span_of(piece, dense_table_piece_size(one, size)), &first, &count),
                         MR_OK);
        assert_true(first == sent && count == size);
        sent += size;
    }
    dense_table_pack(one, 0, items, piece);
    dense_table_pack(copy, 0, items, other);
    assert_memory_equal(piece, other, dense_table_piece_size(one, items));
    free(piece);
    free(other);
    dense_table_destroy(one);
    dense_table_destroy(copy);
}

static void damaged_pieces_are_refused(void **state) {
    dense_table_options options = array(64);
    dense_table *table = make(&options, 0);
    uint8_t piece[DENSE_TABLE_PIECE_HEAD + 3 * 4 * 4 + 1] = {0};
    uint32_t first, count;
    dense_table_pack(table, 60, 4, piece);
    size_t size = dense_table_piece_size(table, 4);
    assert_int_equal(size + 1, sizeof piece);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(dense_table_unpack(table, span_of(piece, cut), &first, &count), MR_CORRUPT);
    assert_int_equal(dense_table_unpack(table, span_of(piece, size + 1), &first, &count), MR_CORRUPT);
    const size_t at[] = {0, 4, 16, 20}; /* magic, arrays, first, count */
    for (size_t i = 0; i < 4; i++) {
        piece[at[i]] ^= 0x41;
        assert_int_not_equal(dense_table_unpack(table, span_of(piece, size), &first, &count), MR_OK);
        piece[at[i]] ^= 0x41;
    }
    assert_int_equal(dense_table_unpack(table, span_of(piece, size), &first, &count), MR_OK);
    dense_table_destroy(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_it_is_cut_does_not_show_in_the_values),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(the_version_before_is_kept),
        cmocka_unit_test(counters_are_wide),
        cmocka_unit_test(copies_are_made_in_pieces),
        cmocka_unit_test(damaged_pieces_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
