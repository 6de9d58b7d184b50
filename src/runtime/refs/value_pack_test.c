/* value_pack_test.c — value packs: packing, reading, and malformed bytes. */
#include "runtime/refs/value_pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "tests/support/exact_value.h"

enum { LARGE = 5000 };

static value_pack *value_pack_of(const mr_arg *args, size_t count) {
    value_pack_item *items = xcalloc(count + 1, sizeof *items);
    for (size_t i = 0; i < count; i++) items[i].arg = &args[i];
    value_pack *made = NULL;
    assert_int_equal(value_pack_create(items, count, &made), MR_OK);
    free(items);
    assert_int_equal(made->count, count);
    return made;
}

/* Copy of a value pack, as received in a message. */
static value_pack *arrived(const value_pack *pack) {
    struct value_pack *copy;
    assert_int_equal(value_pack_room(pack->size, &copy), MR_OK);
    memcpy(copy->bytes, pack->bytes, pack->size);
    assert_int_equal(value_pack_check(copy, &(value_pack_view){0}), MR_OK);
    return copy;
}

static void open_value(const value_pack *pack, uint32_t index, value_doc *doc, mr_value *root) {
    value_pack_entry entry = value_pack_value(pack, index);
    assert_int_equal((uintptr_t)entry.bytes.data % VALUE_ALIGN, 0);
    assert_int_equal((uintptr_t)entry.region.data % VALUE_BUFFER_ALIGN, 0);
    assert_int_equal(value_pack_entry_open(&entry, doc, root), MR_OK);
}

static uint64_t digest_of(const value_pack *pack, uint32_t index) {
    value_doc doc;
    mr_value root;
    open_value(pack, index, &doc, &root);
    uint64_t digest = value_digest(&root);
    value_close(&doc);
    return digest;
}

static uint64_t digest_alone(const mr_arg *arg) {
    exact_value value;
    value_doc doc;
    mr_value root;
    assert_int_equal(pack(arg, VALUE_PACK_OUT_OF_LINE, &value), MR_OK);
    assert_int_equal(exact_value_open(&value, &doc, &root), MR_OK);
    uint64_t digest = value_digest(&root);
    value_close(&doc);
    exact_value_fini(&value);
    return digest;
}

static void fill(uint8_t *data, size_t size, uint8_t seed) {
    for (size_t i = 0; i < size; i++) data[i] = (uint8_t)(seed + i * 7);
}

typedef struct sample { /* values of all kinds, some with large data */
    float floats[LARGE];
    uint8_t bytes[LARGE];
    mr_arg inner[3];
    mr_arg args[9];
} sample;

enum { SAMPLE_COUNT = 9 };

static sample *sample_create(void) {
    sample *sample = xcalloc(1, sizeof *sample);
    for (int i = 0; i < LARGE; i++) sample->floats[i] = (float)i / 3;
    fill(sample->bytes, sizeof sample->bytes, 5);
    sample->inner[0] = mr_str("inside");
    sample->inner[1] = mr_vector(sample->floats, LARGE);
    sample->inner[2] = mr_bytes(sample->bytes, LARGE);
    mr_arg args[SAMPLE_COUNT] = {mr_nil(),
                                 mr_int(-7),
                                 mr_vector(sample->floats, LARGE),
                                 mr_str("x"),
                                 mr_list(sample->inner, 3),
                                 mr_bytes(sample->bytes, 3),
                                 mr_tuple(sample->inner, 1),
                                 mr_bytes(sample->bytes, LARGE),
                                 mr_handle((mr_actor){{1, 2}})};
    memcpy(sample->args, args, sizeof args);
    return sample;
}

static void values_come_out_as_they_went_in(void **state) {
    sample *sample = sample_create();
    value_pack *made = value_pack_of(sample->args, SAMPLE_COUNT), *got = arrived(made);
    assert_int_equal(got->count, SAMPLE_COUNT);
    for (uint32_t i = 0; i < SAMPLE_COUNT; i++) {
        assert_true(digest_of(made, i) == digest_alone(&sample->args[i]));
        assert_true(digest_of(got, i) == digest_alone(&sample->args[i]));
    }
    value_pack_unref(made);
    value_pack_unref(got);
    free(sample);
}

static void tensors_are_used_where_they_lie(void **state) {
    sample *sample = sample_create();
    value_pack *made = value_pack_of(sample->args, SAMPLE_COUNT);
    value_doc doc;
    mr_value root;
    mr_tensor tensor;
    open_value(made, 2, &doc, &root);
    assert_int_equal(mr_value_tensor(&root, &tensor), MR_OK);
    const uint8_t *data = tensor.data;
    assert_true(data >= made->bytes && data + tensor.bytes <= made->bytes + made->size);
    assert_int_equal((uintptr_t)data % 64, 0);
    assert_memory_equal(data, sample->floats, sizeof sample->floats);
    value_close(&doc);
    value_pack_unref(made);
    free(sample);
}

static void values_are_taken_from_other_packs(void **state) {
    sample *sample = sample_create();
    value_pack *first = value_pack_of(sample->args, SAMPLE_COUNT), *second = NULL;
    mr_arg fresh = mr_int(99);
    value_pack_item items[] = {{.entry = value_pack_value(first, 7)},
                               {.arg = &fresh},
                               {.entry = value_pack_value(first, 4)},
                               {.entry = value_pack_value(first, 0)},
                               {.entry = value_pack_value(first, 7)}};
    assert_int_equal(value_pack_create(items, 5, &second), MR_OK);
    value_pack_unref(first); /* its values were copied */
    value_pack *got = arrived(second);
    const mr_arg expected[] = {sample->args[7], fresh, sample->args[4], sample->args[0], sample->args[7]};
    for (uint32_t i = 0; i < 5; i++) assert_true(digest_of(got, i) == digest_alone(&expected[i]));
    value_pack_unref(second);
    value_pack_unref(got);
    free(sample);
}

static void none_is_a_pack_too(void **state) {
    value_pack *made = value_pack_of(NULL, 0), *got = arrived(made);
    assert_int_equal(made->size, 8);
    assert_int_equal(got->count, 0);
    value_pack_unref(made);
    value_pack_unref(got);
}

static void many_values_fit_and_too_many_do_not(void **state) {
    mr_arg *args = xcalloc(VALUE_PACK_VALUES_MAX + 1, sizeof *args);
    value_pack_item *items = xcalloc(VALUE_PACK_VALUES_MAX + 1, sizeof *items);
    for (int i = 0; i <= VALUE_PACK_VALUES_MAX; i++) {
        args[i] = mr_int(i);
        items[i].arg = &args[i];
    }
    value_pack *made = NULL;
    assert_int_equal(value_pack_create(items, VALUE_PACK_VALUES_MAX, &made), MR_OK);
    value_pack *got = arrived(made);
    for (uint32_t i = 0; i < VALUE_PACK_VALUES_MAX; i += 97) {
        value_doc doc;
        mr_value root;
        int64_t number = -1;
        open_value(got, i, &doc, &root);
        assert_int_equal(mr_value_int(&root, &number), MR_OK);
        assert_int_equal(number, i);
        value_close(&doc);
    }
    value_pack_unref(got);
    value_pack_unref(made);
    made = NULL;
    assert_int_equal(value_pack_create(items, VALUE_PACK_VALUES_MAX + 1, &made), MR_TOO_LARGE);
    assert_null(made);
    free(args);
    free(items);
}

/* Equal values give equal bytes, whatever the memory contained before: no old bytes leak into a message. */
static void gaps_are_zero(void **state) {
    sample *sample = sample_create();
    value_pack *first = NULL;
    for (int round = 0; round < 4; round++) {
        void *dirt[8];
        for (size_t i = 0; i < 8; i++) memset(dirt[i] = xmalloc(70000), 0x11 * (round + 1), 70000);
        for (size_t i = 0; i < 8; i++) free(dirt[i]);
        value_pack *made = value_pack_of(sample->args, SAMPLE_COUNT);
        if (first != NULL) {
            assert_int_equal(first->size, made->size);
            assert_memory_equal(first->bytes, made->bytes, made->size);
            value_pack_unref(made);
        } else {
            first = made;
        }
    }
    value_pack_unref(first);
    free(sample);
}

static void a_wrong_argument_is_named(void **state) {
    mr_arg args[2] = {mr_int(1), mr_text("\xff\xfe", 2)};
    value_pack_item items[2] = {{.arg = &args[0]}, {.arg = &args[1]}};
    value_pack *made = NULL;
    assert_int_equal(value_pack_create(items, 2, &made), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "argument 1"));
    assert_null(made);
}

static void no_memory_is_no_harm(void **state) {
    sample *sample = sample_create();
    value_pack_item items[SAMPLE_COUNT] = {0};
    for (size_t i = 0; i < SAMPLE_COUNT; i++) items[i].arg = &sample->args[i];
    value_pack *made = NULL;
    mr_status status = MR_NOMEM;
    size_t nth = 0;
    while (status == MR_NOMEM) {
        alloc_fail_at(++nth);
        status = value_pack_create(items, SAMPLE_COUNT, &made);
        assert_true(status == MR_OK || (status == MR_NOMEM && made == NULL));
    }
    alloc_fail_at(0);
    assert_int_equal(status, MR_OK);
    assert_true(nth > 4);
    value_pack_unref(made);
    assert_int_equal(value_pack_room(SIZE_MAX, &made), MR_TOO_LARGE);
    assert_int_equal(value_pack_room(SIZE_MAX - 100, &made), MR_TOO_LARGE);
    free(sample);
}

static void references_are_counted(void **state) {
    value_pack *made = value_pack_of(NULL, 0);
    assert_ptr_equal(value_pack_ref(made), made);
    value_pack_unref(made);
    assert_int_equal(made->refs, 1);
    value_pack_unref(made);
    value_pack_unref(NULL);
}

/* ---- Malformed bytes. */

static mr_status check_bytes(const void *bytes, size_t size) {
    value_pack *pack;
    assert_int_equal(value_pack_room(size, &pack), MR_OK);
    if (size > 0) memcpy(pack->bytes, bytes, size);
    mr_status status = value_pack_check(pack, &(value_pack_view){0});
    value_pack_unref(pack);
    return status;
}

static void malformed_packs_are_refused(void **state) {
    for (size_t size = 0; size < 8; size++) assert_int_equal(check_bytes("\0\0\0\0\0\0\0\0", size), MR_CORRUPT);
    assert_int_equal(check_bytes("\1\0\0\0\0\0\0\0", 8), MR_CORRUPT);         /* no entry */
    assert_int_equal(check_bytes("\xff\xff\xff\xff\0\0\0\0", 8), MR_CORRUPT); /* too many entries */
    struct {
        uint32_t count, zero, where, size;
        uint64_t payload_offset, payload_size, region_offset, region_size;
        uint8_t rest[16];
    } one = {1, 0, 16 | VALUE_PACK_PAYLOAD, 32, 48, 9, 0, 64, {1}};
    _Static_assert(sizeof one == 64, "layout");
    assert_int_equal(check_bytes(&one, sizeof one), MR_OK);
    const uint32_t bad_entries[][2] = {{12 | VALUE_PACK_PAYLOAD, 32},
                                       {16 | VALUE_PACK_PAYLOAD, 31},
                                       {40 | VALUE_PACK_PAYLOAD, 32},
                                       {16 | 3, 8},
                                       {16 | 7, 8},
                                       {64, 1},
                                       {16, 49},
                                       {0xfffffff8, 8},
                                       {16, UINT32_MAX}};
    for (size_t i = 0; i < sizeof bad_entries / sizeof bad_entries[0]; i++) {
        memcpy(&one.where, bad_entries[i], sizeof bad_entries[i]);
        assert_int_equal(check_bytes(&one, sizeof one), MR_CORRUPT);
    }
    one.where = 16 | VALUE_PACK_PAYLOAD;
    one.size = 32;
    const uint64_t bad[][4] = {{49, 9, 0, 0},
                               {48, 17, 0, 0},
                               {72, 0, 0, 0},
                               {UINT64_MAX, 1, 0, 0},
                               {48, UINT64_MAX, 0, 0},
                               {UINT64_MAX - 7, 16, 0, 0},
                               {48, 9, 8, 1},
                               {48, 9, 64, 1},
                               {48, 9, 0, 65},
                               {48, 9, 128, 0},
                               {48, 9, UINT64_MAX - 63, 128}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(&one.payload_offset, bad[i], sizeof bad[i]);
        assert_int_equal(check_bytes(&one, sizeof one), MR_CORRUPT);
    }
}

/* Small values are packed into the caller's memory, with the same bytes as by value_pack_create. */
static void small_values_are_packed_in_place(void **state) {
    _Alignas(8) uint8_t room[256];
    mr_arg items_of_list[2] = {mr_int(1), mr_str("two")};
    mr_arg args[6] = {mr_nil(), mr_int(-1), mr_float(0.5), mr_bool(true), mr_str("text"), mr_list(items_of_list, 2)};
    value_pack_item items[6] = {0};
    for (size_t i = 0; i < 6; i++) items[i].arg = &args[i];
    value_pack *made;
    assert_int_equal(value_pack_create(items, 6, &made), MR_OK);
    assert_int_equal(value_pack_pack_small(items, 6, room, sizeof room), made->size);
    assert_int_equal(value_pack_small_size(items, 6), made->size);
    assert_memory_equal(room, made->bytes, made->size);
    value_pack_view view;
    assert_int_equal(value_pack_open(span_of(room, made->size), &view), MR_OK);
    assert_true(view.plain && view.count == 6);
    for (size_t fits = 8; fits < made->size; fits++) assert_int_equal(value_pack_pack_small(items, 6, room, fits), 0);
    value_pack_item again[6];
    for (uint32_t i = 0; i < 6; i++) again[i] = (value_pack_item){.entry = value_pack_value(made, i)};
    memset(room, 0xff, sizeof room);
    assert_int_equal(value_pack_pack_small(again, 6, room, sizeof room), made->size);
    assert_memory_equal(room, made->bytes, made->size);
    uint8_t large[VALUE_PACK_OUT_OF_LINE] = {0};
    mr_arg wrong[3] = {mr_text("\xff", 1), mr_bytes(large, sizeof large), mr_tensor_of(MR_F32, NULL, 2, NULL)};
    for (size_t i = 0; i < 3; i++) {
        items[0].arg = &wrong[i];
        assert_int_equal(value_pack_pack_small(items, 1, room, sizeof room), 0);
        assert_int_equal(value_pack_small_size(items, 1), 0);
    }
    value_pack_unref(made);
}

static void memory_serves_again(void **state) {
    value_pack_spares spares = {0};
    value_pack *first, *second;
    assert_int_equal(value_pack_spares_room(&spares, 1000, &first), MR_OK); /* no spare: new memory */
    value_pack_ref(first);
    assert_false(value_pack_spares_keep(&spares, first)); /* another reference exists */
    value_pack_unref(first);
    assert_true(value_pack_spares_keep(&spares, first));
    assert_int_equal(value_pack_spares_room(&spares, 1001, &second), MR_OK); /* the spare is too small, and stays */
    assert_true(spares.count == 1 && second != first);
    value_pack_unref(second);
    assert_int_equal(value_pack_spares_room(&spares, 600, &second), MR_OK);
    assert_true(spares.count == 0 && second == first && second->size == 600);
    assert_true(value_pack_spares_keep(&spares, second));
    assert_int_equal(value_pack_spares_room(&spares, 1000, &second), MR_OK);
    assert_true(second == first && second->size == 1000);
    value_pack_unref(second);
    assert_int_equal(value_pack_room(VALUE_PACK_SPARE_BYTES + 1, &first), MR_OK);
    assert_false(value_pack_spares_keep(&spares, first));
    value_pack_unref(first);
    value_pack_spares_fini(&spares);
}

/* A larger spare replaces a smaller one. */
static void larger_memory_is_kept_rather(void **state) {
    value_pack_spares spares = {0};
    value_pack *large, *small, *got;
    for (int i = 0; i < VALUE_PACK_SPARES_MAX; i++) {
        assert_int_equal(value_pack_room(100, &small), MR_OK);
        assert_true(value_pack_spares_keep(&spares, small));
    }
    assert_int_equal(value_pack_room(100, &small), MR_OK);
    assert_false(value_pack_spares_keep(&spares, small)); /* the limit of spares is reached */
    assert_int_equal(value_pack_room(5000, &large), MR_OK);
    assert_true(value_pack_spares_keep(&spares, large));
    assert_int_equal(spares.count, VALUE_PACK_SPARES_MAX);
    assert_int_equal(value_pack_spares_room(&spares, 5000, &got), MR_OK);
    assert_true(got == large);
    value_pack_unref(got);
    value_pack_unref(small);
    value_pack_spares_fini(&spares);
}

static void scalars_need_no_document(void **state) {
    const mr_arg args[] = {mr_nil(),       mr_bool(false),    mr_bool(true),     mr_int(0),
                           mr_int(-1),     mr_int(INT64_MAX), mr_int(INT64_MIN), mr_int(300),
                           mr_int(-40000), mr_float(-0.0),    mr_float(1e300)};
    for (size_t i = 0; i < sizeof args / sizeof args[0]; i++) {
        uint8_t bytes[VALUE_SCALAR_MAX];
        mr_value value;
        size_t size = value_write_scalar(&args[i], bytes);
        assert_true(size > 0 && value_read_scalar(span_of(bytes, size), &value));
        assert_true(value_digest(&value) == digest_alone(&args[i]));
        assert_false(value_read_scalar(span_of(bytes, size - 1), &value));
        mr_value_release(&value);
    }
    const mr_arg text = mr_str("x");
    uint8_t bytes[VALUE_SCALAR_MAX] = {0xa1, 'x'};
    mr_value value;
    assert_int_equal(value_write_scalar(&text, bytes), 0);
    assert_false(value_read_scalar(span_of(bytes, 2), &value));
}

/* A pack that passes the check is read to the last byte: a sanitizer detects a read outside. */
static void mutated_bytes_lead_nowhere(void **state) {
    sample *sample = sample_create();
    value_pack *made = value_pack_of(sample->args, SAMPLE_COUNT);
    rng rng;
    rng_init(&rng, 1);
    int refused = 0, opened = 0, closed = 0;
    size_t heads = 8 + 8 * SAMPLE_COUNT;
    for (int round = 0; round < 3000; round++) {
        size_t size = rng_chance(&rng, 0.2) ? (size_t)rng_below(&rng, made->size + 1) : made->size;
        value_pack *got;
        assert_int_equal(value_pack_room(size, &got), MR_OK);
        memcpy(got->bytes, made->bytes, size);
        for (uint64_t i = rng_below(&rng, 4); i < 4 && size > 0; i++) {
            size_t where = (size_t)rng_below(&rng, rng_chance(&rng, 0.7) && size > heads ? heads + 300 : size);
            if (where < size) got->bytes[where] = (uint8_t)(rng_chance(&rng, 0.5) ? rng_next(&rng) : 0);
        }
        if (value_pack_check(got, &(value_pack_view){0}) != MR_OK) refused++;
        for (uint32_t i = 0; i < got->count; i++) {
            value_doc doc;
            mr_value root;
            value_pack_entry entry = value_pack_value(got, i);
            if (entry.kind == VALUE_PACK_STORED || value_pack_entry_open(&entry, &doc, &root) != MR_OK) {
                closed++;
                continue;
            }
            value_digest(&root);
            value_close(&doc);
            opened++;
        }
        value_pack_unref(got);
    }
    assert_true(refused > 0 && opened > 0 && closed > 0);
    value_pack_unref(made);
    free(sample);
}

static void one_scalar_is_packed_as_any_small_value(void **state) {
    const mr_arg scalars[] = {mr_nil(), mr_bool(true), mr_int(1), mr_int(-1), mr_int(INT64_MIN), mr_float(0.5)};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        _Alignas(8) uint8_t small[64], scalar[VALUE_PACK_SCALAR_MAX];
        memset(scalar, 0xee, sizeof scalar);
        size_t size = value_pack_pack_small(&(value_pack_item){.arg = &scalars[i]}, 1, small, sizeof small);
        assert_int_equal(value_pack_pack_scalar(&scalars[i], scalar), size);
        assert_memory_equal(scalar, small, size);
        uint64_t byte;
        bool is_byte = i <= 3; /* value_pack_pack_byte does not write the negative number */
        assert_int_equal(value_pack_one_byte(span_of(scalar, size), &byte), is_byte);
        assert_int_equal(value_pack_pack_byte(&scalars[i], small) != 0, i <= 2);
        if (is_byte) assert_int_equal(byte, scalar[16]);
    }
}

static void a_short_text_is_packed_as_any_small_value(void **state) {
    char data[VALUE_SHORT_MAX + 2];
    for (size_t size = 0; size <= VALUE_SHORT_MAX + 1; size++) {
        for (int is_str = 0; is_str <= 1; is_str++) {
            _Alignas(8) uint8_t small[64], out[VALUE_PACK_SCALAR_MAX];
            for (size_t i = 0; i < size; i++) data[i] = (char)(is_str ? 'a' + (int)i : 0xf0 + (int)i);
            mr_arg text = {.kind = is_str ? MR_KIND_STR : MR_KIND_BYTES, .bytes = {data, size}};
            memset(small, 0xee, sizeof small);
            memset(out, 0xee, sizeof out);
            size_t packed = value_pack_pack_small(&(value_pack_item){.arg = &text}, 1, small, sizeof small);
            assert_int_equal(value_pack_pack_scalar(&text, out), size <= VALUE_SHORT_MAX ? packed : 0);
            if (size <= VALUE_SHORT_MAX) assert_memory_equal(out, small, packed);
        }
    }
    _Alignas(8) uint8_t out[VALUE_PACK_SCALAR_MAX];
    const mr_arg wrong[] = {{.kind = MR_KIND_STR, .bytes = {"\xff", 1}}, {.kind = MR_KIND_BYTES, .bytes = {NULL, 1}}};
    for (size_t i = 0; i < 2; i++) assert_int_equal(value_pack_pack_scalar(&wrong[i], out), 0);
}

/* ---- Spreading. */

/* Whether the arguments can be spread. Asserts that the pieces are then the bytes of the packed values. */
static bool spreads(const mr_arg *args, size_t count) {
    value_pack_item *items = xcalloc(count + 1, sizeof *items);
    for (size_t i = 0; i < count; i++) items[i].arg = &args[i];
    size_t size = value_pack_small_size(items, count), at = 0;
    bool spreads = size > VALUE_PACK_INLINE_MAX;
    if (spreads) {
        value_pack_spread *spread = xcalloc(1, sizeof *spread);
        value_pack *packed = value_pack_of(args, count);
        memset(spread->rest, 0xee, sizeof spread->rest); /* old bytes */
        value_pack_spread_init(spread, items, count);
        assert_int_equal(packed->size, size);
        for (size_t i = 0; i < spread->count; at += spread->pieces[i++].size) {
            assert_true(spread->pieces[i].size > 0 && at + spread->pieces[i].size <= size);
            assert_memory_equal(spread->pieces[i].data, packed->bytes + at, spread->pieces[i].size);
        }
        assert_int_equal(at, size);
        value_pack_unref(packed);
        free(spread);
    }
    free(items);
    return spreads;
}

static void spread_values_are_the_bytes_of_packed_ones(void **state) {
    enum { SIZE = 40 * 1024 };
    uint8_t *data = xmalloc(SIZE);
    fill(data, SIZE, 9);
    for (int i = 0; i < SIZE; i++) data[i] &= 0x7f; /* valid as a str, too */
    for (size_t size = 8 * 1024 - 64; size < 8 * 1024 + 64; size++) {
        mr_arg arg = mr_vector((const float *)(const void *)data, (int64_t)size / 4), bytes = mr_bytes(data, size);
        if (size > 8 * 1024) assert_true(spreads(&arg, 1) && spreads(&bytes, 1));
        if (size < 8 * 1024 - 40) assert_true(!spreads(&arg, 1) && !spreads(&bytes, 1));
    }
    for (size_t size = 10 * 1024; size < 10 * 1024 + 24; size++) { /* at any alignment */
        const mr_arg inner[] = {mr_bytes(data, size % 7), mr_vector((const float *)(const void *)data, 2600), mr_nil()};
        mr_arg text = mr_bytes(data, size);
        text.kind = MR_KIND_STR;
        const mr_arg args[] = {mr_int(300),          mr_bytes(data, size),
                               mr_tuple(inner, 3),   mr_list(inner, 2),
                               mr_str("x"),          text,
                               mr_bytes(data, 1023), mr_nil()};
        assert_false(spreads(args, 8)); /* 1,023 bytes are no long piece, and the rest is too large with them */
        assert_true(spreads(args, 6));
    }
    free(data);
}

static void values_that_cannot_be_spread_are_packed(void **state) {
    enum { SIZE = 16 * 1024 };
    uint8_t *data = xcalloc(1, SIZE);
    mr_arg args[VALUE_PACK_SPREAD_LONG + 1], many[1000];
    for (size_t i = 0; i < VALUE_PACK_SPREAD_LONG + 1; i++) args[i] = mr_bytes(data, 1200);
    assert_true(spreads(args, VALUE_PACK_SPREAD_LONG));
    assert_false(spreads(args, VALUE_PACK_SPREAD_LONG + 1)); /* too many pieces */
    for (size_t i = 0; i < 5; i++) args[i] = mr_bytes(data, SIZE - 1);
    assert_true(spreads(args, 3));
    assert_false(spreads(args, 5)); /* too large */
    args[1] = mr_bytes(data, SIZE);
    assert_false(spreads(args, 2)); /* the value is a buffer */
    args[1] = mr_future((mr_ref){{1, 2}});
    assert_false(spreads(args, 2));
    for (size_t i = 0; i < 1000; i++) many[i] = mr_int((int64_t)i << 40);
    args[1] = mr_list(many, 1000);
    assert_false(spreads(args, 2)); /* too many bytes besides the long pieces */
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_out_as_they_went_in),
        cmocka_unit_test(tensors_are_used_where_they_lie),
        cmocka_unit_test(values_are_taken_from_other_packs),
        cmocka_unit_test(none_is_a_pack_too),
        cmocka_unit_test(many_values_fit_and_too_many_do_not),
        cmocka_unit_test(gaps_are_zero),
        cmocka_unit_test(a_wrong_argument_is_named),
        cmocka_unit_test(no_memory_is_no_harm),
        cmocka_unit_test(references_are_counted),
        cmocka_unit_test(malformed_packs_are_refused),
        cmocka_unit_test(small_values_are_packed_in_place),
        cmocka_unit_test(memory_serves_again),
        cmocka_unit_test(larger_memory_is_kept_rather),
        cmocka_unit_test(scalars_need_no_document),
        cmocka_unit_test(one_scalar_is_packed_as_any_small_value),
        cmocka_unit_test(a_short_text_is_packed_as_any_small_value),
        cmocka_unit_test(mutated_bytes_lead_nowhere),
        cmocka_unit_test(spread_values_are_the_bytes_of_packed_ones),
        cmocka_unit_test(values_that_cannot_be_spread_are_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
