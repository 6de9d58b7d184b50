/* engine_fixture.h — shelves for tests: slots, what is said to them, what they answer, and that two have the same
 * bytes.
 *
 * What is not as it has to be fails the test. Tables are number 1 where nothing else is said. */
#pragma once
#include "kv/engine/engine.h"
#include "tests/support/payload_builder.h"

typedef struct engine_fixture_answers {
    shared_bytes *bytes;
    payload_reader reader;
} engine_fixture_answers;

void *engine_fixture_new(bool keeps);                /* a slot; keeps: the version before, too */
void *engine_fixture_copy(void *engine, bool keeps); /* another one that has read its bytes */

shared_bytes *engine_fixture_bytes(void *engine);  /* its whole state; the caller's */
void engine_fixture_assert_same(void *a, void *b); /* else the test has failed */

/* Both empty the writer. */
void engine_fixture_apply(void *engine, payload_writer *writer, uint64_t moment);
engine_fixture_answers engine_fixture_ask(void *engine, payload_writer *writer, bool kept);

/* the next answer, which is this one */
payload_section engine_fixture_next(engine_fixture_answers *answers, payload_op op);
void engine_fixture_end(engine_fixture_answers *answers); /* there is none; frees them */
const float *engine_fixture_floats(const payload_section *section);

void engine_fixture_define(void *engine, definition_options options);
void engine_fixture_push(void *engine, uint64_t key, float value, uint64_t moment); /* to a row of one */
float engine_fixture_row(void *engine, uint64_t key, bool kept);                    /* its first value */
payload_look engine_fixture_look(void *engine);
