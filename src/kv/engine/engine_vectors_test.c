/* engine_vectors_test.c — vectors by key: sums of different lengths, present and previous version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/engine_fixture.h"
#include "tests/support/payload_builder.h"

static void vectors_are_as_long_as_the_longest(void **state) {
    void *engine = engine_fixture_new(true);
    payload_writer writer = {0};
    payload_define(&writer, (definition_options){.kind = TABLE_SCHEMA_VECTORS});
    payload_vector(&writer, PAYLOAD_ADD_VECTORS, 1, 4, (const float[]){1, 2, 3}, 3);
    engine_fixture_apply(engine, &writer, 1);
    payload_vector(&writer, PAYLOAD_ADD_VECTORS, 1, 4, (const float[]){1}, 1);
    payload_vector(&writer, PAYLOAD_SET_VECTORS, 1, 6, (const float[]){5, 5}, 2);
    engine_fixture_apply(engine, &writer, 2);
    for (int kept = 0; kept < 2; kept++) {
        payload_keys(&writer, PAYLOAD_GET_VECTORS, 1, (const uint64_t[]){4, 5, 6}, 3);
        engine_fixture_answers answers = engine_fixture_ask(engine, &writer, kept);
        payload_section section = engine_fixture_next(&answers, PAYLOAD_VECTORS);
        assert_true(section.lengths[0] == 3 && section.lengths[1] == 0 && section.lengths[2] == (kept ? 0 : 2));
        assert_true(engine_fixture_floats(&section)[0] == (kept ? 1 : 2) && engine_fixture_floats(&section)[2] == 3);
        engine_fixture_end(&answers);
    }
    engine_ops.destroy(engine);
}

/* Vectors that together exceed a message are refused; one of them fits. */
static void an_answer_has_a_limit(void **state) {
    enum { ITEMS = PAYLOAD_ANSWER_MAX / (int)sizeof(float) / 2 + 1 };
    float *values = calloc(ITEMS, sizeof *values);
    void *engine = engine_fixture_new(false);
    payload_writer writer = {0};
    assert_non_null(values);
    payload_define(&writer, (definition_options){.kind = TABLE_SCHEMA_VECTORS});
    engine_fixture_apply(engine, &writer, 1);
    for (uint64_t key = 1; key <= 2; key++) {
        payload_vector(&writer, PAYLOAD_ADD_VECTORS, 1, key, values, ITEMS);
        engine_fixture_apply(engine, &writer, 2);
    }
    payload_keys(&writer, PAYLOAD_GET_VECTORS, 1, (const uint64_t[]){1, 2}, 2);
    payload_keys(&writer, PAYLOAD_GET_VECTORS, 1, (const uint64_t[]){2}, 1);
    payload_keys(&writer, PAYLOAD_GET_VECTORS, 1, (const uint64_t[]){1}, 1);
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
    assert_int_equal(engine_fixture_next(&answers, PAYLOAD_NONE).count, PAYLOAD_TOO_LARGE);
    assert_int_equal(engine_fixture_next(&answers, PAYLOAD_VECTORS).lengths[0], ITEMS);
    assert_int_equal(engine_fixture_next(&answers, PAYLOAD_NONE).count, PAYLOAD_TOO_LARGE); /* no room is left */
    engine_fixture_end(&answers);
    engine_ops.destroy(engine);
    free(values);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_as_long_as_the_longest),
        cmocka_unit_test(an_answer_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
