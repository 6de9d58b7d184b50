/* id_test.c — ids are random, never none, and have one spelling. */
#include "base/id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static void random_ids_differ_and_are_never_none(void **state) {
    rng rng;
    rng_init(&rng, 1);
    process_id ids[200];
    for (size_t i = 0; i < 200; i++) {
        ids[i] = process_id_random(&rng);
        assert_false(process_id_is_none(ids[i]));
        assert_true(process_id_equal(ids[i], ids[i]));
        for (size_t j = 0; j < i; j++) assert_false(process_id_equal(ids[i], ids[j]));
    }
    assert_true(node_id_is_none((node_id){0}));
}

/* A generator whose next number is 0 (its second word is 0), and the one after it is not. */
static void zero_is_drawn_again(void **state) {
    rng rng = {{1, 0, 2, 3}}, twin = rng;
    assert_true(rng_next(&twin) == 0);
    uint64_t next = rng_next(&twin);
    assert_true(next != 0);
    assert_true(id_random(&rng) == next);
}

static void text_and_back(void **state) {
    const struct {
        uint64_t id;
        const char *text;
    } all[] = {{1, "0000000000000001"},
               {UINT64_C(0x0123456789abcdef), "0123456789abcdef"},
               {UINT64_C(0xfedcba9876543210), "fedcba9876543210"},
               {UINT64_MAX, "ffffffffffffffff"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[ID_TEXT_SIZE];
        node_id id = {0};
        assert_ptr_equal(node_id_text((node_id){all[i].id}, text), text);
        assert_string_equal(text, all[i].text);
        assert_int_equal(node_id_parse(text, &id), MR_OK);
        assert_true(id.v == all[i].id);
    }
    rng rng;
    rng_init(&rng, 2);
    for (int i = 0; i < 1000; i++) {
        char text[ID_TEXT_SIZE];
        process_id id = process_id_random(&rng), back = {0};
        assert_int_equal(process_id_parse(process_id_text(id, text), &back), MR_OK);
        assert_true(process_id_equal(id, back));
    }
    char none[ID_TEXT_SIZE]; /* none can be shown, not read */
    assert_string_equal(node_id_text((node_id){0}, none), "0000000000000000");
}

static void any_other_spelling_is_refused(void **state) {
    const char *const texts[] = {"",
                                 "0",
                                 "1",
                                 "0000000000000000",
                                 "00000000000000001",
                                 "000000000000001",
                                 "0123456789ABCDEF",
                                 "0123456789abcdeg",
                                 " 123456789abcdef",
                                 "0x23456789abcdef",
                                 "-000000000000001",
                                 "0123456789abcdef ",
                                 "0123456789abcde\n",
                                 "0123456789abcde\xff"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        process_id id = {77};
        assert_int_equal(process_id_parse(texts[i], &id), MR_INVALID);
        assert_int_equal(id.v, 77);
        assert_non_null(strstr(mr_last_error(), "is no process id"));
        assert_non_null(strstr(mr_last_error(), texts[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_ids_differ_and_are_never_none),
        cmocka_unit_test(zero_is_drawn_again),
        cmocka_unit_test(text_and_back),
        cmocka_unit_test(any_other_spelling_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
