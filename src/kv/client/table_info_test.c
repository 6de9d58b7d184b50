/* table_info_test.c — slots of a table's keys and blocks, whether its codec is lossy, and which slots have its
 * schema. */
#include "kv/client/table_info.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

enum { SLOTS = 7 };

static cluster_map map_of(consistency_kind kind, bool mixed) {
    bool rounds = mixed || kind == CONSISTENCY_BSP;
    return (cluster_map){
        .number = 1, .consistency = {kind, 3}, .mixed = mixed, .slot_count = SLOTS * (mixed ? 2 : 1) + rounds};
}

/* MR_OK: the caller ends *out. */
static mr_status table_info_of(const mr_ps_table_options *options, uint32_t id, const cluster_map *map,
                               table_info *out) {
    table_catalog_table table;
    assert_int_equal(table_catalog_table_init(&table, "table", options), MR_OK);
    table.schema.id = id;
    mr_status status = table_info_init(out, &table, map);
    table_catalog_table_fini(&table);
    return status;
}

static void it_knows_its_table(void **state) {
    const mr_ps_table_options options = {.dim = 5, .dtype = MR_F16, .optimizer = "adam"};
    cluster_map map = map_of(CONSISTENCY_SSP, false);
    table_info table;
    table_schema read;
    assert_int_equal(table_info_of(&options, 9, &map, &table), MR_OK);
    assert_true(table.id == 9 && !table.dropped && !table_info_in_rounds(&table));
    /* the deployment's default */
    assert_true(table.consistency.kind == CONSISTENCY_SSP && table.consistency.bound == 3);
    assert_string_equal(table.table.name, "table");
    assert_int_equal(table_schema_decode(span_of(table.define, sizeof table.define), &read), MR_OK);
    assert_null(table_schema_differs(&read, &table.table.schema));
    assert_int_equal(read.id, 9);
    table_info_fini(&table);
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
        cluster_map map = map_of(cases[i].kind, cases[i].mixed);
        table_info table;
        assert_int_equal(table_info_of(&options, 1, &map, &table), MR_OK);
        assert_int_equal(table.placement.first_slot, cases[i].first);
        assert_int_equal(table.placement.slots, SLOTS);
        assert_int_equal(table_info_in_rounds(&table), cases[i].rounds);
        for (uint64_t key = 0; key < 100; key++)
            assert_in_range(slot_placement_slot(&table.placement, key), cases[i].first, cases[i].first + SLOTS - 1);
        table_info_fini(&table);
    }
}

static void where_there_are_no_such_slots_it_is_refused(void **state) {
    table_info table;
    const mr_ps_table_options rounds = {.consistency = "bsp"}, none = {.consistency = "asp"};
    cluster_map without = map_of(CONSISTENCY_ASP, false), with = map_of(CONSISTENCY_BSP, false);
    assert_int_equal(table_info_of(&rounds, 1, &without, &table), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "no rounds"));
    assert_int_equal(table_info_of(&none, 1, &with, &table), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "tables with rounds only"));
}

/* The blocks of all arrays are assigned to the slots in turn. */
static void blocks_lie_evenly(void **state) {
    const mr_ps_array arrays[] = {
        {.name = "a", .dims = 1, .shape = {95}}, {.name = "b", .dims = 2, .shape = {3, 17}}, {.name = "c"}};
    const mr_ps_table_options options = {.kind = MR_PS_DENSE, .arrays = arrays, .array_count = 3, .block = 10};
    static const uint32_t blocks[] = {10, 6, 1};
    cluster_map map = map_of(CONSISTENCY_ASP, true);
    uint32_t beginnings = 0;
    for (uint32_t id = 1; id <= 20; id++) {
        table_info table;
        uint32_t counts[SLOTS] = {0}, number = 0, first = 0;
        assert_int_equal(table_info_of(&options, id, &map, &table), MR_OK);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(table.arrays[i].plan.blocks, blocks[i]);
            assert_int_equal(table.arrays[i].first_block, number);
            for (uint32_t k = 0; k < blocks[i]; k++, number++) {
                uint32_t slot = table_info_block_slot(&table, i, k);
                assert_in_range(slot, SLOTS, 2 * SLOTS - 1);
                if (number == 0) first = slot - SLOTS;
                assert_int_equal(slot - SLOTS, (first + number) % SLOTS);
                counts[slot - SLOTS]++;
            }
        }
        for (uint32_t i = 0; i < SLOTS; i++) assert_in_range(counts[i], 17 / SLOTS, 17 / SLOTS + 1);
        beginnings |= 1U << first;
        table_info_fini(&table);
    }
    assert_true(__builtin_popcount(beginnings) > SLOTS / 2); /* tables begin at different slots */
}

static void keys_of_an_ordered_table_lie_in_order(void **state) {
    const mr_ps_table_options options = {.ordered = 1, .first_key = 100, .last_key = 799};
    cluster_map map = map_of(CONSISTENCY_ASP, false);
    table_info table;
    assert_int_equal(table_info_of(&options, 1, &map, &table), MR_OK);
    for (uint64_t key = 100; key <= 799; key++)
        assert_int_equal(slot_placement_slot(&table.placement, key), (key - 100) / 100);
    table_info_fini(&table);
}

static void the_loss_of_its_codec(void **state) {
    static const struct {
        const char *codec;
        mr_dtype dtype;
        bool lossy;
    } cases[] = {{"none", MR_F32, false}, {"fp16", MR_F32, true},     {"fp16", MR_F16, false},
                 {"bf16", MR_F16, true},  {"bf16", MR_BF16, false},   {"int8", MR_BF16, true},
                 {"sign", MR_F32, true},  {"topk:0.5", MR_F32, true}, {"randk", MR_F32, true}};
    cluster_map map = map_of(CONSISTENCY_ASP, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mr_ps_table_options options = {.compression = cases[i].codec, .dtype = cases[i].dtype};
        table_info table;
        assert_int_equal(table_info_of(&options, 1, &map, &table), MR_OK);
        assert_int_equal(table_info_is_lossy(&table), cases[i].lossy);
        table_info_fini(&table);
    }
}

static void marks_are_those_of_a_generation(void **state) {
    const mr_ps_table_options options = {.dim = 1, .consistency = "asp"};
    cluster_map map = map_of(CONSISTENCY_ASP, true);
    table_info table;
    assert_int_equal(table_info_of(&options, 1, &map, &table), MR_OK);
    for (uint32_t i = SLOTS; i < 2 * SLOTS; i++) {
        table_info_mark *mark = table_info_mark_of(&table, i, 5);
        assert_true(mark->first == 0 && mark->batch == 0 && mark->query == 0);
        *mark = (table_info_mark){i, i + 1, i + 2};
    }
    for (uint32_t i = SLOTS; i < 2 * SLOTS; i++) assert_int_equal(table_info_mark_of(&table, i, 5)->batch, i + 1);
    /* another generation: no slot has the schema */
    assert_int_equal(table_info_mark_of(&table, 2 * SLOTS - 1, 6)->batch, 0);
    assert_int_equal(table_info_mark_of(&table, SLOTS, 6)->query, 0);
    table_info_fini(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_knows_its_table),
        cmocka_unit_test(it_lies_where_its_consistency_says),
        cmocka_unit_test(where_there_are_no_such_slots_it_is_refused),
        cmocka_unit_test(blocks_lie_evenly),
        cmocka_unit_test(keys_of_an_ordered_table_lie_in_order),
        cmocka_unit_test(the_loss_of_its_codec),
        cmocka_unit_test(marks_are_those_of_a_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
