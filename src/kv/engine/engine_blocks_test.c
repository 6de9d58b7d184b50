/* engine_blocks_test.c — blocks of arrays: initial values, pushes, and values in the memory of another process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/engine_fixture.h"
#include "tests/support/payload_builder.h"

static void blocks_begin_where_the_array_does(void **state) {
    void *engine = engine_fixture_new(false);
    definition_options options = {
        .kind = TABLE_SCHEMA_DENSE, .block = 8, .initializer = "uniform:-1:1", .seed = 4, .optimizer = "momentum"};
    engine_fixture_define(engine, options);
    const payload_place second = {2, 1, 5, 0}, part = {2, 1, 5, 3};
    initializer init = {INITIALIZER_UNIFORM, -1, 1, 4, (uint64_t)1 << 32 | 2};
    float expected[5], speeds[5] = {0};
    initializer_fill(&init, MR_F32, 0, 8, 5, expected);
    for (int turn = 0; turn < 3; turn++) {
        const float gradient[] = {1, 2, 3, 4, 5};
        payload_writer writer = {0};
        payload_get_block(&writer, 1, part, 2);
        payload_block(&writer, PAYLOAD_ADD_BLOCK, 1, second, gradient, 5);
        engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
        payload_section section = engine_fixture_next(&answers, PAYLOAD_BLOCK);
        assert_memory_equal(section.values.data, expected + 3, 8);
        section = engine_fixture_next(&answers, PAYLOAD_BLOCK);
        assert_memory_equal(section.values.data, expected, 20);
        engine_fixture_end(&answers);
        payload_block(&writer, PAYLOAD_ADD_BLOCK, 1, second, gradient, 5);
        engine_fixture_apply(engine, &writer, 1);
        for (int i = 0; i < 5; i++) {
            speeds[i] = 0.9f * speeds[i] + gradient[i];
            expected[i] = expected[i] - 0.01f * speeds[i];
        }
    }
    assert_int_equal(engine_fixture_look(engine).keys, 1);
    engine_ops.destroy(engine);
}

/* ---- Remote values. */

enum { SEEN_ITEMS = 8192, SEEN_PROCESS = 9 };

typedef struct seen { /* a process that pushes and exports its memory */
    shm_export *export;
    shm_import import;
    float *values;
    remote_values_map_view map_view;
    engine_host host;
    void *engine;
} seen;

static const shm_import *see(void *context, uint64_t process) {
    const seen *seen = context;
    return process == SEEN_PROCESS ? &seen->import : NULL;
}

static void seen_begin(seen *seen, bool keeps) {
    void *memory;
    assert_int_equal(shm_export_create(SHM_EXPORT_FRONT + (4 << 20), &seen->export), MR_OK);
    assert_int_equal(shm_export_take(seen->export, SEEN_ITEMS * sizeof(float), &memory), MR_OK);
    assert_int_equal(shm_import_open(shm_export_fd(seen->export), &seen->import), MR_OK);
    seen->values = memory;
    for (int i = 0; i < SEEN_ITEMS; i++) seen->values[i] = (float)i;
    seen->map_view = (remote_values_map_view){see, seen};
    seen->host = (engine_host){.map_view = &seen->map_view, .export = seen->export, .process = SEEN_PROCESS};
    seen->engine = engine_ops.create(&seen->host, 0, keeps);
    engine_fixture_define(seen->engine, (definition_options){.kind = TABLE_SCHEMA_DENSE, .block = SEEN_ITEMS});
}

static void seen_end(seen *seen) {
    uint64_t used = shm_export_used(seen->export);
    engine_ops.destroy(seen->engine);
    assert_true(shm_export_used(seen->export) < used); /* the engine's blocks were in the export */
    shm_import_close(&seen->import);
    shm_export_destroy(seen->export);
}

static void write_afar(const seen *seen, payload_writer *writer) {
    payload_head head = {
        .table = 1, .op = PAYLOAD_ADD_BLOCK, .flags = PAYLOAD_AFAR, .dtype = MR_F32, .count = SEEN_ITEMS};
    payload_afar afar = {.process = SEEN_PROCESS};
    payload_room room;
    assert_true(shm_export_holds(seen->export, seen->values, SEEN_ITEMS * sizeof(float), &afar.offset));
    assert_int_equal(payload_add(writer, head, sizeof afar, &room), MR_OK);
    *room.place = (payload_place){0, 0, SEEN_ITEMS, 0};
    memcpy(room.values, &afar, sizeof afar);
}

/* Place of the block, in the present or the kept version. */
static payload_afar look_for(const seen *seen, bool kept) {
    payload_writer writer = {0};
    payload_get_block(&writer, 1, (payload_place){0, 0, SEEN_ITEMS, 4}, SEEN_ITEMS - 4);
    shared_bytes_room(writer.bytes)[5] |= PAYLOAD_AFAR;
    engine_fixture_answers answers = engine_fixture_ask(seen->engine, &writer, kept);
    payload_section section = engine_fixture_next(&answers, PAYLOAD_BLOCK);
    assert_int_equal(section.flags, PAYLOAD_AFAR);
    assert_true(section.afar.process == SEEN_PROCESS && section.count == SEEN_ITEMS - 4);
    engine_fixture_end(&answers);
    return section.afar;
}

static bool sees(const seen *seen, const payload_afar *afar, float factor) {
    static float copy[SEEN_ITEMS - 4];
    if (!shm_import_copy(&seen->import, (uint32_t)afar->word, afar->value, afar->offset, sizeof copy, false, copy))
        return false;
    for (int i = 0; i < SEEN_ITEMS - 4; i++) assert_true(copy[i] == factor * (float)(i + 4));
    return true;
}

static void a_push_is_read_where_it_lies_once_it_is_settled(void **state) {
    seen seen;
    payload_writer writer = {0};
    shared_bytes *own = NULL;
    seen_begin(&seen, false);
    write_afar(&seen, &writer);
    span push = payload_written(&writer);
    engine_ops.apply(seen.engine, push, 1); /* not settled, so not read: another replica could not read it */
    assert_int_equal(engine_fixture_look(seen.engine).refused, 1);
    assert_true(engine_ops.settle(&seen.host, push, true, &own));
    assert_null(own);
    engine_ops.apply(seen.engine, push, 1);
    assert_int_equal(engine_fixture_look(seen.engine).refused, 1);
    payload_afar first = look_for(&seen, false);
    assert_true(sees(&seen, &first, 1));
    engine_ops.apply(seen.engine, push, 2); /* the settling was for one apply */
    assert_int_equal(engine_fixture_look(seen.engine).refused, 2);
    assert_true(sees(&seen, &first, 1));
    assert_true(engine_ops.settle(&seen.host, push, false, &own)); /* any replica can apply the copied bytes */
    assert_non_null(own);
    engine_ops.apply(seen.engine, shared_bytes_bytes(own), 2);
    shared_bytes_unref(own);
    assert_false(sees(&seen, &first, 1)); /* the block has changed */
    first = look_for(&seen, false);
    assert_true(sees(&seen, &first, 2));
    assert_false(engine_ops.settle(NULL, push, true, &own));
    payload_fini(&writer);
    seen_end(&seen);
}

static void the_previous_version_stays_readable(void **state) {
    seen seen;
    payload_writer writer = {0};
    seen_begin(&seen, true);
    payload_afar shown[4];
    for (int i = 1; i <= 3; i++) {
        payload_block(&writer, PAYLOAD_ADD_BLOCK, 1, (payload_place){0, 0, SEEN_ITEMS, 0}, seen.values, SEEN_ITEMS);
        engine_fixture_apply(seen.engine, &writer, (uint64_t)i);
        shown[i] = look_for(&seen, false);
        assert_true(sees(&seen, &shown[i], (float)i));
        if (i == 1) continue;
        assert_true(sees(&seen, &shown[i - 1], (float)(i - 1))); /* the next version was written to the other array */
        payload_afar kept = look_for(&seen, true);
        assert_memory_equal(&kept, &shown[i - 1], sizeof kept);
    }
    assert_false(sees(&seen, &shown[1], 1)); /* the version after that overwrote the first array */
    seen_end(&seen);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_begin_where_the_array_does),
        cmocka_unit_test(a_push_is_read_where_it_lies_once_it_is_settled),
        cmocka_unit_test(the_previous_version_stays_readable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
