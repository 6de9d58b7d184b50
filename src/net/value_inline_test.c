/* value_inline_test.c — text in one step: the same bytes as by the general way; incomplete text is not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "net/value.h"

static const size_t sizes[] = {0, 1, 5, 13, 14, 15, 31, 32, 255, 256, 1024, 65535, 65536, 70000};
enum { SIZES = sizeof sizes / sizeof sizes[0], SIZE_MOST = 70000, ROOM = SIZE_MOST + 16 };

static mr_arg text_of(bool is_str, const void *data, size_t size) {
    return (mr_arg){.kind = is_str ? MR_KIND_STR : MR_KIND_BYTES, .bytes = {data, size}};
}

static uint8_t *filled(void) {
    uint8_t *data = xmalloc(SIZE_MOST);
    for (size_t i = 0; i < SIZE_MOST; i++) data[i] = (uint8_t)('a' + i % 26);
    return data;
}

static void text_is_written_as_any_value(void **state) {
    uint8_t *data = filled(), *one = xmalloc(ROOM), *other = xmalloc(ROOM);
    for (size_t i = 0; i < 2 * SIZES; i++) {
        const mr_arg arg = text_of(i % 2 == 0, data, sizes[i / 2]);
        value_plan plan;
        assert_int_equal(value_measure(&arg, SIZE_MAX, &plan), MR_OK);
        value_write_plain(&arg, &plan, one);
        assert_int_equal(value_write_text(&arg, SIZE_MAX, other, plan.value_size), plan.value_size);
        assert_memory_equal(one, other, plan.value_size);
        assert_int_equal(value_write_text(&arg, SIZE_MAX, other, plan.value_size - 1), 0); /* no room */
        assert_int_equal(value_write_text(&arg, arg.bytes.size, other, ROOM), 0);          /* not below the limit */
        uint64_t words[2];
        bool is_short = arg.bytes.size <= VALUE_SHORT_MAX;
        assert_int_equal(value_write_short(&arg, words), is_short ? plan.value_size : 0);
        if (is_short) assert_memory_equal(words, one, plan.value_size);
    }
    free(data);
    free(one);
    free(other);
}

static void other_kinds_are_left_to_the_general_reader(void **state) {
    uint8_t out[64];
    uint64_t words[2];
    mr_value received = {{0}};
    const mr_arg others[] = {mr_nil(),
                             mr_int(1),
                             mr_list(NULL, 0),
                             mr_value_arg(&received),
                             text_of(true, "\xc3", 1),
                             text_of(false, NULL, 1)};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(value_write_text(&others[i], SIZE_MAX, out, sizeof out), 0);
        assert_int_equal(value_write_short(&others[i], words), 0);
    }
}

/* Opens a copy in a buffer of exactly that size, so that a sanitizer detects reads past its end. */
static mr_status open_copy(const uint8_t *bytes, size_t size, bool is_str, const uint8_t *expected) {
    uint8_t *copy = xmalloc(size + 1);
    memcpy(copy, bytes, size);
    copy = xrealloc(copy, size > 0 ? size : 1);
    value_doc doc;
    mr_value root;
    mr_span got;
    mr_status status = value_open_plain(&doc, span_of(copy, size), &root);
    if (status == MR_OK) {
        assert_int_equal(is_str ? mr_value_str(&root, &got) : mr_value_bytes(&root, &got), MR_OK);
        assert_memory_equal(got.data, expected, got.size);
        value_close(&doc);
    }
    free(copy);
    return status;
}

static void text_is_read_only_as_a_whole(void **state) {
    uint8_t *data = filled(), *out = xmalloc(ROOM);
    for (size_t i = 0; i < 2 * SIZES; i++) {
        const bool is_str = i % 2 == 0;
        const mr_arg arg = text_of(is_str, data, sizes[i / 2]);
        size_t size = value_write_text(&arg, SIZE_MAX, out, ROOM);
        out[size] = 0xc0; /* a second value after it */
        assert_int_equal(open_copy(out, size, is_str, data), MR_OK);
        assert_int_equal(open_copy(out, size + 1, is_str, data), MR_CORRUPT);
        for (size_t cut = 0; cut < size; cut += cut < 40 || size - cut < 40 ? 1 : 997)
            assert_int_equal(open_copy(out, cut, is_str, data), MR_CORRUPT);
        if (is_str && arg.bytes.size > 0) {
            out[size - 1] = 0xff;
            assert_int_equal(open_copy(out, size, is_str, data), MR_CORRUPT); /* not UTF-8 */
        }
    }
    free(data);
    free(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_written_as_any_value),
        cmocka_unit_test(other_kinds_are_left_to_the_general_reader),
        cmocka_unit_test(text_is_read_only_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
