/* shelves.h — shelves for tests: slots, what is said to them, what they answer, and that two have the same bytes.
 *
 * What is not as it has to be fails the test. Tables are number 1 where nothing else is said. */
#pragma once
#include "kv/shelf/shelf.h"
#include "tests/support/parcels.h"

typedef struct shelves_answers {
    bale *bale;
    parcel_reader reader;
} shelves_answers;

void *shelves_new(bool keeps);               /* a slot; keeps: the version before, too */
void *shelves_copy(void *shelf, bool keeps); /* another one that has read its bytes */

bale *shelves_bytes(void *shelf);           /* its whole state; the caller's */
void shelves_assert_same(void *a, void *b); /* else the test has failed */

/* Both empty the writer. */
void shelves_apply(void *shelf, parcel_writer *writer, uint64_t moment);
shelves_answers shelves_ask(void *shelf, parcel_writer *writer, bool kept);

parcel_section shelves_next(shelves_answers *answers, parcel_op op); /* the next answer, which is this one */
void shelves_end(shelves_answers *answers);                          /* there is none; frees them */
const float *shelves_floats(const parcel_section *section);

void shelves_define(void *shelf, definition_options options);
void shelves_push(void *shelf, uint64_t key, float value, uint64_t moment); /* to a row of one */
float shelves_row(void *shelf, uint64_t key, bool kept);                    /* its first value */
parcel_look shelves_look(void *shelf);
