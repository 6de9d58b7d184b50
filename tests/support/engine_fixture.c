/* engine_fixture.c — see engine_fixture.h. */
#include "tests/support/engine_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/payload_builder.h"

shared_bytes *engine_fixture_bytes(void *engine) {
    shared_bytes *bytes = shared_bytes_new(engine_ops.size(engine));
    engine_ops.write(engine, shared_bytes_room(bytes));
    return bytes;
}

void engine_fixture_assert_same(void *a, void *b) {
    shared_bytes *left = engine_fixture_bytes(a), *right = engine_fixture_bytes(b);
    assert_int_equal(shared_bytes_bytes(left).size, shared_bytes_bytes(right).size);
    assert_memory_equal(shared_bytes_bytes(left).data, shared_bytes_bytes(right).data, shared_bytes_bytes(left).size);
    shared_bytes_unref(left);
    shared_bytes_unref(right);
}

void *engine_fixture_new(bool keeps) { return engine_ops.create(NULL, 0, keeps); }

void *engine_fixture_copy(void *engine, bool keeps) {
    void *copy = engine_fixture_new(keeps);
    shared_bytes *bytes = engine_fixture_bytes(engine);
    assert_true(engine_ops.read(copy, shared_bytes_bytes(bytes)));
    shared_bytes_unref(bytes);
    return copy;
}

void engine_fixture_apply(void *engine, payload_writer *writer, uint64_t moment) {
    engine_ops.apply(engine, payload_written(writer), moment);
    payload_fini(writer);
}

engine_fixture_answers engine_fixture_ask(void *engine, payload_writer *writer, bool kept) {
    engine_fixture_answers answers = {.bytes = engine_ops.show(engine, payload_written(writer), kept)};
    assert_int_equal(payload_check(shared_bytes_bytes(answers.bytes)), MR_OK);
    answers.reader = payload_open(shared_bytes_bytes(answers.bytes));
    payload_fini(writer);
    return answers;
}

payload_section engine_fixture_next(engine_fixture_answers *answers, payload_op op) {
    payload_section section;
    assert_true(payload_next(&answers->reader, &section));
    assert_int_equal(section.op, op);
    return section;
}

void engine_fixture_end(engine_fixture_answers *answers) {
    payload_section section;
    assert_false(payload_next(&answers->reader, &section));
    shared_bytes_unref(answers->bytes);
}

const float *engine_fixture_floats(const payload_section *section) {
    return (const float *)(const void *)section->values.data;
}

void engine_fixture_define(void *engine, definition_options options) {
    payload_writer writer = {0};
    payload_define(&writer, options);
    engine_fixture_apply(engine, &writer, 1);
}

void engine_fixture_push(void *engine, uint64_t key, float value, uint64_t moment) {
    payload_writer writer = {0};
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, &key, 1, &value, 1);
    engine_fixture_apply(engine, &writer, moment);
}

float engine_fixture_row(void *engine, uint64_t key, bool kept) {
    payload_writer writer = {0};
    payload_keys(&writer, PAYLOAD_GET_ROWS, 1, &key, 1);
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, kept);
    payload_section section = engine_fixture_next(&answers, PAYLOAD_ROWS);
    float value = engine_fixture_floats(&section)[0];
    engine_fixture_end(&answers);
    return value;
}

payload_look engine_fixture_look(void *engine) {
    payload_writer writer = {0};
    payload_look look;
    payload_plain(&writer, PAYLOAD_GET_LOOK, 1);
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
    payload_section section = engine_fixture_next(&answers, PAYLOAD_LOOK);
    assert_int_equal(section.values.size, sizeof look);
    memcpy(&look, section.values.data, sizeof look);
    engine_fixture_end(&answers);
    return look;
}
