/* engine_fixture.h — storage engines for tests: create slots, apply payloads, check answers, compare the bytes of two
 * slots. An unexpected result fails the test. Tables have number 1 unless a function takes one. */
#pragma once
#include "kv/engine/engine.h"
#include "tests/support/payload_builder.h"

typedef struct engine_fixture_answers {
    shared_bytes *bytes;
    payload_reader reader;
} engine_fixture_answers;

void *engine_fixture_new(bool keeps);                /* a slot; keeps: the slot also keeps the previous version */
void *engine_fixture_copy(void *engine, bool keeps); /* another slot, filled with the bytes of this one */

shared_bytes *engine_fixture_bytes(void *engine);  /* the slot's whole state; the caller releases it */
void engine_fixture_assert_same(void *a, void *b); /* fails the test if they differ */

/* Both functions empty the writer. */
void engine_fixture_apply(void *engine, payload_writer *writer, uint64_t moment);
engine_fixture_answers engine_fixture_ask(void *engine, payload_writer *writer, bool kept);

/* returns the next answer, and asserts its op */
payload_section engine_fixture_next(engine_fixture_answers *answers, payload_op op);
void engine_fixture_end(engine_fixture_answers *answers); /* asserts that no answer is left; frees them */
const float *engine_fixture_floats(const payload_section *section);

void engine_fixture_define(void *engine, definition_options options);
void engine_fixture_push(void *engine, uint64_t key, float value, uint64_t moment); /* pushes to a row with one value */
float engine_fixture_row(void *engine, uint64_t key, bool kept);                    /* first value of the row */
payload_look engine_fixture_look(void *engine);
