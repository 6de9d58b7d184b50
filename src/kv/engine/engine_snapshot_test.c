/* engine_snapshot_test.c — snapshots are reversible, and malformed snapshots and pushes change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/payload_builder.h"

static void no_other_bytes_are_read(void **state) {
    void *engine = engine_fixture_new(true), *other = engine_fixture_new(true), *plain = engine_fixture_new(false);
    payload_writer writer = {0};
    payload_define(&writer, (definition_options){.optimizer = "adam", .admit = 2});
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, (const uint64_t[]){1, 2}, 2, (const float[]){1, 2}, 1);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){1}, 1);
    payload_define(&writer, (definition_options){.id = 2, .kind = TABLE_SCHEMA_VECTORS});
    payload_vector(&writer, PAYLOAD_ADD_VECTORS, 2, 4, (const float[]){1, 2, 3}, 3);
    payload_define(&writer, (definition_options){.id = 3, .kind = TABLE_SCHEMA_DENSE, .block = 8});
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 3, (payload_place){0, 1, 4, 0}, (const float[]){1, 2, 3, 4}, 4);
    payload_plain(&writer, PAYLOAD_DROP, 9);
    engine_fixture_apply(engine, &writer, 1);
    shared_bytes *bytes = engine_fixture_bytes(engine);
    span all = shared_bytes_bytes(bytes);
    for (size_t size = 0; size < all.size; size++) assert_false(engine_ops.read(other, span_of(all.data, size)));
    assert_false(engine_ops.read(plain, all)); /* an engine without `keeps` */
    rng rng;
    rng_init(&rng, 5);
    for (int turn = 0; turn < 2000; turn++) { /* every decoded snapshot is encoded to the same bytes */
        shared_bytes *wrong = shared_bytes_copy(all);
        shared_bytes_room(wrong)[rng_below(&rng, all.size)] ^= (uint8_t)(1 << rng_below(&rng, 8));
        if (engine_ops.read(other, shared_bytes_bytes(wrong))) {
            shared_bytes *again = engine_fixture_bytes(other);
            assert_int_equal(shared_bytes_bytes(again).size, all.size);
            shared_bytes_unref(again);
        }
        shared_bytes_unref(wrong);
    }
    assert_true(engine_ops.read(other, all));
    engine_fixture_assert_same(engine, other);
    shared_bytes_unref(bytes);
    engine_ops.destroy(engine);
    engine_ops.destroy(other);
    engine_ops.destroy(plain);
}

static void a_malformed_snapshot_changes_nothing(void **state) {
    void *engine = engine_fixture_new(false);
    engine_fixture_define(engine, (definition_options){.dim = 2});
    shared_bytes *before = engine_fixture_bytes(engine);
    payload_writer writer = {0};
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, (const uint64_t[]){1, 2}, 2, (const float[]){1, 2, 3, 4}, 2);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, (const uint64_t[]){2, 1}, 2, (const float[]){1, 2, 3, 4}, 2);
    engine_ops.apply(engine, payload_written(&writer), 1); /* keys that do not ascend, after valid ones */
    payload_fini(&writer);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 7, (const uint64_t[]){1}, 1, (const float[]){1}, 1); /* unknown table */
    engine_ops.apply(engine, payload_written(&writer), 1);
    shared_bytes *none = engine_ops.show(engine, span_of("nonsense", 8), false);
    assert_int_equal(shared_bytes_bytes(none).size, 0);
    shared_bytes *after = engine_fixture_bytes(engine);
    assert_memory_equal(shared_bytes_bytes(before).data, shared_bytes_bytes(after).data,
                        shared_bytes_bytes(before).size);
    assert_int_equal(shared_bytes_bytes(before).size, shared_bytes_bytes(after).size);
    payload_fini(&writer);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){1, 2, 3}, 3); /* too long */
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 1, (payload_place){0, 0, 1, 0}, (const float[]){1}, 1);  /* no array */
    engine_fixture_apply(engine, &writer, 1);
    assert_int_equal(engine_fixture_look(engine).refused, 2);
    assert_int_equal(engine_fixture_look(engine).keys, 0);
    shared_bytes_unref(none);
    shared_bytes_unref(before);
    shared_bytes_unref(after);
    engine_ops.destroy(engine);
}

static void bytes_need_no_alignment(void **state) {
    void *engine = engine_fixture_new(false);
    engine_fixture_define(engine, (definition_options){.id = 1});
    payload_writer writer = {0};
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){5}, 1);
    span written = payload_written(&writer);
    uint8_t *odd = xmalloc(written.size + 3);
    memcpy(odd + 3, written.data, written.size);
    engine_ops.apply(engine, span_of(odd + 3, written.size), 1);
    shared_bytes *shown = engine_ops.show(engine, span_of(odd + 3, written.size), false);
    assert_int_equal(shared_bytes_bytes(shown).size, payload_section_size(PAYLOAD_ROWS, 1, 4));
    assert_true(engine_fixture_row(engine, 1, false) == 5);
    shared_bytes_unref(shown);
    free(odd);
    payload_fini(&writer);
    engine_ops.destroy(engine);
}

/* One apply of all kinds of tables: an old and a new row, a vector, a block. */
static void push_all(void *engine, float value) {
    payload_writer writer = {0};
    const uint64_t keys[] = {1, 5 + (uint64_t)value};
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 2, (const float[]){value, 2 * value}, 1);
    payload_vector(&writer, PAYLOAD_ADD_VECTORS, 2, 4, (const float[]){value, 2, 3}, 3);
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 3, (payload_place){0, 1, 4, 0}, (const float[]){1, value, 3, 4}, 4);
    engine_fixture_apply(engine, &writer, (uint64_t)value);
}

static shared_bytes *block_of(void *engine, bool kept) {
    payload_writer writer = {0};
    payload_get_block(&writer, 3, (payload_place){0, 1, 4, 0}, 4);
    shared_bytes *shown = engine_ops.show(engine, payload_written(&writer), kept);
    payload_fini(&writer);
    return shown;
}

/* The state of optimizers is not kept, so the engine that is behind has the result of the apply that it repeats. */
static void an_engine_that_is_behind_repeats_the_last_apply(void **state) {
    void *engine = engine_fixture_new(true), *behind = engine_fixture_new(true);
    engine_fixture_define(engine, (definition_options){.optimizer = "adam"});
    engine_fixture_define(engine, (definition_options){.id = 2, .kind = TABLE_SCHEMA_VECTORS});
    engine_fixture_define(
        engine, (definition_options){.id = 3, .kind = TABLE_SCHEMA_DENSE, .block = 8, .optimizer = "momentum"});
    push_all(engine, 1);
    float first = engine_fixture_row(engine, 1, false);
    shared_bytes *before = block_of(engine, false);
    push_all(engine, 2);
    assert_true(engine_fixture_row(engine, 1, false) != first);
    shared_bytes *kept = shared_bytes_new(engine_ops.size(engine));
    engine_ops.write_kept(engine, shared_bytes_room(kept));
    assert_true(engine_ops.read(behind, shared_bytes_bytes(kept)));
    for (int i = 0; i < 2; i++) { /* also as the version before */
        shared_bytes *shown = block_of(behind, i != 0);
        assert_true(engine_fixture_row(behind, 1, i != 0) == first && engine_fixture_row(behind, 7, i != 0) == 0);
        assert_int_equal(shared_bytes_bytes(shown).size, shared_bytes_bytes(before).size);
        assert_memory_equal(shared_bytes_bytes(shown).data, shared_bytes_bytes(before).data,
                            shared_bytes_bytes(before).size);
        shared_bytes_unref(shown);
    }
    shared_bytes *again = engine_fixture_bytes(behind); /* a new replica is behind, too */
    assert_memory_equal(shared_bytes_bytes(again).data, shared_bytes_bytes(kept).data, shared_bytes_bytes(kept).size);
    push_all(behind, 2);
    engine_fixture_assert_same(engine, behind);
    push_all(engine, 3);
    push_all(behind, 3);
    engine_fixture_assert_same(engine, behind);
    shared_bytes_unref(before);
    shared_bytes_unref(kept);
    shared_bytes_unref(again);
    engine_ops.destroy(engine);
    engine_ops.destroy(behind);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_bytes_are_read),
        cmocka_unit_test(a_malformed_snapshot_changes_nothing),
        cmocka_unit_test(bytes_need_no_alignment),
        cmocka_unit_test(an_engine_that_is_behind_repeats_the_last_apply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
