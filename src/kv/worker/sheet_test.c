/* sheet_test.c — a table as a worker has it: in which slots its keys and blocks lie, what its codec loses, and which
 * slots have heard of it. */
#include "kv/worker/sheet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

enum { SLOTS = 7 };

static chart chart_of(consistency_kind kind, bool mixed) {
    bool rounds = mixed || kind == CONSISTENCY_BSP;
    return (chart){
        .number = 1, .consistency = {kind, 3}, .mixed = mixed, .slot_count = SLOTS * (mixed ? 2 : 1) + rounds};
}

/* MR_OK: it is to be ended. */
static mr_status sheet_of(const mr_ps_table_options *options, uint32_t id, const chart *chart, sheet *out) {
    catalogue_table table;
    assert_int_equal(catalogue_table_init(&table, "table", options), MR_OK);
    table.definition.id = id;
    mr_status status = sheet_init(out, &table, chart);
    catalogue_table_fini(&table);
    return status;
}

static void it_knows_its_table(void **state) {
    const mr_ps_table_options options = {.dim = 5, .dtype = MR_F16, .optimizer = "adam"};
    chart chart = chart_of(CONSISTENCY_SSP, false);
    sheet sheet;
    definition read;
    assert_int_equal(sheet_of(&options, 9, &chart, &sheet), MR_OK);
    assert_true(sheet.id == 9 && !sheet.dropped && !sheet_in_rounds(&sheet));
    assert_true(sheet.item == 2 && sheet.row == 10);
    assert_true(sheet.consistency.kind == CONSISTENCY_SSP && sheet.consistency.bound == 3); /* the deployment's */
    assert_string_equal(sheet.table.name, "table");
    assert_int_equal(definition_decode(span_of(sheet.define, sizeof sheet.define), &read), MR_OK);
    assert_null(definition_differs(&read, &sheet.table.definition));
    assert_int_equal(read.id, 9);
    sheet_fini(&sheet);
}

/* In a mixed deployment the first half of the slots has rounds. */
static void it_lies_where_its_consistency_says(void **state) {
    static const struct {
        consistency_kind kind;
        bool mixed;
        const char *wanted;
        uint32_t first;
        bool rounds;
    } cases[] = {{CONSISTENCY_ASP, false, NULL, 0, false},       {CONSISTENCY_BSP, false, NULL, 0, true},
                 {CONSISTENCY_ASP, true, "bsp", 0, true},        {CONSISTENCY_ASP, true, "asp", SLOTS, false},
                 {CONSISTENCY_BSP, true, "ssp:4", SLOTS, false}, {CONSISTENCY_ASP, false, "ssp:1", 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mr_ps_table_options options = {.consistency = cases[i].wanted};
        chart chart = chart_of(cases[i].kind, cases[i].mixed);
        sheet sheet;
        assert_int_equal(sheet_of(&options, 1, &chart, &sheet), MR_OK);
        assert_int_equal(sheet.placement.first_slot, cases[i].first);
        assert_int_equal(sheet.placement.slots, SLOTS);
        assert_int_equal(sheet_in_rounds(&sheet), cases[i].rounds);
        for (uint64_t key = 0; key < 100; key++)
            assert_in_range(placement_slot(&sheet.placement, key), cases[i].first, cases[i].first + SLOTS - 1);
        sheet_fini(&sheet);
    }
}

static void where_there_are_no_such_slots_it_is_refused(void **state) {
    sheet sheet;
    const mr_ps_table_options rounds = {.consistency = "bsp"}, none = {.consistency = "asp"};
    chart without = chart_of(CONSISTENCY_ASP, false), with = chart_of(CONSISTENCY_BSP, false);
    assert_int_equal(sheet_of(&rounds, 1, &without, &sheet), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "no rounds"));
    assert_int_equal(sheet_of(&none, 1, &with, &sheet), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "tables with rounds only"));
}

/* Blocks of all arrays lie one after the other in the slots, in turn. */
static void blocks_lie_evenly(void **state) {
    const mr_ps_array arrays[] = {
        {.name = "a", .dims = 1, .shape = {95}}, {.name = "b", .dims = 2, .shape = {3, 17}}, {.name = "c"}};
    const mr_ps_table_options options = {.kind = MR_PS_DENSE, .arrays = arrays, .array_count = 3, .block = 10};
    static const uint32_t blocks[] = {10, 6, 1};
    chart chart = chart_of(CONSISTENCY_ASP, true);
    uint32_t beginnings = 0;
    for (uint32_t id = 1; id <= 20; id++) {
        sheet sheet;
        uint32_t counts[SLOTS] = {0}, number = 0, first = 0;
        assert_int_equal(sheet_of(&options, id, &chart, &sheet), MR_OK);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(sheet.arrays[i].plan.blocks, blocks[i]);
            assert_int_equal(sheet.arrays[i].first_block, number);
            for (uint32_t k = 0; k < blocks[i]; k++, number++) {
                uint32_t slot = sheet_block_slot(&sheet, i, k);
                assert_in_range(slot, SLOTS, 2 * SLOTS - 1);
                if (number == 0) first = slot - SLOTS;
                assert_int_equal(slot - SLOTS, (first + number) % SLOTS);
                counts[slot - SLOTS]++;
            }
        }
        for (uint32_t i = 0; i < SLOTS; i++) assert_in_range(counts[i], 17 / SLOTS, 17 / SLOTS + 1);
        beginnings |= 1U << first;
        sheet_fini(&sheet);
    }
    assert_true(__builtin_popcount(beginnings) > SLOTS / 2); /* tables do not all begin with the same slot */
}

static void keys_of_an_ordered_table_lie_in_order(void **state) {
    const mr_ps_table_options options = {.ordered = 1, .first_key = 100, .last_key = 799};
    chart chart = chart_of(CONSISTENCY_ASP, false);
    sheet sheet;
    assert_int_equal(sheet_of(&options, 1, &chart, &sheet), MR_OK);
    for (uint64_t key = 100; key <= 799; key++)
        assert_int_equal(placement_slot(&sheet.placement, key), (key - 100) / 100);
    sheet_fini(&sheet);
}

static void what_its_codec_loses(void **state) {
    static const struct {
        const char *codec;
        mr_dtype dtype;
        bool lossy;
    } cases[] = {{"none", MR_F32, false}, {"fp16", MR_F32, true},     {"fp16", MR_F16, false},
                 {"bf16", MR_F16, true},  {"bf16", MR_BF16, false},   {"int8", MR_BF16, true},
                 {"sign", MR_F32, true},  {"topk:0.5", MR_F32, true}, {"randk", MR_F32, true}};
    chart chart = chart_of(CONSISTENCY_ASP, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mr_ps_table_options options = {.compression = cases[i].codec, .dtype = cases[i].dtype};
        sheet sheet;
        assert_int_equal(sheet_of(&options, 1, &chart, &sheet), MR_OK);
        assert_int_equal(sheet_is_lossy(&sheet), cases[i].lossy);
        sheet_fini(&sheet);
    }
}

static void marks_are_those_of_a_generation(void **state) {
    const mr_ps_table_options options = {.dim = 1, .consistency = "asp"};
    chart chart = chart_of(CONSISTENCY_ASP, true);
    sheet sheet;
    assert_int_equal(sheet_of(&options, 1, &chart, &sheet), MR_OK);
    for (uint32_t i = SLOTS; i < 2 * SLOTS; i++) {
        sheet_mark *mark = sheet_mark_of(&sheet, i, 5);
        assert_true(mark->first == 0 && mark->batch == 0 && mark->query == 0);
        *mark = (sheet_mark){i, i + 1, i + 2};
    }
    for (uint32_t i = SLOTS; i < 2 * SLOTS; i++) assert_int_equal(sheet_mark_of(&sheet, i, 5)->batch, i + 1);
    assert_int_equal(sheet_mark_of(&sheet, 2 * SLOTS - 1, 6)->batch, 0); /* another one: nobody knows the table */
    assert_int_equal(sheet_mark_of(&sheet, SLOTS, 6)->query, 0);
    sheet_fini(&sheet);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_knows_its_table),
        cmocka_unit_test(it_lies_where_its_consistency_says),
        cmocka_unit_test(where_there_are_no_such_slots_it_is_refused),
        cmocka_unit_test(blocks_lie_evenly),
        cmocka_unit_test(keys_of_an_ordered_table_lie_in_order),
        cmocka_unit_test(what_its_codec_loses),
        cmocka_unit_test(marks_are_those_of_a_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
