/* payload_test.c — sections are read as they were written, in place; malformed sections are rejected. */
#include "kv/payload/payload.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

static payload_room add(payload_writer *writer, payload_head head, size_t value_bytes) {
    payload_room room;
    assert_int_equal(payload_add(writer, head, value_bytes, &room), MR_OK);
    return room;
}

static void write_rows(payload_writer *writer, uint32_t table, uint32_t count, uint32_t dim) {
    const payload_head head = {.table = table, .op = PAYLOAD_ADD_ROWS, .dtype = MR_F32, .count = count};
    payload_room room = add(writer, head, (size_t)count * dim * sizeof(float));
    for (uint32_t i = 0; i < count; i++) room.keys[i] = 10 * (uint64_t)i + 3;
    for (uint32_t i = 0; i < count * dim; i++) ((float *)room.values)[i] = (float)i;
}

static payload_section next(payload_reader *reader) {
    payload_section section;
    assert_true(payload_next(reader, &section));
    return section;
}

static void assert_end(payload_reader *reader) {
    payload_section section;
    assert_false(payload_next(reader, &section));
    assert_false(reader->failed);
}

static void pushes_come_out_as_they_were_written(void **state) {
    payload_writer writer = {0};
    write_rows(&writer, 7, 3, 5);
    payload_room room =
        add(&writer, (payload_head){.table = 8, .op = PAYLOAD_SET_VECTORS, .dtype = MR_F16, .count = 3}, 2 * 6);
    for (uint32_t i = 0; i < 3; i++) room.keys[i] = i, room.lengths[i] = 3 - i;
    for (uint16_t i = 0; i < 6; i++) ((uint16_t *)room.values)[i] = i;
    room = add(&writer, (payload_head){.table = 9, .op = PAYLOAD_ADD_BLOCK, .dtype = MR_I64, .count = 2}, 16);
    *room.place = (payload_place){1, 2, 10, 8};
    ((int64_t *)room.values)[1] = -5;
    room = add(&writer, (payload_head){.table = 9, .op = PAYLOAD_DEFINE}, 3);
    memcpy(room.values, "abc", 3);
    add(&writer, (payload_head){.table = 7, .op = PAYLOAD_DROP}, 0);
    shared_bytes *bytes = payload_take(&writer);
    assert_int_equal(payload_check(shared_bytes_bytes(bytes)), MR_OK);

    payload_reader reader = payload_open(shared_bytes_bytes(bytes));
    payload_section section = next(&reader);
    assert_int_equal(section.table, 7);
    assert_int_equal(section.op, PAYLOAD_ADD_ROWS);
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
    assert_int_equal(next(&reader).op, PAYLOAD_DROP);
    assert_end(&reader);
    shared_bytes_unref(bytes);
}

static void queries_and_answers_have_versions(void **state) {
    payload_writer writer = {0};
    payload_room room = add(&writer, (payload_head){.table = 1, .op = PAYLOAD_GET_ROWS, .count = 2}, 0);
    assert_int_equal(*room.version, 0);
    *room.version = 17;
    room.keys[0] = 1;
    room.keys[1] = UINT64_MAX;
    room = add(&writer, (payload_head){.table = 1, .op = PAYLOAD_GET_RANGE, .count = 4}, 0);
    room.range[0] = 5;
    room.range[1] = 6;
    room = add(&writer, (payload_head){.table = 1, .op = PAYLOAD_GET_BLOCK, .count = 1}, 0);
    *room.place = (payload_place){0, 0, 1, 0};
    room = add(&writer, (payload_head){.table = 1, .op = PAYLOAD_RANGE, .dtype = MR_F32, .count = 1}, 8);
    *room.version = 3;
    room.keys[0] = 9;
    memset(room.values, 0, 8);
    add(&writer, (payload_head){.table = 1, .op = PAYLOAD_NONE, .count = PAYLOAD_DROPPED}, 0);
    assert_int_equal(payload_check(payload_written(&writer)), MR_OK);

    payload_reader reader = payload_open(payload_written(&writer));
    payload_section section = next(&reader);
    assert_true(section.version == 17 && section.keys[1] == UINT64_MAX && payload_asks(&section));
    section = next(&reader);
    assert_true(section.first == 5 && section.last == 6 && section.count == 4);
    section = next(&reader);
    assert_int_equal(section.place.items, 1);
    section = next(&reader);
    assert_true(section.version == 3 && section.keys[0] == 9 && section.values.size == 8 && !payload_asks(&section));
    assert_int_equal(next(&reader).count, PAYLOAD_DROPPED);
    assert_end(&reader);
    payload_fini(&writer);
}

/* A payload whose last values follow from other memory has the same bytes as one that contains them. */
static void values_may_follow_from_elsewhere(void **state) {
    const float values[4] = {1, 2, 3, 4};
    const payload_head head = {.table = 1, .op = PAYLOAD_ADD_BLOCK, .dtype = MR_F32, .count = 4};
    const payload_place place = {.array = 2, .block = 3, .items = 9, .first = 5};
    payload_writer whole = {0}, front = {0};
    payload_room room = add(&whole, (payload_head){.table = 1, .op = PAYLOAD_DROP}, 0);
    room = add(&whole, head, sizeof values);
    *room.place = place;
    memcpy(room.values, values, sizeof values);
    (void)add(&front, (payload_head){.table = 1, .op = PAYLOAD_DROP}, 0);
    assert_int_equal(payload_add_front(&front, head, sizeof values, &room), MR_OK);
    assert_null(room.values);
    *room.place = place;
    span all = payload_written(&whole), head_bytes = payload_written(&front);
    assert_int_equal(all.size, head_bytes.size + sizeof values);
    assert_memory_equal(all.data, head_bytes.data, head_bytes.size);
    assert_int_equal(payload_check(head_bytes), MR_CORRUPT); /* malformed without the values */
    payload_fini(&whole);
    payload_fini(&front);
}

static void sizes_are_known_beforehand(void **state) {
    for (uint32_t count = 0; count < 9; count++) {
        payload_writer writer = {0};
        const payload_head head = {.table = 1, .op = PAYLOAD_ADD_VECTORS, .dtype = MR_F32, .count = count};
        size_t size = payload_section_size(head.op, count, 12);
        assert_int_equal(payload_reserve(&writer, size), MR_OK);
        shared_bytes *before = writer.bytes;
        (void)add(&writer, head, 12);
        assert_ptr_equal(writer.bytes, before);
        assert_int_equal(payload_written(&writer).size, size);
        assert_int_equal(size % PAYLOAD_ALIGN, 0);
        payload_fini(&writer);
    }
}

static void a_section_of_rows_goes_on(void **state) {
    payload_writer writer = {0};
    const payload_head head = {.table = 7, .op = PAYLOAD_ADD_ROWS, .dtype = MR_F32, .count = 1};
    for (uint32_t i = 0; i < 5; i++) {
        void *values;
        uint64_t key = 10 * (uint64_t)i + 3;
        if (i == 0)
            assert_int_equal(payload_add_rows(&writer, head, 3 * sizeof(float), key, &values), MR_OK);
        else
            assert_int_equal(payload_add_row(&writer, key, &values), MR_OK);
        for (uint32_t k = 0; k < 3; k++) memcpy((float *)values + k, &(float){(float)(i * 3 + k)}, sizeof(float));
        assert_int_equal(writer.size, payload_section_size(PAYLOAD_ADD_ROWS, i + 1, (i + 1) * 3 * sizeof(float)));
    }
    shared_bytes *bytes = payload_take(&writer);
    write_rows(&writer, 7, 5, 3); /* the same keys in one section */
    span once = payload_written(&writer);
    assert_int_equal(shared_bytes_bytes(bytes).size, once.size);
    assert_memory_equal(shared_bytes_bytes(bytes).data, once.data, once.size);
    shared_bytes_unref(bytes);
    payload_fini(&writer);
}

static void unused_room_is_trimmed(void **state) {
    payload_writer writer = {0};
    const payload_head head = {.table = 1, .op = PAYLOAD_ADD_ROWS, .flags = PAYLOAD_CODED, .dtype = MR_F32, .count = 1};
    payload_room room = add(&writer, head, 100);
    room.keys[0] = 4;
    memcpy(room.values, "message", 7);
    payload_trim(&writer, 93);
    write_rows(&writer, 2, 1, 1);
    payload_reader reader = payload_open(payload_written(&writer));
    payload_section section = next(&reader);
    assert_int_equal(section.values.size, 7);
    assert_memory_equal(section.values.data, "message\0", 8);
    assert_int_equal(next(&reader).table, 2);
    assert_end(&reader);
    payload_cut(&writer, PAYLOAD_HEAD + 16);
    assert_int_equal(payload_written(&writer).size, 32);
    payload_fini(&writer);
}

static void a_section_is_pressed(void **state) {
    compressor *compressor;
    if (compressor_open(COMPRESSOR_LZ4, &compressor) != MR_OK) skip();
    payload_writer writer = {0};
    write_rows(&writer, 1, 1, 1);
    assert_int_equal(payload_press(&writer, compressor), MR_OK); /* compression would not make it smaller */
    write_rows(&writer, 2, 1000, 1);
    for (uint32_t i = 0; i < 1000; i++) { /* compressible values */
        float zero = 0;
        memcpy(shared_bytes_room(writer.bytes) + writer.last + PAYLOAD_HEAD + 8000 + i * 4, &zero, 4);
    }
    size_t before = writer.size;
    assert_int_equal(payload_press(&writer, compressor), MR_OK);
    assert_true(writer.size < before);
    assert_int_equal(payload_check(payload_written(&writer)), MR_OK);

    payload_reader reader = payload_open(payload_written(&writer));
    payload_section section = next(&reader), whole;
    assert_int_equal(section.flags, 0);
    section = next(&reader);
    assert_int_equal(section.flags, PAYLOAD_PRESSED);
    assert_null(section.keys);
    size_t size;
    assert_int_equal(compressor_size(section.body, PAYLOAD_BYTES_MAX, &size), MR_OK);
    uint8_t *body = xmalloc(size);
    assert_int_equal(compressor_unpack(compressor, section.body, body, size), MR_OK);
    assert_true(payload_unfold(&section, span_of(body, size), &whole));
    assert_true(whole.flags == 0 && whole.count == 1000 && whole.keys[999] == 9993 && whole.values.size == 4000);
    assert_false(payload_unfold(&section, span_of(body, 7999), &whole));
    free(body);
    compressor_close(compressor);
    payload_fini(&writer);
}

/* ---- Malformed payloads. */

static void assert_wrong(span bytes) { assert_int_equal(payload_check(bytes), MR_CORRUPT); }

static void no_cut_payload_is_read(void **state) {
    payload_writer writer = {0};
    write_rows(&writer, 7, 3, 5);
    payload_room room =
        add(&writer, (payload_head){.table = 8, .op = PAYLOAD_VECTORS, .dtype = MR_F32, .count = 3}, 4 * 6);
    for (uint32_t i = 0; i < 3; i++) room.lengths[i] = 3 - i;
    span whole = payload_written(&writer);
    size_t first = payload_section_size(PAYLOAD_ADD_ROWS, 3, 60);
    for (size_t size = 0; size < whole.size; size++)
        if (size != 0 && size != first) assert_wrong(span_of(whole.data, size));
    assert_int_equal(payload_check(span_of(whole.data, 0)), MR_OK);
    payload_fini(&writer);
}

static void no_section_that_makes_no_sense_is_read(void **state) {
    static const struct {
        size_t at;
        uint8_t byte;
    } wrong[] = {
        {4, 0}, {4, PAYLOAD_OPS}, {5, 8}, {6, MR_F64}, {7, 1}, {8, 4}, {12, 83}, {15, 0xff}, {16, 13},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        payload_writer writer = {0};
        write_rows(&writer, 7, 3, 5);
        shared_bytes_room(writer.bytes)[wrong[i].at] = wrong[i].byte;
        assert_wrong(payload_written(&writer));
        payload_fini(&writer);
    }
}

static void places_are_checked(void **state) {
    static const payload_place wrong[] = {{0, 0, 0, 0}, {0, 0, 5, 6}, {0, 0, 5, 4}, {0, 0, 1, UINT32_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        payload_writer writer = {0};
        payload_room room =
            add(&writer, (payload_head){.table = 9, .op = PAYLOAD_ADD_BLOCK, .dtype = MR_F32, .count = 2}, 8);
        *room.place = wrong[i];
        memset(room.values, 0, 8);
        assert_wrong(payload_written(&writer));
        payload_fini(&writer);
    }
}

static void keys_ascend(void **state) {
    payload_writer writer = {0};
    payload_room room = add(&writer, (payload_head){.table = 9, .op = PAYLOAD_ERASE, .count = 3}, 0);
    const uint64_t keys[] = {1, UINT64_C(1) << 63, UINT64_MAX};
    memcpy(room.keys, keys, sizeof keys);
    assert_int_equal(payload_check(payload_written(&writer)), MR_OK);
    room.keys[1] = UINT64_MAX;
    assert_wrong(payload_written(&writer));
    payload_fini(&writer);
}

/* Small payloads are aligned on the stack, without allocation. */
static void bytes_are_aligned_by_a_copy(void **state) {
    for (uint32_t keys = 3; keys <= 200; keys += 197) {
        payload_writer writer = {0};
        payload_scratch scratch;
        write_rows(&writer, 7, keys, 5);
        span written = payload_written(&writer), aligned;
        bool small = keys == 3;
        assert_true(small ? written.size <= PAYLOAD_SMALL : written.size > PAYLOAD_SMALL);
        assert_int_equal(payload_align(written, &scratch, &aligned), MR_OK);
        assert_ptr_equal(aligned.data, written.data);
        payload_clear(&scratch);
        uint8_t *odd = xmalloc(written.size + 1);
        memcpy(odd + 1, written.data, written.size);
        assert_int_equal(payload_align(span_of(odd + 1, written.size), &scratch, &aligned), MR_OK);
        assert_int_equal(payload_check(aligned), MR_OK);
        assert_memory_equal(aligned.data, written.data, written.size);
        payload_clear(&scratch);
        alloc_fail_at(1);
        mr_status status = payload_align(span_of(odd + 1, written.size), &scratch, &aligned);
        alloc_fail_at(0);
        assert_int_equal(status, small ? MR_OK : MR_NOMEM);
        if (small) payload_clear(&scratch);
        free(odd);
        payload_fini(&writer);
    }
}

static void a_check_counts_sections_and_has_the_last(void **state) {
    payload_writer writer = {0};
    payload_section last;
    size_t count;
    assert_int_equal(payload_check_last(payload_written(&writer), &count, &last), MR_OK);
    assert_int_equal(count, 0);
    write_rows(&writer, 7, 3, 5);
    assert_int_equal(payload_check_last(payload_written(&writer), &count, &last), MR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(last.table, 7);
    assert_int_equal(last.count, 3);
    write_rows(&writer, 8, 4, 5);
    assert_int_equal(payload_check_last(payload_written(&writer), &count, &last), MR_OK);
    assert_int_equal(count, 2);
    assert_int_equal(last.table, 8);
    payload_fini(&writer);
}

static void a_writer_is_reused_unless_its_bytes_are_held(void **state) {
    payload_writer writer = {0};
    write_rows(&writer, 7, 3, 5);
    const shared_bytes *first = writer.bytes;
    payload_empty(&writer);
    assert_int_equal(payload_written(&writer).size, 0);
    write_rows(&writer, 8, 3, 5);
    assert_ptr_equal(writer.bytes, first);
    shared_bytes *held = shared_bytes_ref(writer.bytes);
    payload_empty(&writer);
    assert_null(writer.bytes);
    write_rows(&writer, 9, 3, 5);
    assert_ptr_not_equal(writer.bytes, held);
    shared_bytes_unref(held);
    write_rows(&writer, 10, PAYLOAD_KEPT / 8, 5);
    payload_empty(&writer);
    assert_null(writer.bytes); /* too large for reuse */
    payload_empty(&writer);
    payload_fini(&writer);
}

static void a_small_payload_is_borrowed(void **state) {
    payload_writer writer = {0};
    shared_bytes *borrowed = payload_lend(&writer);
    assert_int_equal(shared_bytes_bytes(borrowed).size, 0);
    shared_bytes_unref(borrowed);
    write_rows(&writer, 7, 3, 5);
    size_t size = payload_written(&writer).size;
    borrowed = payload_lend(&writer);
    assert_ptr_equal(borrowed, writer.bytes);
    assert_int_equal(shared_bytes_bytes(borrowed).size, size);
    assert_int_equal(payload_check(shared_bytes_bytes(borrowed)), MR_OK);
    shared_bytes_unref(borrowed);
    payload_empty(&writer);
    assert_ptr_equal(borrowed, writer.bytes); /* reused, for smaller and larger payloads */
    write_rows(&writer, 8, 1, 5);
    write_rows(&writer, 9, 8, 5);
    shared_bytes *first = payload_lend(&writer);
    assert_true(shared_bytes_bytes(first).size > size);
    payload_empty(&writer);
    write_rows(&writer, 10, 3, 5);
    borrowed = payload_lend(&writer);
    assert_ptr_not_equal(borrowed, first);
    assert_int_equal(shared_bytes_bytes(borrowed).size, size);
    assert_int_equal(payload_check(shared_bytes_bytes(first)), MR_OK);
    shared_bytes_unref(first);
    shared_bytes_unref(borrowed);
    payload_empty(&writer);
    write_rows(&writer, 11, PAYLOAD_BORROWED / 8, 5);
    borrowed = payload_lend(&writer); /* too large to be shared */
    assert_null(writer.bytes);
    assert_int_equal(payload_check(shared_bytes_bytes(borrowed)), MR_OK);
    shared_bytes_unref(borrowed);
    payload_fini(&writer);
}

static void a_writer_survives_without_memory(void **state) {
    for (size_t nth = 1; nth <= 3; nth++) {
        payload_writer writer = {0};
        payload_room room;
        size_t written = 0;
        alloc_fail_at(nth);
        for (int i = 0; i < 100; i++) {
            const payload_head head = {.table = 1, .op = PAYLOAD_ERASE, .count = 10};
            mr_status status = payload_add(&writer, head, 0, &room);
            assert_true(status == MR_OK || status == MR_NOMEM);
            for (uint64_t k = 0; status == MR_OK && k < 10; k++) room.keys[k] = k;
            written += status == MR_OK;
        }
        alloc_fail_at(0);
        assert_int_equal(written, 99);
        assert_int_equal(payload_check(payload_written(&writer)), MR_OK);
        assert_int_equal(writer.size, 99 * payload_section_size(PAYLOAD_ERASE, 10, 0));
        payload_fini(&writer);
    }
}

static void payloads_have_a_limit(void **state) {
    payload_writer writer = {0};
    payload_room room;
    const payload_head head = {.table = 1, .op = PAYLOAD_ADD_ROWS, .dtype = MR_F32, .count = UINT32_MAX};
    assert_int_equal(payload_add(&writer, head, 0, &room), MR_TOO_LARGE);
    assert_int_equal(payload_add(&writer, (payload_head){.op = PAYLOAD_DEFINE}, SIZE_MAX, &room), MR_TOO_LARGE);
    assert_int_equal(payload_reserve(&writer, SIZE_MAX), MR_TOO_LARGE);
    shared_bytes *empty = payload_take(&writer);
    assert_int_equal(shared_bytes_bytes(empty).size, 0);
    shared_bytes_unref(empty);
}

static void any_bytes_are_survived(void **state) {
    rng rng;
    rng_init(&rng, 7);
    for (int turn = 0; turn < 20000; turn++) {
        payload_writer writer = {0};
        write_rows(&writer, 1, (uint32_t)rng_below(&rng, 5), (uint32_t)rng_below(&rng, 3));
        uint8_t *bytes = shared_bytes_room(writer.bytes);
        for (uint64_t i = rng_below(&rng, 4); i > 0; i--)
            bytes[rng_below(&rng, writer.size)] =
                (uint8_t)(rng_chance(&rng, 0.5) ? rng_below(&rng, 32) : rng_next(&rng));
        (void)!payload_check(payload_written(&writer));
        payload_fini(&writer);
    }
}

/* Keys as a run, or as a hash. */
static void folded_keys_are_read(void **state) {
    static const struct {
        payload_op op;
        uint8_t flags;
        uint32_t count;
        uint64_t first; /* first key of a run */
        bool good;
    } cases[] = {
        {PAYLOAD_GET_ROWS, PAYLOAD_RUN, 5, 7, true},
        {PAYLOAD_GET_ROWS, PAYLOAD_RUN, 2, UINT64_MAX - 1, true},
        {PAYLOAD_GET_ROWS, PAYLOAD_RUN, 2, UINT64_MAX, false}, /* no key follows the largest one */
        {PAYLOAD_GET_ROWS, PAYLOAD_RUN, 0, 7, false},
        {PAYLOAD_GET_ROWS, PAYLOAD_RUN, PAYLOAD_RUN_MAX + 1, 7, false},
        {PAYLOAD_GET_VECTORS, PAYLOAD_RUN, 5, 7, false},
        {PAYLOAD_ERASE, PAYLOAD_RUN, 5, 7, false},
        {PAYLOAD_GET_ROWS, PAYLOAD_KNOWN, 5, 7, true},
        {PAYLOAD_GET_VECTORS, PAYLOAD_KNOWN, 5, 7, true},
        {PAYLOAD_GET_ROWS, PAYLOAD_KNOWN, 0, 7, false},
        {PAYLOAD_ERASE, PAYLOAD_KNOWN, 5, 7, false},
        {PAYLOAD_GET_ROWS, PAYLOAD_KNOWN | PAYLOAD_RUN, 5, 7, false},
        {PAYLOAD_GET_ROWS, PAYLOAD_KNOWN | PAYLOAD_LISTED, 5, 7, false},
        {PAYLOAD_GET_BLOCK, PAYLOAD_LISTED, 1, 7, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct {
            uint32_t table;
            uint8_t op, flags, dtype, zero;
            uint32_t count, size;
            uint64_t words[6];
        } bytes = {.table = 1, .op = (uint8_t)cases[i].op, .flags = cases[i].flags, .count = cases[i].count};
        bool queries = payload_is_query(cases[i].op), known = (cases[i].flags & PAYLOAD_KNOWN) != 0;
        bytes.size = (queries ? 8 : 0) + (known ? 16 : 8);
        bytes.words[queries] = cases[i].first;
        bytes.words[queries + 1] = 99;
        payload_reader reader = payload_open(span_of(&bytes, PAYLOAD_HEAD + bytes.size));
        payload_section section;
        assert_int_equal(payload_next(&reader, &section), cases[i].good);
        assert_int_equal(reader.failed, !cases[i].good);
        if (!cases[i].good) continue;
        assert_null(section.keys);
        assert_true(payload_ascends(&section) && section.first == cases[i].first);
        assert_true(section.last == (known ? 99 : section.first + section.count - 1));
    }
}

/* A rate is that of the next section, if that adds to the same table. */
static void a_rate_is_of_the_next_section(void **state) {
    payload_writer writer = {0};
    assert_int_equal(payload_add_rate(&writer, 7, 0.5f), MR_OK);
    write_rows(&writer, 7, 3, 5);
    write_rows(&writer, 7, 3, 5);
    assert_int_equal(payload_add_rate(&writer, 7, 0.25f), MR_OK);
    write_rows(&writer, 8, 3, 5);
    assert_int_equal(payload_add_rate(&writer, 7, 1), MR_OK);
    assert_int_equal(payload_add_rate(&writer, 7, 0), MR_OK);
    write_rows(&writer, 7, 3, 5);
    assert_int_equal(payload_add_rate(&writer, 7, 1), MR_OK);
    payload_room room = add(&writer, (payload_head){.table = 7, .op = PAYLOAD_ERASE, .count = 1}, 0);
    *room.keys = 1;
    assert_int_equal(payload_check(payload_written(&writer)), MR_OK);
    payload_reader reader = payload_open(payload_written(&writer));
    payload_section section = next(&reader);
    assert_true(section.op == PAYLOAD_RATE && section.table == 7 && section.rated && section.rate == 0.5f);
    section = next(&reader);
    assert_true(section.op == PAYLOAD_ADD_ROWS && section.rated && section.rate == 0.5f);
    section = next(&reader);
    assert_false(section.rated);
    (void)next(&reader);
    section = next(&reader); /* another table */
    assert_false(section.rated);
    (void)next(&reader);
    (void)next(&reader);
    section = next(&reader);
    assert_true(section.rated && section.rate == 0);
    (void)next(&reader);
    section = next(&reader); /* no push */
    assert_false(section.rated);
    assert_end(&reader);
    payload_fini(&writer);
}

static void a_rate_is_finite_and_not_negative(void **state) {
    static const float wrong[] = {-1, -1e-30f, INFINITY, NAN};
    payload_writer writer = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(payload_add_rate(&writer, 7, wrong[i]), MR_OK);
        assert_wrong(payload_written(&writer));
        payload_fini(&writer);
    }
    for (uint8_t size = 0; size <= 8; size++) { /* 4 bytes */
        assert_int_equal(payload_add_rate(&writer, 7, 1), MR_OK);
        shared_bytes_room(writer.bytes)[12] = size;
        if (size != 4) assert_wrong(span_of(payload_written(&writer).data, PAYLOAD_HEAD + (size == 0 ? 0 : 8)));
        payload_fini(&writer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_is_of_the_next_section),
        cmocka_unit_test(a_rate_is_finite_and_not_negative),
        cmocka_unit_test(folded_keys_are_read),
        cmocka_unit_test(pushes_come_out_as_they_were_written),
        cmocka_unit_test(queries_and_answers_have_versions),
        cmocka_unit_test(values_may_follow_from_elsewhere),
        cmocka_unit_test(sizes_are_known_beforehand),
        cmocka_unit_test(a_section_of_rows_goes_on),
        cmocka_unit_test(unused_room_is_trimmed),
        cmocka_unit_test(a_section_is_pressed),
        cmocka_unit_test(no_cut_payload_is_read),
        cmocka_unit_test(no_section_that_makes_no_sense_is_read),
        cmocka_unit_test(places_are_checked),
        cmocka_unit_test(keys_ascend),
        cmocka_unit_test(bytes_are_aligned_by_a_copy),
        cmocka_unit_test(a_check_counts_sections_and_has_the_last),
        cmocka_unit_test(a_writer_is_reused_unless_its_bytes_are_held),
        cmocka_unit_test(a_small_payload_is_borrowed),
        cmocka_unit_test(a_writer_survives_without_memory),
        cmocka_unit_test(payloads_have_a_limit),
        cmocka_unit_test(any_bytes_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
