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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_as_long_as_the_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
