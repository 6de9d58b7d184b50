/* scatter_test.c — answers are written to their places in the caller's memory; malformed answers are not. */
#include "kv/client/scatter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"

enum { SIZE = SHM_EXPORT_FRONT + (1 << 20), PROCESS = 5 };

/* Writes a payload with one section, and reads the section back. */
static payload_section section_of(payload_writer *writer, payload_op op, uint32_t count, uint64_t version,
                                  const void *values, size_t bytes) {
    payload_head head = {.table = 1, .op = op, .dtype = MR_F32, .count = count};
    payload_room room;
    payload_section section;
    assert_int_equal(payload_add(writer, head, bytes, &room), MR_OK);
    *room.version = version;
    for (uint32_t i = 0; room.lengths != NULL && i < count; i++) room.lengths[i] = i + 1;
    if (bytes != 0) memcpy(room.values, values, bytes);
    payload_reader reader = payload_open(payload_written(writer));
    assert_true(payload_next(&reader, &section));
    return section;
}

static void rows_of_any_size_find_their_places(void **state) {
    static const uint32_t places[] = {2, 0};
    for (size_t row = 4; row <= 256; row += 4) {
        payload_writer writer = {0};
        uint8_t values[512], to[768];
        for (size_t i = 0; i < sizeof values; i++) values[i] = (uint8_t)(i * 7);
        memset(to, 0xee, sizeof to);
        scatter part = {.kind = SCATTER_ROWS,
                        .count = 2,
                        .places = places,
                        .to = to,
                        .bytes = row,
                        .wire = MR_F32,
                        .dtype = MR_F32};
        payload_section answer = section_of(&writer, PAYLOAD_ROWS, 2, 1, values, 2 * row);
        assert_int_equal(scatter_take(&part, &answer), MR_OK);
        assert_memory_equal(to + 2 * row, values, row);
        assert_memory_equal(to, values + row, row);
        for (size_t i = row; i < 2 * row; i++) assert_int_equal(to[i], 0xee);
        part.bytes = row + 4; /* another size than was asked for */
        assert_int_equal(scatter_take(&part, &answer), MR_CORRUPT);
        part.bytes = row;
        part.count = 1;
        assert_int_equal(scatter_take(&part, &answer), MR_CORRUPT);
        payload_fini(&writer);
    }
}

static void vectors_are_cut_or_end_with_zeros(void **state) {
    static const uint32_t places[] = {1, 0};
    static const uint64_t offsets[] = {0, 4, 20}; /* room for 1 and for 4 */
    static const float values[] = {1, 2, 3};      /* one vector of 1, one of 2 */
    float to[5] = {9, 9, 9, 9, 9};
    payload_writer writer = {0};
    scatter part = {.kind = SCATTER_VECTORS,
                    .count = 2,
                    .places = places,
                    .offsets = offsets,
                    .to = (uint8_t *)to,
                    .wire = MR_F32,
                    .dtype = MR_F32};
    payload_section answer = section_of(&writer, PAYLOAD_VECTORS, 2, 1, values, sizeof values);
    assert_int_equal(scatter_take(&part, &answer), MR_OK);
    assert_memory_equal(to, ((const float[]){2, 1, 0, 0, 0}), sizeof to);
    payload_fini(&writer);
}

static void why_there_is_nothing(void **state) {
    payload_writer writer = {0};
    payload_head head = {.table = 1, .op = PAYLOAD_NONE, .count = PAYLOAD_DROPPED};
    payload_room room;
    payload_section section;
    uint64_t version = 3, changed = 0;
    float to = 7;
    scatter part = {.kind = SCATTER_BLOCK, .count = 1, .to = (uint8_t *)&to, .bytes = sizeof to, .dtype = MR_F32};
    assert_int_equal(payload_add(&writer, head, 0, &room), MR_OK);
    head.count = PAYLOAD_TOO_LARGE;
    assert_int_equal(payload_add(&writer, head, 0, &room), MR_OK);
    head.count = PAYLOAD_UNKNOWN;
    assert_int_equal(payload_add(&writer, head, 0, &room), MR_OK);
    head.op = PAYLOAD_SAME;
    assert_int_equal(payload_add(&writer, head, 0, &room), MR_OK);
    static const mr_status expected[] = {MR_NOT_FOUND, MR_TOO_LARGE, MR_CORRUPT, MR_CORRUPT};
    payload_reader reader = payload_open(payload_written(&writer));
    for (int i = 0; i < 4; i++) {
        assert_true(payload_next(&reader, &section));
        assert_int_equal(scatter_take(&part, &section), expected[i]);
    }
    part.version = &version; /* without a version an unchanged answer is an error */
    part.changed = &changed;
    assert_int_equal(scatter_take(&part, &section), MR_OK);
    assert_true(version == 3 && changed == 0 && to == 7);
    payload_fini(&writer);
}

static void a_mark_knows_what_was_shown(void **state) {
    payload_writer writer = {0};
    uint64_t version = 3, changed = 4;
    float to = 7, value = 8;
    scatter part = {.kind = SCATTER_BLOCK,
                    .count = 1,
                    .to = (uint8_t *)&to,
                    .bytes = sizeof to,
                    .wire = MR_F32,
                    .dtype = MR_F32,
                    .version = &version,
                    .changed = &changed};
    payload_section answer = section_of(&writer, PAYLOAD_BLOCK, 1, 11, &value, sizeof value);
    assert_int_equal(scatter_take(&part, &answer), MR_OK);
    assert_true(version == 11 && changed == 5 && to == 8);
    payload_fini(&writer);
}

static const shm_import *see(void *context, uint64_t process) { return process == PROCESS ? context : NULL; }

static void a_block_is_copied_from_where_it_lies(void **state) {
    enum { ITEMS = 64 };
    shm_export *export;
    shm_import import;
    void *memory;
    payload_afar afar = {.process = PROCESS};
    payload_section answer = {
        .op = PAYLOAD_BLOCK, .flags = PAYLOAD_AFAR, .dtype = MR_F32, .count = ITEMS, .version = 2, .afar = afar};
    float to[ITEMS] = {0};
    assert_int_equal(shm_export_create(SIZE, &export), MR_OK);
    assert_int_equal(shm_export_take(export, sizeof to, &memory), MR_OK);
    memset(memory, 1, sizeof to);
    assert_int_equal(shm_import_open(shm_export_fd(export), &import), MR_OK);
    const remote_values_map_view map_view = {see, &import};
    scatter part = {.kind = SCATTER_BLOCK,
                    .count = ITEMS,
                    .to = (uint8_t *)to,
                    .bytes = sizeof to,
                    .wire = MR_F32,
                    .dtype = MR_F32,
                    .precision = MR_F32,
                    .map_view = &map_view};
    assert_true(shm_export_holds(export, memory, sizeof to, &answer.afar.offset));
    answer.afar.word = shm_export_word_take(export);
    answer.afar.value = shm_export_word(export, (uint32_t)answer.afar.word);
    assert_int_equal(scatter_take(&part, &answer), MR_OK);
    assert_memory_equal(to, memory, sizeof to);

    shm_export_change(export, (uint32_t)answer.afar.word); /* the block has changed */
    assert_int_equal(scatter_take(&part, &answer), MR_BUSY);
    shm_export_changed(export, (uint32_t)answer.afar.word);
    assert_int_equal(scatter_take(&part, &answer), MR_BUSY);
    answer.afar.value = shm_export_word(export, (uint32_t)answer.afar.word);
    answer.afar.process++; /* an export that is not imported */
    assert_int_equal(scatter_take(&part, &answer), MR_BUSY);
    answer.afar.process--;
    answer.afar.word |= UINT64_C(1) << 40;
    assert_int_equal(scatter_take(&part, &answer), MR_BUSY);
    answer.count--; /* another stretch than was asked for */
    assert_int_equal(scatter_take(&part, &answer), MR_CORRUPT);
    part.map_view = NULL; /* without remote reading */
    assert_int_equal(scatter_take(&part, &answer), MR_CORRUPT);
    shm_import_close(&import);
    shm_export_destroy(export);
}

/* Values are converted to the dtype of the caller's memory, from the answer and from the server's memory alike. */
static void halves_are_the_same_on_every_path(void **state) {
    enum { ITEMS = 5000 };
    static const mr_dtype halves[] = {MR_F16, MR_BF16};
    static float stored[ITEMS], wide[ITEMS], rounded[ITEMS];
    static uint16_t sent[ITEMS], narrow[ITEMS];
    shm_export *export;
    shm_import import;
    void *memory;
    for (size_t i = 0; i < ITEMS; i++) stored[i] = ((float)i - 2000) * 1.1f;
    assert_int_equal(shm_export_create(SIZE, &export), MR_OK);
    assert_int_equal(shm_export_take(export, sizeof stored, &memory), MR_OK);
    memcpy(memory, stored, sizeof stored);
    assert_int_equal(shm_import_open(shm_export_fd(export), &import), MR_OK);
    const remote_values_map_view map_view = {see, &import};
    payload_section there = {
        .op = PAYLOAD_BLOCK, .flags = PAYLOAD_AFAR, .dtype = MR_F32, .count = ITEMS, .afar = {.process = PROCESS}};
    assert_true(shm_export_holds(export, memory, sizeof stored, &there.afar.offset));
    there.afar.word = shm_export_word_take(export);
    there.afar.value = shm_export_word(export, (uint32_t)there.afar.word);
    for (int k = 0; k < 2; k++) {
        mr_dtype half = halves[k];
        for (size_t i = 0; i < ITEMS; i++) {
            sent[i] = half == MR_F16 ? half_to_fp16(stored[i]) : half_to_bf16(stored[i]);
            rounded[i] = half == MR_F16 ? half_from_fp16(sent[i]) : half_from_bf16(sent[i]);
        }
        const payload_section answer = {
            .op = PAYLOAD_BLOCK, .dtype = half, .count = ITEMS, .values = span_of(sent, sizeof sent)};
        scatter part = {.kind = SCATTER_BLOCK,
                        .count = ITEMS,
                        .to = (uint8_t *)wide,
                        .bytes = sizeof wide,
                        .wire = half,
                        .dtype = MR_F32,
                        .precision = half,
                        .map_view = &map_view};
        assert_int_equal(scatter_take(&part, &answer), MR_OK);
        assert_memory_equal(wide, rounded, sizeof wide);
        memset(wide, 0, sizeof wide);
        assert_int_equal(scatter_take(&part, &there), MR_OK);
        assert_memory_equal(wide, rounded, sizeof wide);
        part.dtype = half; /* memory of the caller that is as narrow as the answer */
        part.to = (uint8_t *)narrow;
        part.bytes = sizeof narrow;
        memset(narrow, 0, sizeof narrow);
        assert_int_equal(scatter_take(&part, &there), MR_OK);
        assert_memory_equal(narrow, sent, sizeof sent);
        memset(narrow, 0, sizeof narrow);
        assert_int_equal(scatter_take(&part, &answer), MR_OK);
        assert_memory_equal(narrow, sent, sizeof sent);
        part.wire = halves[1 - k]; /* another dtype than was asked for */
        assert_int_equal(scatter_take(&part, &answer), MR_CORRUPT);
    }
    shm_import_close(&import);
    shm_export_destroy(export);
}

static void rows_and_vectors_are_widened(void **state) {
    static const uint32_t places[] = {1, 0}, lengths[] = {2, 1};
    static const uint64_t offsets[] = {0, 4, 16}; /* room for 1 and for 3 */
    uint16_t sent[4];
    float to[4] = {9, 9, 9, 9};
    for (int i = 0; i < 4; i++) sent[i] = half_to_fp16((float)i + 0.5f);
    scatter part = {.kind = SCATTER_ROWS,
                    .count = 2,
                    .places = places,
                    .offsets = offsets,
                    .to = (uint8_t *)to,
                    .bytes = 2 * sizeof *to,
                    .wire = MR_F16,
                    .dtype = MR_F32};
    payload_section answer = {
        .op = PAYLOAD_ROWS, .dtype = MR_F16, .count = 2, .lengths = lengths, .values = span_of(sent, 4 * sizeof *sent)};
    assert_int_equal(scatter_take(&part, &answer), MR_OK);
    assert_memory_equal(to, ((const float[]){2.5f, 3.5f, 0.5f, 1.5f}), sizeof to);
    answer.values.size -= sizeof *sent;
    assert_int_equal(scatter_take(&part, &answer), MR_CORRUPT);
    part.kind = SCATTER_VECTORS;
    answer.op = PAYLOAD_VECTORS;
    assert_int_equal(scatter_take(&part, &answer), MR_OK);
    assert_memory_equal(to, ((const float[]){2.5f, 0.5f, 1.5f, 0}), sizeof to);
    answer.values.size -= sizeof *sent;
    assert_int_equal(scatter_take(&part, &answer), MR_CORRUPT);
}

static void abandoned_requests_are_not_sent(void **state) {
    static const uint32_t place = 0;
    static const float value = 1;
    float to = 9;
    uint64_t version = 3, changed = 0;
    payload_writer writer = {0};
    scatter part = {.kind = SCATTER_ROWS,
                    .count = 1,
                    .places = &place,
                    .to = (uint8_t *)&to,
                    .bytes = sizeof to,
                    .wire = MR_F32,
                    .dtype = MR_F32,
                    .version = &version,
                    .changed = &changed};
    payload_section answer = section_of(&writer, PAYLOAD_ROWS, 1, 4, &value, sizeof value);
    scatter_abandon(&part);
    assert_int_equal(scatter_take(&part, &answer), MR_OK);
    answer.op = PAYLOAD_SAME;
    assert_int_equal(scatter_take(&part, &answer), MR_OK);
    assert_true(to == 9 && version == 0 && changed == 0); /* the next conditional pull sends all values */
    payload_fini(&writer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_any_size_find_their_places),
        cmocka_unit_test(halves_are_the_same_on_every_path),
        cmocka_unit_test(rows_and_vectors_are_widened),
        cmocka_unit_test(vectors_are_cut_or_end_with_zeros),
        cmocka_unit_test(why_there_is_nothing),
        cmocka_unit_test(a_mark_knows_what_was_shown),
        cmocka_unit_test(a_block_is_copied_from_where_it_lies),
        cmocka_unit_test(abandoned_requests_are_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
