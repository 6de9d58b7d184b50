/* shelves.c — see shelves.h. */
#include "tests/support/shelves.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/parcels.h"

bale *shelves_bytes(void *shelf) {
    bale *bale = bale_new(shelf_ops.size(shelf));
    shelf_ops.write(shelf, bale_room(bale));
    return bale;
}

void shelves_assert_same(void *a, void *b) {
    bale *left = shelves_bytes(a), *right = shelves_bytes(b);
    assert_int_equal(bale_bytes(left).size, bale_bytes(right).size);
    assert_memory_equal(bale_bytes(left).data, bale_bytes(right).data, bale_bytes(left).size);
    bale_unref(left);
    bale_unref(right);
}

void *shelves_new(bool keeps) { return shelf_ops.create(NULL, 0, keeps); }

void *shelves_copy(void *shelf, bool keeps) {
    void *copy = shelves_new(keeps);
    bale *bytes = shelves_bytes(shelf);
    assert_true(shelf_ops.read(copy, bale_bytes(bytes)));
    bale_unref(bytes);
    return copy;
}

void shelves_apply(void *shelf, parcel_writer *writer, uint64_t moment) {
    shelf_ops.apply(shelf, parcel_written(writer), moment);
    parcel_fini(writer);
}

shelves_answers shelves_ask(void *shelf, parcel_writer *writer, bool kept) {
    shelves_answers answers = {.bale = shelf_ops.show(shelf, parcel_written(writer), kept)};
    assert_int_equal(parcel_check(bale_bytes(answers.bale)), MR_OK);
    answers.reader = parcel_open(bale_bytes(answers.bale));
    parcel_fini(writer);
    return answers;
}

parcel_section shelves_next(shelves_answers *answers, parcel_op op) {
    parcel_section section;
    assert_true(parcel_next(&answers->reader, &section));
    assert_int_equal(section.op, op);
    return section;
}

void shelves_end(shelves_answers *answers) {
    parcel_section section;
    assert_false(parcel_next(&answers->reader, &section));
    bale_unref(answers->bale);
}

const float *shelves_floats(const parcel_section *section) { return (const float *)(const void *)section->values.data; }

void shelves_define(void *shelf, definition_options options) {
    parcel_writer writer = {0};
    parcels_define(&writer, options);
    shelves_apply(shelf, &writer, 1);
}

void shelves_push(void *shelf, uint64_t key, float value, uint64_t moment) {
    parcel_writer writer = {0};
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, &key, 1, &value, 1);
    shelves_apply(shelf, &writer, moment);
}

float shelves_row(void *shelf, uint64_t key, bool kept) {
    parcel_writer writer = {0};
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, &key, 1);
    shelves_answers answers = shelves_ask(shelf, &writer, kept);
    parcel_section section = shelves_next(&answers, PARCEL_ROWS);
    float value = shelves_floats(&section)[0];
    shelves_end(&answers);
    return value;
}

parcel_look shelves_look(void *shelf) {
    parcel_writer writer = {0};
    parcel_look look;
    parcels_plain(&writer, PARCEL_GET_LOOK, 1);
    shelves_answers answers = shelves_ask(shelf, &writer, false);
    parcel_section section = shelves_next(&answers, PARCEL_LOOK);
    assert_int_equal(section.values.size, sizeof look);
    memcpy(&look, section.values.data, sizeof look);
    shelves_end(&answers);
    return look;
}
