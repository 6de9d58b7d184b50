/* snapshot_merge_test.c — the snapshots of slots become those of another number of slots, and the same bytes again. */
#include "kv/checkpoint/snapshot_merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "kv/engine/engine_internal.h"
#include "kv/table/dense_table.h"
#include "ps/slot_placement.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/snapshot_fixture.h"

enum { SLOTS = 5, LIMIT = 1 << 24, HEAD = 8 + 16 + SNAPSHOT_FIXTURE_RANKS * 8 + 5 + 4 };

/* The catalog of all tables of the fixture. */
static table_catalog catalog_of_all(void) {
    table_catalog out = snapshot_fixture_names();
    const mr_ps_table_options options = {.dim = 1, .admit = 2};
    table_catalog_table table;
    assert_int_equal(table_catalog_table_init(&table, "few", &options), MR_OK);
    snapshot_fixture_add(&out, &table);
    table_catalog_table_fini(&table);
    return out;
}

/* Makes `slots` snapshots of `count` others. */
static void change(const buffer *from, uint32_t count, bool rounds, buffer *to, uint32_t slots) {
    table_catalog catalog = catalog_of_all();
    span spans[SLOTS];
    snapshot_merge *merge;
    for (uint32_t i = 0; i < count; i++) spans[i] = span_of(from[i].data, from[i].size);
    assert_int_equal(snapshot_merge_open(spans, count, rounds, &catalog, slots, &merge), MR_OK);
    for (uint32_t i = 0; i < slots; i++) assert_int_equal(snapshot_merge_write(merge, i, &to[i]), MR_OK);
    snapshot_merge_close(merge);
    table_catalog_fini(&catalog);
}

static void init_all(buffer *buffers, size_t count) {
    for (size_t i = 0; i < count; i++) buffer_init(&buffers[i], LIMIT);
}
static void fini_all(buffer *buffers, size_t count) {
    for (size_t i = 0; i < count; i++) buffer_fini(&buffers[i]);
}

static void fill(buffer *out, bool keeps) {
    shared_bytes *shard = snapshot_fixture_shard_of_tables(keeps);
    buffer_init(out, LIMIT);
    assert_int_equal(buffer_append(out, shared_bytes_bytes(shard).data, shared_bytes_bytes(shard).size), MR_OK);
    shared_bytes_unref(shard);
}

static void assert_equal(const buffer *a, const buffer *b) {
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->data, b->data, a->size);
}

/* With the previous version the bytes of the last change are forgotten once, and nothing else. */
static void all_bytes_come_back(void **state) {
    for (int keeps = 0; keeps < 2; keeps++)
        for (uint32_t slots = 1; slots <= SLOTS; slots++) {
            buffer first, many[SLOTS], again;
            fill(&first, keeps != 0);
            init_all(many, SLOTS);
            buffer_init(&again, LIMIT);
            if (keeps != 0) { /* the same, without a change before it */
                change(&first, 1, true, &again, 1);
                assert_true(again.size < first.size);
                buffer_clear(&first);
                assert_int_equal(buffer_append(&first, again.data, again.size), MR_OK);
            }
            change(&first, 1, true, many, slots);
            change(many, slots, true, &again, 1);
            assert_equal(&first, &again);
            fini_all(many, SLOTS);
            buffer_fini(&first);
            buffer_fini(&again);
        }
}

static void *engine_of(const buffer *snapshot) {
    void *engine = engine_ops.create(NULL, 0, false);
    assert_true(engine_ops.read(engine, span_of(snapshot->data + HEAD, snapshot->size - HEAD)));
    return engine;
}

/* First value of a block of array 1 of the table "net". */
static float block_value(void *engine, uint32_t block) {
    payload_writer writer = {0};
    payload_get_block(&writer, 3, (payload_place){1, block, 4, 0}, 4);
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
    payload_section section = engine_fixture_next(&answers, PAYLOAD_BLOCK);
    float value = engine_fixture_floats(&section)[3];
    engine_fixture_end(&answers);
    return value;
}

static uint64_t keys_of(void *engine, uint32_t table, uint64_t *candidates) {
    payload_writer writer = {0};
    payload_look look;
    payload_plain(&writer, PAYLOAD_GET_LOOK, table);
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
    payload_section section = engine_fixture_next(&answers, PAYLOAD_LOOK);
    memcpy(&look, section.values.data, sizeof look);
    engine_fixture_end(&answers);
    *candidates += look.candidates;
    return look.keys;
}

/* Each key is in the slot in which workers look for it, and in no other. */
static void keys_are_where_workers_look(void **state) {
    static const uint64_t keys[] = {3, 9, 1000000007};
    const slot_placement_table placement = {.order = SLOT_PLACEMENT_HASHED, .slots = SLOTS};
    buffer first, many[SLOTS];
    uint64_t rows = 0, few = 0, candidates = 0, vectors = 0;
    fill(&first, false);
    init_all(many, SLOTS);
    change(&first, 1, true, many, SLOTS);
    void *before = engine_of(&first);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        void *engine = engine_of(&many[slot]);
        for (size_t i = 0; i < 3; i++) {
            bool here = slot_placement_slot(&placement, keys[i]) == slot;
            assert_true(engine_fixture_row(engine, keys[i], false) ==
                        (here ? engine_fixture_row(before, keys[i], false) : 0));
        }
        bool here = dense_table_slot(3, 3 + 2, SLOTS) == slot; /* array 0 has three blocks */
        assert_true(block_value(engine, 2) == (here ? block_value(before, 2) : 0));
        rows += keys_of(engine, 1, &candidates);
        vectors += keys_of(engine, 2, &candidates);
        few += keys_of(engine, 4, &candidates);
        engine_ops.destroy(engine);
    }
    assert_true(rows == 3 && vectors == 2 && few == 1 && candidates == 1);
    assert_true(engine_fixture_row(before, 3, false) != 0 && block_value(before, 2) != 0);
    engine_ops.destroy(before);
    fini_all(many, SLOTS);
    buffer_fini(&first);
}

static uint64_t name_of(const buffer *snapshot, size_t rank) {
    uint64_t name;
    memcpy(&name, snapshot->data + 24 + rank * 8, sizeof name);
    return name;
}

static void set_name(buffer *snapshot, size_t rank, uint64_t name) {
    memcpy(snapshot->data + 24 + rank * 8, &name, sizeof name);
}

/* No push is applied twice: the latest step counts as pushed, whole, unless the slots have rounds. */
static void ranks_continue_after_their_latest_step(void **state) {
    buffer first, many[2], one;
    fill(&first, false);
    init_all(many, 2);
    buffer_init(&one, LIMIT);
    change(&first, 1, true, many, 2);
    const uint64_t names[2][SNAPSHOT_FIXTURE_RANKS] = {{seq_tick(7), seq_of(9, 2), seq_left(4)},
                                                       {seq_of(6, 3), seq_tick(8), seq_tick(4)}};
    for (size_t i = 0; i < 2; i++)
        for (size_t rank = 0; rank < SNAPSHOT_FIXTURE_RANKS; rank++) set_name(&many[i], rank, names[i][rank]);
    change(many, 2, false, &one, 1);
    assert_true(name_of(&one, 0) == seq_tick(7) && name_of(&one, 1) == seq_tick(9) && name_of(&one, 2) == seq_left(4));
    change(many, 2, true, &one, 1);
    assert_true(name_of(&one, 0) == seq_tick(7) && name_of(&one, 1) == seq_of(9, 2) && name_of(&one, 2) == seq_left(4));
    fini_all(many, 2);
    buffer_fini(&first);
    buffer_fini(&one);
}

static mr_status open_with(const buffer *snapshot, size_t size, uint32_t times, const table_catalog *catalog,
                           snapshot_merge **out) {
    span spans[2] = {span_of(snapshot->data, size), span_of(snapshot->data, size)};
    return snapshot_merge_open(spans, times, true, catalog, SLOTS, out);
}

static void damage_is_refused(void **state) {
    table_catalog catalog = catalog_of_all();
    buffer first, out;
    snapshot_merge *merge;
    fill(&first, true);
    buffer_init(&out, LIMIT);
    for (size_t size = 0; size < first.size; size++) {
        mr_status status = open_with(&first, size, 1, &catalog, &merge);
        assert_int_equal(status, MR_CORRUPT);
    }
    assert_int_equal(open_with(&first, first.size, 2, &catalog, &merge), MR_OK); /* each key is in both slots */
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < SLOTS && status == MR_OK; i++) status = snapshot_merge_write(merge, i, &out);
    assert_int_equal(status, MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "two slots have the same key"));
    snapshot_merge_close(merge);
    table_catalog_fini(&catalog);
    catalog = snapshot_fixture_names(); /* without the last table: a catalog that is older than the snapshot */
    assert_int_equal(open_with(&first, first.size, 1, &catalog, &merge), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "table 4 of the checkpoint is not in the catalog"));
    table_catalog_fini(&catalog);
    buffer_fini(&first);
    buffer_fini(&out);
}

/* Slots that were saved inside a round are not divided: the repeated round needs both versions of a slot. */
static void a_round_is_ended_first(void **state) {
    table_catalog catalog = catalog_of_all();
    buffer first;
    snapshot_merge *merge;
    fill(&first, true);
    first.data[HEAD + 8] |= ENGINE_BEHIND;
    assert_int_equal(open_with(&first, first.size, 1, &catalog, &merge), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "slot 0 was saved inside a round"));
    table_catalog_fini(&catalog);
    buffer_fini(&first);
}

/* A table that the catalog does not list any more is left out. */
static void dropped_tables_go(void **state) {
    table_catalog catalog = catalog_of_all();
    buffer first, out;
    snapshot_merge *merge;
    fill(&first, false);
    buffer_init(&out, LIMIT);
    assert_true(table_catalog_remove(&catalog, 2));
    span bytes = span_of(first.data, first.size);
    assert_int_equal(snapshot_merge_open(&bytes, 1, true, &catalog, 1, &merge), MR_OK);
    assert_int_equal(snapshot_merge_write(merge, 0, &out), MR_OK);
    snapshot_merge_close(merge);
    void *engine = engine_of(&out);
    uint64_t candidates = 0;
    assert_int_equal(keys_of(engine, 1, &candidates), 3);
    payload_writer writer = {0};
    payload_plain(&writer, PAYLOAD_GET_LOOK, 2);
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
    assert_int_equal(engine_fixture_next(&answers, PAYLOAD_NONE).count, PAYLOAD_UNKNOWN);
    engine_fixture_end(&answers);
    engine_ops.destroy(engine);
    table_catalog_fini(&catalog);
    buffer_fini(&first);
    buffer_fini(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_bytes_come_back),    cmocka_unit_test(keys_are_where_workers_look),
        cmocka_unit_test(damage_is_refused),      cmocka_unit_test(ranks_continue_after_their_latest_step),
        cmocka_unit_test(a_round_is_ended_first), cmocka_unit_test(dropped_tables_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
