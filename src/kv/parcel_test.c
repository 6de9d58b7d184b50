/* parcel_test.c — sections come out as they were written, in place; what makes no sense is not read. */
#include "kv/parcel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

static parcel_room add(parcel_writer *writer, parcel_head head, size_t value_bytes) {
    parcel_room room;
    assert_int_equal(parcel_add(writer, head, value_bytes, &room), MR_OK);
    return room;
}

static void write_rows(parcel_writer *writer, uint32_t table, uint32_t count, uint32_t dim) {
    const parcel_head head = {.table = table, .op = PARCEL_ADD_ROWS, .dtype = MR_F32, .count = count};
    parcel_room room = add(writer, head, (size_t)count * dim * sizeof(float));
    for (uint32_t i = 0; i < count; i++) room.keys[i] = 10 * (uint64_t)i + 3;
    for (uint32_t i = 0; i < count * dim; i++) ((float *)room.values)[i] = (float)i;
}

static parcel_section next(parcel_reader *reader) {
    parcel_section section;
    assert_true(parcel_next(reader, &section));
    return section;
}

static void assert_end(parcel_reader *reader) {
    parcel_section section;
    assert_false(parcel_next(reader, &section));
    assert_false(reader->failed);
}

static void pushes_come_out_as_they_were_written(void **state) {
    parcel_writer writer = {0};
    write_rows(&writer, 7, 3, 5);
    parcel_room room =
        add(&writer, (parcel_head){.table = 8, .op = PARCEL_SET_VECTORS, .dtype = MR_F16, .count = 3}, 2 * 6);
    for (uint32_t i = 0; i < 3; i++) room.keys[i] = i, room.lengths[i] = 3 - i;
    for (uint16_t i = 0; i < 6; i++) ((uint16_t *)room.values)[i] = i;
    room = add(&writer, (parcel_head){.table = 9, .op = PARCEL_ADD_BLOCK, .dtype = MR_I64, .count = 2}, 16);
    *room.place = (parcel_place){1, 2, 10, 8};
    ((int64_t *)room.values)[1] = -5;
    room = add(&writer, (parcel_head){.table = 9, .op = PARCEL_DEFINE}, 3);
    memcpy(room.values, "abc", 3);
    add(&writer, (parcel_head){.table = 7, .op = PARCEL_DROP}, 0);
    bale *bale = parcel_take(&writer);
    assert_int_equal(parcel_check(bale_bytes(bale)), MR_OK);

    parcel_reader reader = parcel_open(bale_bytes(bale));
    parcel_section section = next(&reader);
    assert_int_equal(section.table, 7);
    assert_int_equal(section.op, PARCEL_ADD_ROWS);
    assert_int_equal(section.count, 3);
    assert_int_equal(section.keys[2], 23);
    assert_int_equal(section.values.size, 3 * 5 * 4);
    assert_true(((const float *)(const void *)section.values.data)[14] == 14);
    section = next(&reader);
    assert_int_equal(section.dtype, MR_F16);
    assert_int_equal(section.lengths[0], 3);
    assert_int_equal(((const uint16_t *)(const void *)section.values.data)[5], 5);
    section = next(&reader);
    assert_int_equal(section.place.array, 1);
    assert_int_equal(section.place.first, 8);
    assert_int_equal(((const int64_t *)(const void *)section.values.data)[1], -5);
    section = next(&reader);
    assert_memory_equal(section.values.data, "abc", 3);
    assert_int_equal(section.values.size, 3);
    assert_int_equal(next(&reader).op, PARCEL_DROP);
    assert_end(&reader);
    bale_unref(bale);
}

static void queries_and_answers_have_versions(void **state) {
    parcel_writer writer = {0};
    parcel_room room = add(&writer, (parcel_head){.table = 1, .op = PARCEL_GET_ROWS, .count = 2}, 0);
    assert_int_equal(*room.version, 0);
    *room.version = 17;
    room.keys[0] = 1;
    room.keys[1] = UINT64_MAX;
    room = add(&writer, (parcel_head){.table = 1, .op = PARCEL_GET_RANGE, .count = 4}, 0);
    room.range[0] = 5;
    room.range[1] = 6;
    room = add(&writer, (parcel_head){.table = 1, .op = PARCEL_GET_BLOCK, .count = 1}, 0);
    *room.place = (parcel_place){0, 0, 1, 0};
    room = add(&writer, (parcel_head){.table = 1, .op = PARCEL_RANGE, .dtype = MR_F32, .count = 1}, 8);
    *room.version = 3;
    room.keys[0] = 9;
    memset(room.values, 0, 8);
    add(&writer, (parcel_head){.table = 1, .op = PARCEL_NONE, .count = PARCEL_DROPPED}, 0);
    assert_int_equal(parcel_check(parcel_written(&writer)), MR_OK);

    parcel_reader reader = parcel_open(parcel_written(&writer));
    parcel_section section = next(&reader);
    assert_true(section.version == 17 && section.keys[1] == UINT64_MAX && parcel_asks(&section));
    section = next(&reader);
    assert_true(section.first == 5 && section.last == 6 && section.count == 4);
    section = next(&reader);
    assert_int_equal(section.place.items, 1);
    section = next(&reader);
    assert_true(section.version == 3 && section.keys[0] == 9 && section.values.size == 8 && !parcel_asks(&section));
    assert_int_equal(next(&reader).count, PARCEL_DROPPED);
    assert_end(&reader);
    parcel_fini(&writer);
}

/* A parcel whose last values lie elsewhere is, with them behind it, as if they were in it. */
static void values_may_follow_from_elsewhere(void **state) {
    const float values[4] = {1, 2, 3, 4};
    const parcel_head head = {.table = 1, .op = PARCEL_ADD_BLOCK, .dtype = MR_F32, .count = 4};
    const parcel_place place = {.array = 2, .block = 3, .items = 9, .first = 5};
    parcel_writer whole = {0}, front = {0};
    parcel_room room = add(&whole, (parcel_head){.table = 1, .op = PARCEL_DROP}, 0);
    room = add(&whole, head, sizeof values);
    *room.place = place;
    memcpy(room.values, values, sizeof values);
    (void)add(&front, (parcel_head){.table = 1, .op = PARCEL_DROP}, 0);
    assert_int_equal(parcel_add_front(&front, head, sizeof values, &room), MR_OK);
    assert_null(room.values);
    *room.place = place;
    span all = parcel_written(&whole), head_bytes = parcel_written(&front);
    assert_int_equal(all.size, head_bytes.size + sizeof values);
    assert_memory_equal(all.data, head_bytes.data, head_bytes.size);
    assert_int_equal(parcel_check(head_bytes), MR_CORRUPT); /* and without them it is none */
    parcel_fini(&whole);
    parcel_fini(&front);
}

static void sizes_are_known_beforehand(void **state) {
    for (uint32_t count = 0; count < 9; count++) {
        parcel_writer writer = {0};
        const parcel_head head = {.table = 1, .op = PARCEL_ADD_VECTORS, .dtype = MR_F32, .count = count};
        size_t size = parcel_section_size(head.op, count, 12);
        assert_int_equal(parcel_reserve(&writer, size), MR_OK);
        bale *before = writer.bale;
        (void)add(&writer, head, 12);
        assert_ptr_equal(writer.bale, before);
        assert_int_equal(parcel_written(&writer).size, size);
        assert_int_equal(size % PARCEL_ALIGN, 0);
        parcel_fini(&writer);
    }
}

static void a_section_of_rows_goes_on(void **state) {
    parcel_writer writer = {0};
    const parcel_head head = {.table = 7, .op = PARCEL_ADD_ROWS, .dtype = MR_F32, .count = 1};
    for (uint32_t i = 0; i < 5; i++) {
        void *values;
        uint64_t key = 10 * (uint64_t)i + 3;
        if (i == 0)
            assert_int_equal(parcel_add_rows(&writer, head, 3 * sizeof(float), key, &values), MR_OK);
        else
            assert_int_equal(parcel_add_row(&writer, key, &values), MR_OK);
        for (uint32_t k = 0; k < 3; k++) memcpy((float *)values + k, &(float){(float)(i * 3 + k)}, sizeof(float));
        assert_int_equal(writer.size, parcel_section_size(PARCEL_ADD_ROWS, i + 1, (i + 1) * 3 * sizeof(float)));
    }
    bale *bale = parcel_take(&writer);
    write_rows(&writer, 7, 5, 3); /* the same at once */
    span once = parcel_written(&writer);
    assert_int_equal(bale_bytes(bale).size, once.size);
    assert_memory_equal(bale_bytes(bale).data, once.data, once.size);
    bale_unref(bale);
    parcel_fini(&writer);
}

static void what_was_not_used_is_trimmed(void **state) {
    parcel_writer writer = {0};
    const parcel_head head = {.table = 1, .op = PARCEL_ADD_ROWS, .flags = PARCEL_CODED, .dtype = MR_F32, .count = 1};
    parcel_room room = add(&writer, head, 100);
    room.keys[0] = 4;
    memcpy(room.values, "message", 7);
    parcel_trim(&writer, 93);
    write_rows(&writer, 2, 1, 1);
    parcel_reader reader = parcel_open(parcel_written(&writer));
    parcel_section section = next(&reader);
    assert_int_equal(section.values.size, 7);
    assert_memory_equal(section.values.data, "message\0", 8);
    assert_int_equal(next(&reader).table, 2);
    assert_end(&reader);
    parcel_cut(&writer, PARCEL_HEAD + 16);
    assert_int_equal(parcel_written(&writer).size, 32);
    parcel_fini(&writer);
}

static void a_section_is_pressed(void **state) {
    press *press;
    if (press_open(PRESS_LZ4, &press) != MR_OK) skip();
    parcel_writer writer = {0};
    write_rows(&writer, 1, 1, 1);
    assert_int_equal(parcel_press(&writer, press), MR_OK); /* does not become smaller */
    write_rows(&writer, 2, 1000, 1);
    for (uint32_t i = 0; i < 1000; i++) { /* something to compress */
        float zero = 0;
        memcpy(bale_room(writer.bale) + writer.last + PARCEL_HEAD + 8000 + i * 4, &zero, 4);
    }
    size_t before = writer.size;
    assert_int_equal(parcel_press(&writer, press), MR_OK);
    assert_true(writer.size < before);
    assert_int_equal(parcel_check(parcel_written(&writer)), MR_OK);

    parcel_reader reader = parcel_open(parcel_written(&writer));
    parcel_section section = next(&reader), whole;
    assert_int_equal(section.flags, 0);
    section = next(&reader);
    assert_int_equal(section.flags, PARCEL_PRESSED);
    assert_null(section.keys);
    size_t size;
    assert_int_equal(press_size(section.body, PARCEL_BYTES_MAX, &size), MR_OK);
    uint8_t *body = xmalloc(size);
    assert_int_equal(press_unpack(press, section.body, body, size), MR_OK);
    assert_true(parcel_unfold(&section, span_of(body, size), &whole));
    assert_true(whole.flags == 0 && whole.count == 1000 && whole.keys[999] == 9993 && whole.values.size == 4000);
    assert_false(parcel_unfold(&section, span_of(body, 7999), &whole));
    free(body);
    press_close(press);
    parcel_fini(&writer);
}

/* ---- What is wrong. */

static void assert_wrong(span bytes) { assert_int_equal(parcel_check(bytes), MR_CORRUPT); }

static void no_cut_parcel_is_read(void **state) {
    parcel_writer writer = {0};
    write_rows(&writer, 7, 3, 5);
    parcel_room room =
        add(&writer, (parcel_head){.table = 8, .op = PARCEL_VECTORS, .dtype = MR_F32, .count = 3}, 4 * 6);
    for (uint32_t i = 0; i < 3; i++) room.lengths[i] = 3 - i;
    span whole = parcel_written(&writer);
    size_t first = parcel_section_size(PARCEL_ADD_ROWS, 3, 60);
    for (size_t size = 0; size < whole.size; size++)
        if (size != 0 && size != first) assert_wrong(span_of(whole.data, size));
    assert_int_equal(parcel_check(span_of(whole.data, 0)), MR_OK);
    parcel_fini(&writer);
}

static void no_section_that_makes_no_sense_is_read(void **state) {
    static const struct {
        size_t at;
        uint8_t byte;
    } wrong[] = {
        {4, 0}, {4, PARCEL_OPS}, {5, 8}, {6, MR_F64}, {7, 1}, {8, 4}, {12, 83}, {15, 0xff}, {16, 13},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        parcel_writer writer = {0};
        write_rows(&writer, 7, 3, 5);
        bale_room(writer.bale)[wrong[i].at] = wrong[i].byte;
        assert_wrong(parcel_written(&writer));
        parcel_fini(&writer);
    }
}

static void places_are_checked(void **state) {
    static const parcel_place wrong[] = {{0, 0, 0, 0}, {0, 0, 5, 6}, {0, 0, 5, 4}, {0, 0, 1, UINT32_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        parcel_writer writer = {0};
        parcel_room room =
            add(&writer, (parcel_head){.table = 9, .op = PARCEL_ADD_BLOCK, .dtype = MR_F32, .count = 2}, 8);
        *room.place = wrong[i];
        memset(room.values, 0, 8);
        assert_wrong(parcel_written(&writer));
        parcel_fini(&writer);
    }
}

static void keys_ascend(void **state) {
    parcel_writer writer = {0};
    parcel_room room = add(&writer, (parcel_head){.table = 9, .op = PARCEL_ERASE, .count = 3}, 0);
    const uint64_t keys[] = {1, UINT64_C(1) << 63, UINT64_MAX};
    memcpy(room.keys, keys, sizeof keys);
    assert_int_equal(parcel_check(parcel_written(&writer)), MR_OK);
    room.keys[1] = UINT64_MAX;
    assert_wrong(parcel_written(&writer));
    parcel_fini(&writer);
}

/* Small ones on the stack, where no memory is asked for. */
static void bytes_are_aligned_by_a_copy(void **state) {
    for (uint32_t keys = 3; keys <= 200; keys += 197) {
        parcel_writer writer = {0};
        parcel_tray tray;
        write_rows(&writer, 7, keys, 5);
        span written = parcel_written(&writer), aligned;
        bool small = keys == 3;
        assert_true(small ? written.size <= PARCEL_SMALL : written.size > PARCEL_SMALL);
        assert_int_equal(parcel_align(written, &tray, &aligned), MR_OK);
        assert_ptr_equal(aligned.data, written.data);
        parcel_clear(&tray);
        uint8_t *odd = xmalloc(written.size + 1);
        memcpy(odd + 1, written.data, written.size);
        assert_int_equal(parcel_align(span_of(odd + 1, written.size), &tray, &aligned), MR_OK);
        assert_int_equal(parcel_check(aligned), MR_OK);
        assert_memory_equal(aligned.data, written.data, written.size);
        parcel_clear(&tray);
        alloc_fail_at(1);
        mr_status status = parcel_align(span_of(odd + 1, written.size), &tray, &aligned);
        alloc_fail_at(0);
        assert_int_equal(status, small ? MR_OK : MR_NOMEM);
        if (small) parcel_clear(&tray);
        free(odd);
        parcel_fini(&writer);
    }
}

static void a_check_counts_sections_and_has_the_last(void **state) {
    parcel_writer writer = {0};
    parcel_section last;
    size_t count;
    assert_int_equal(parcel_check_last(parcel_written(&writer), &count, &last), MR_OK);
    assert_int_equal(count, 0);
    write_rows(&writer, 7, 3, 5);
    assert_int_equal(parcel_check_last(parcel_written(&writer), &count, &last), MR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(last.table, 7);
    assert_int_equal(last.count, 3);
    write_rows(&writer, 8, 4, 5);
    assert_int_equal(parcel_check_last(parcel_written(&writer), &count, &last), MR_OK);
    assert_int_equal(count, 2);
    assert_int_equal(last.table, 8);
    parcel_fini(&writer);
}

static void a_writer_is_used_again_unless_somebody_holds_what_it_wrote(void **state) {
    parcel_writer writer = {0};
    write_rows(&writer, 7, 3, 5);
    const bale *first = writer.bale;
    parcel_empty(&writer);
    assert_int_equal(parcel_written(&writer).size, 0);
    write_rows(&writer, 8, 3, 5);
    assert_ptr_equal(writer.bale, first);
    bale *held = bale_ref(writer.bale);
    parcel_empty(&writer);
    assert_null(writer.bale);
    write_rows(&writer, 9, 3, 5);
    assert_ptr_not_equal(writer.bale, held);
    bale_unref(held);
    write_rows(&writer, 10, PARCEL_KEPT / 8, 5);
    parcel_empty(&writer);
    assert_null(writer.bale); /* it is too much */
    parcel_empty(&writer);
    parcel_fini(&writer);
}

static void a_small_parcel_is_lent(void **state) {
    parcel_writer writer = {0};
    bale *lent = parcel_lend(&writer);
    assert_int_equal(bale_bytes(lent).size, 0);
    bale_unref(lent);
    write_rows(&writer, 7, 3, 5);
    size_t size = parcel_written(&writer).size;
    lent = parcel_lend(&writer);
    assert_ptr_equal(lent, writer.bale);
    assert_int_equal(bale_bytes(lent).size, size);
    assert_int_equal(parcel_check(bale_bytes(lent)), MR_OK);
    bale_unref(lent);
    parcel_empty(&writer);
    assert_ptr_equal(lent, writer.bale); /* it is used again, for less and for more */
    write_rows(&writer, 8, 1, 5);
    write_rows(&writer, 9, 8, 5);
    bale *first = parcel_lend(&writer);
    assert_true(bale_bytes(first).size > size);
    parcel_empty(&writer);
    write_rows(&writer, 10, 3, 5);
    lent = parcel_lend(&writer);
    assert_ptr_not_equal(lent, first);
    assert_int_equal(bale_bytes(lent).size, size);
    assert_int_equal(parcel_check(bale_bytes(first)), MR_OK);
    bale_unref(first);
    bale_unref(lent);
    parcel_empty(&writer);
    write_rows(&writer, 11, PARCEL_LENT / 8, 5);
    lent = parcel_lend(&writer); /* it is too much */
    assert_null(writer.bale);
    assert_int_equal(parcel_check(bale_bytes(lent)), MR_OK);
    bale_unref(lent);
    parcel_fini(&writer);
}

static void a_writer_survives_without_memory(void **state) {
    for (size_t nth = 1; nth <= 3; nth++) {
        parcel_writer writer = {0};
        parcel_room room;
        size_t written = 0;
        alloc_fail_at(nth);
        for (int i = 0; i < 100; i++) {
            const parcel_head head = {.table = 1, .op = PARCEL_ERASE, .count = 10};
            mr_status status = parcel_add(&writer, head, 0, &room);
            assert_true(status == MR_OK || status == MR_NOMEM);
            for (uint64_t k = 0; status == MR_OK && k < 10; k++) room.keys[k] = k;
            written += status == MR_OK;
        }
        alloc_fail_at(0);
        assert_int_equal(written, 99);
        assert_int_equal(parcel_check(parcel_written(&writer)), MR_OK);
        assert_int_equal(writer.size, 99 * parcel_section_size(PARCEL_ERASE, 10, 0));
        parcel_fini(&writer);
    }
}

static void parcels_have_a_limit(void **state) {
    parcel_writer writer = {0};
    parcel_room room;
    const parcel_head head = {.table = 1, .op = PARCEL_ADD_ROWS, .dtype = MR_F32, .count = UINT32_MAX};
    assert_int_equal(parcel_add(&writer, head, 0, &room), MR_TOO_LARGE);
    assert_int_equal(parcel_add(&writer, (parcel_head){.op = PARCEL_DEFINE}, SIZE_MAX, &room), MR_TOO_LARGE);
    assert_int_equal(parcel_reserve(&writer, SIZE_MAX), MR_TOO_LARGE);
    bale *empty = parcel_take(&writer);
    assert_int_equal(bale_bytes(empty).size, 0);
    bale_unref(empty);
}

static void any_bytes_are_survived(void **state) {
    rng rng;
    rng_init(&rng, 7);
    for (int turn = 0; turn < 20000; turn++) {
        parcel_writer writer = {0};
        write_rows(&writer, 1, (uint32_t)rng_below(&rng, 5), (uint32_t)rng_below(&rng, 3));
        uint8_t *bytes = bale_room(writer.bale);
        for (uint64_t i = rng_below(&rng, 4); i > 0; i--)
            bytes[rng_below(&rng, writer.size)] =
                (uint8_t)(rng_chance(&rng, 0.5) ? rng_below(&rng, 32) : rng_next(&rng));
        (void)!parcel_check(parcel_written(&writer));
        parcel_fini(&writer);
    }
}

/* Keys that are folded: the first of a run, or a name. */
static void folded_keys_are_read(void **state) {
    static const struct {
        parcel_op op;
        uint8_t flags;
        uint32_t count;
        uint64_t first; /* of a run */
        bool good;
    } cases[] = {
        {PARCEL_GET_ROWS, PARCEL_RUN, 5, 7, true},
        {PARCEL_GET_ROWS, PARCEL_RUN, 2, UINT64_MAX - 1, true},
        {PARCEL_GET_ROWS, PARCEL_RUN, 2, UINT64_MAX, false}, /* there is none behind the last */
        {PARCEL_GET_ROWS, PARCEL_RUN, 0, 7, false},
        {PARCEL_GET_ROWS, PARCEL_RUN, PARCEL_RUN_MAX + 1, 7, false},
        {PARCEL_GET_VECTORS, PARCEL_RUN, 5, 7, false},
        {PARCEL_ERASE, PARCEL_RUN, 5, 7, false},
        {PARCEL_GET_ROWS, PARCEL_KNOWN, 5, 7, true},
        {PARCEL_GET_VECTORS, PARCEL_KNOWN, 5, 7, true},
        {PARCEL_GET_ROWS, PARCEL_KNOWN, 0, 7, false},
        {PARCEL_ERASE, PARCEL_KNOWN, 5, 7, false},
        {PARCEL_GET_ROWS, PARCEL_KNOWN | PARCEL_RUN, 5, 7, false},
        {PARCEL_GET_ROWS, PARCEL_KNOWN | PARCEL_LISTED, 5, 7, false},
        {PARCEL_GET_BLOCK, PARCEL_LISTED, 1, 7, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct {
            uint32_t table;
            uint8_t op, flags, dtype, zero;
            uint32_t count, size;
            uint64_t words[6];
        } bytes = {.table = 1, .op = (uint8_t)cases[i].op, .flags = cases[i].flags, .count = cases[i].count};
        bool queries = parcel_is_query(cases[i].op), known = (cases[i].flags & PARCEL_KNOWN) != 0;
        bytes.size = (queries ? 8 : 0) + (known ? 16 : 8);
        bytes.words[queries] = cases[i].first;
        bytes.words[queries + 1] = 99;
        parcel_reader reader = parcel_open(span_of(&bytes, PARCEL_HEAD + bytes.size));
        parcel_section section;
        assert_int_equal(parcel_next(&reader, &section), cases[i].good);
        assert_int_equal(reader.failed, !cases[i].good);
        if (!cases[i].good) continue;
        assert_null(section.keys);
        assert_true(parcel_ascends(&section) && section.first == cases[i].first);
        assert_true(section.last == (known ? 99 : section.first + section.count - 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_keys_are_read),
        cmocka_unit_test(pushes_come_out_as_they_were_written),
        cmocka_unit_test(queries_and_answers_have_versions),
        cmocka_unit_test(values_may_follow_from_elsewhere),
        cmocka_unit_test(sizes_are_known_beforehand),
        cmocka_unit_test(a_section_of_rows_goes_on),
        cmocka_unit_test(what_was_not_used_is_trimmed),
        cmocka_unit_test(a_section_is_pressed),
        cmocka_unit_test(no_cut_parcel_is_read),
        cmocka_unit_test(no_section_that_makes_no_sense_is_read),
        cmocka_unit_test(places_are_checked),
        cmocka_unit_test(keys_ascend),
        cmocka_unit_test(bytes_are_aligned_by_a_copy),
        cmocka_unit_test(a_check_counts_sections_and_has_the_last),
        cmocka_unit_test(a_writer_is_used_again_unless_somebody_holds_what_it_wrote),
        cmocka_unit_test(a_small_parcel_is_lent),
        cmocka_unit_test(a_writer_survives_without_memory),
        cmocka_unit_test(parcels_have_a_limit),
        cmocka_unit_test(any_bytes_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
