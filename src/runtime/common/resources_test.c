/* resources_test.c — names, amounts, texts and encoding of resources. */
#include "runtime/common/resources.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

static void set(resources *resources, const char *name, double amount) {
    assert_int_equal(resources_set(resources, name, amount), MR_OK);
}

static void items_are_sorted_and_never_zero(void **state) {
    resources have = {0};
    set(&have, "gpu", 0.5);
    set(&have, "cpu", 4);
    set(&have, "memory", 3);
    set(&have, "gpu", 2);
    set(&have, "memory", 0);
    set(&have, "disk", 0);
    assert_int_equal(have.count, 2);
    assert_string_equal(have.items[0].name, "cpu");
    assert_string_equal(have.items[1].name, "gpu");
    assert_true(resources_milli(&have, "cpu") == 4000 && resources_milli(&have, "gpu") == 2000);
    assert_true(resources_milli(&have, "memory") == 0 && resources_milli(&have, "") == 0);
}

static void names_are_checked(void **state) {
    static const char *const good[] = {"a", "Z", "0", "a_b-c.d:e", "1234567890123456789012345678901"};
    static const char *const bad[] = {"", "a b", "a=b", "a,b", "\xc3\xa4", "12345678901234567890123456789012"};
    resources have = {0};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) set(&have, good[i], 1);
    resources before = have;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(resources_set(&have, bad[i], 1), MR_INVALID);
    assert_memory_equal(&have, &before, sizeof have);
}

static void amounts_are_checked(void **state) {
    static const double bad[] = {-1, -0.001, NAN, INFINITY, -INFINITY, 0.0005, 1.0001, 1e-10, 1e-300, 1e9 + 1, 1e300};
    static const struct {
        double amount;
        int64_t milli;
    } good[] = {{0.001, 1}, {0.1 + 0.2, 300}, {1e9, INT64_C(1000000000000)}, {0.999, 999}, {-0.0, 0}};
    resources have = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(resources_set(&have, "cpu", bad[i]), MR_INVALID);
        assert_int_equal(have.count, 0);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        set(&have, "cpu", good[i].amount);
        assert_true(resources_milli(&have, "cpu") == good[i].milli);
    }
}

static void there_are_not_too_many(void **state) {
    resources have = {0};
    char name[8];
    for (int i = 0; i < RESOURCES_MAX; i++) {
        snprintf(name, sizeof name, "r%d", i);
        set(&have, name, 1);
    }
    assert_int_equal(resources_set(&have, "more", 1), MR_INVALID);
    assert_int_equal(resources_parse(&have, "more=1"), MR_INVALID);
    set(&have, "more", 0);
    set(&have, "r3", 7);
    set(&have, "r3", 0);
    set(&have, "more", 1);
    assert_int_equal(have.count, RESOURCES_MAX);
}

/* The most kinds, with names and amounts of the greatest length, fit into bytes and text and are read back. */
static void the_most_comes_back(void **state) {
    resources most = {.group = UINT64_MAX, .bundle = UINT32_MAX}, got, parsed = {0};
    uint8_t bytes[RESOURCES_BYTES_MAX];
    char text[RESOURCES_TEXT_MAX];
    for (int i = 0; i < RESOURCES_MAX; i++) {
        char name[RESOURCE_NAME_MAX + 1];
        snprintf(name, sizeof name, "%031d", i);
        set(&most, name, 999999999.999);
    }
    writer writer = writer_of(bytes, sizeof bytes);
    resources_encode(&most, &writer);
    assert_false(writer.failed);
    assert_int_equal(writer_size(&writer), sizeof bytes);
    reader reader = reader_of(bytes, sizeof bytes);
    assert_int_equal(resources_decode(&reader, &got), MR_OK);
    assert_true(resources_equal(&most, &got));
    resources_text(&most, text, sizeof text);
    assert_int_equal(strcmp(text + strlen(text) - strlen(" in g4294967295:4294967295"), " in g4294967295:4294967295"),
                     0);
    most.group = most.bundle = 0;
    resources_text(&most, text, sizeof text);
    for (char *at = text, *to = text; (*to = *at) != '\0'; at++) to += *at != ' ';
    assert_int_equal(resources_parse(&parsed, text), MR_OK);
    assert_true(resources_equal(&most, &parsed));
}

static void texts_are_parsed(void **state) {
    resources have = {0};
    assert_int_equal(resources_parse(&have, ""), MR_OK);
    assert_int_equal(have.count, 0);
    assert_int_equal(resources_parse(&have, "cpu=2,gpu=0.5,x=0,big=1000000000,last=0.5000,dot=.25,whole=3."), MR_OK);
    char text[256];
    resources_text(&have, text, sizeof text);
    assert_string_equal(text, "big=1000000000, cpu=2, dot=0.25, gpu=0.5, last=0.5, whole=3");
    assert_int_equal(resources_parse(&have, "cpu=3"), MR_OK);
    assert_true(resources_milli(&have, "cpu") == 3000 && have.count == 6);
    static const char *const bad[] = {"cpu",
                                      "=1",
                                      "cpu=",
                                      "cpu=-1",
                                      "cpu=x",
                                      "cpu=1x",
                                      "cpu=1;",
                                      "cpu=.",
                                      "cpu=1.2.3",
                                      "cpu=0.0001",
                                      "cpu=nan",
                                      "cpu=inf",
                                      "cpu=0x1",
                                      "cpu= 1",
                                      "cpu=1,,a=1",
                                      "cpu=1000000001",
                                      ",",
                                      "a b=1",
                                      "cpu=1e3",
                                      "a=1 ",
                                      "cpu=1, gpu=1",
                                      "cpu=99999999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        resources none = {0};
        assert_int_equal(resources_parse(&none, bad[i]), MR_INVALID);
    }
}

static resources draw(rng *rng) {
    resources drawn = {0};
    uint64_t count = rng_below(rng, RESOURCES_MAX + 1);
    for (uint64_t i = 0; i < count; i++) {
        char text[64];
        uint64_t milli = rng_below(rng, UINT64_C(1000000000001)) >> rng_below(rng, 40);
        snprintf(text, sizeof text, "%c%u=%llu.%03llu", "abcXYZ"[rng_below(rng, 6)], (unsigned)rng_below(rng, 30),
                 (unsigned long long)milli / 1000, (unsigned long long)milli % 1000);
        assert_int_equal(resources_parse(&drawn, text), MR_OK);
    }
    return drawn;
}

/* A node gets its total as text, so parsing the text must return equal resources, including large numbers and
 * thousandths. */
static void printed_resources_are_parsed_back(void **state) {
    rng rng;
    rng_init(&rng, 1);
    for (int round = 0; round < 2000; round++) {
        resources drawn = draw(&rng), got = {0};
        char text[RESOURCES_TEXT_MAX];
        resources_text(&drawn, text, sizeof text);
        for (char *at = text, *to = text; (*to = *at) != '\0'; at++) to += *at != ' ';
        assert_int_equal(resources_parse(&got, text), MR_OK);
        assert_true(resources_equal(&drawn, &got));
    }
}

static void a_text_is_cut_where_there_is_no_room(void **state) {
    resources have = {0};
    assert_int_equal(resources_parse(&have, "cpu=1,gpu=2"), MR_OK);
    for (size_t size = 0; size < 20; size++) {
        char text[20];
        memset(text, 'x', sizeof text);
        resources_text(&have, text, size);
        if (size > 0) assert_true(strlen(text) < size && strncmp(text, "cpu=1, gpu=2", strlen(text)) == 0);
        for (size_t i = size; i < sizeof text; i++) assert_int_equal(text[i], 'x');
    }
}

static void amounts_add_up(void **state) {
    resources total = {0}, need = {0}, other = {0};
    assert_int_equal(resources_parse(&total, "cpu=2,gpu=1"), MR_OK);
    assert_int_equal(resources_parse(&need, "cpu=1.5,gpu=1"), MR_OK);
    assert_int_equal(resources_parse(&other, "cpu=1"), MR_OK);
    resources have = total;
    assert_true(resources_fit(&need, &have));
    resources_take(&have, &need);
    assert_true(resources_milli(&have, "cpu") == 500 && resources_milli(&have, "gpu") == 0);
    assert_false(resources_fit(&other, &have));
    assert_false(resources_equal(&have, &total));
    resources_take(&have, &other); /* overcommitted */
    assert_true(resources_milli(&have, "cpu") == -500);
    char text[64];
    resources_text(&have, text, sizeof text);
    assert_string_equal(text, "cpu=-0.5, gpu=0");
    assert_true(resources_fit(&(resources){0}, &have));
    resources_give(&have, &need);
    resources_give(&have, &other);
    assert_true(resources_equal(&have, &total));
    resources unknown = {0};
    set(&unknown, "tpu", 0.001);
    assert_false(resources_fit(&unknown, &total));
}

static void bytes_are_read_back(void **state) {
    rng rng;
    rng_init(&rng, 2);
    for (int round = 0; round < 500; round++) {
        resources drawn = draw(&rng), got;
        uint8_t bytes[RESOURCES_BYTES_MAX];
        writer writer = writer_of(bytes, sizeof bytes);
        resources_encode(&drawn, &writer);
        assert_false(writer.failed);
        size_t size = writer_size(&writer);
        reader reader = reader_of(bytes, size);
        assert_int_equal(resources_decode(&reader, &got), MR_OK);
        assert_true(resources_equal(&drawn, &got) && reader_left(&reader) == 0);
        size_t cut = (size_t)rng_below(&rng, size);
        reader = reader_of(bytes, cut);
        assert_int_equal(resources_decode(&reader, &got), MR_CORRUPT);
    }
}

/* Decoding mutated bytes either fails or returns valid resources. */
static void mutated_bytes_are_refused_or_are_resources(void **state) {
    rng rng;
    rng_init(&rng, 3);
    int accepted = 0, refused = 0;
    for (int round = 0; round < 20000; round++) {
        resources drawn = draw(&rng), got;
        uint8_t bytes[RESOURCES_BYTES_MAX];
        writer writer = writer_of(bytes, sizeof bytes);
        resources_encode(&drawn, &writer);
        for (uint64_t i = rng_below(&rng, 3); i < 3; i++)
            bytes[rng_below(&rng, writer_size(&writer))] = (uint8_t)rng_next(&rng);
        reader reader = reader_of(bytes, writer_size(&writer));
        if (resources_decode(&reader, &got) != MR_OK) {
            refused++;
            continue;
        }
        accepted++;
        assert_true(got.count <= RESOURCES_MAX);
        for (uint32_t i = 0; i < got.count; i++) {
            assert_true(got.items[i].milli > 0 && got.items[i].milli <= INT64_C(1000000000000));
            assert_true(strlen(got.items[i].name) > 0);
            if (i > 0) assert_true(strcmp(got.items[i - 1].name, got.items[i].name) < 0);
        }
    }
    assert_true(accepted > 0 && refused > 0);
}

static void a_cpu_is_no_custom_resource(void **state) {
    resources resources = {0};
    assert_int_equal(resources_parse(&resources, "CPU=2"), MR_INVALID);
    assert_string_equal(mr_last_error(), "CPU is not a custom resource: use num_cpus (--num-cpus)");
    assert_int_equal(resources_parse(&resources, "licence=1,GPU=2"), MR_INVALID);
    assert_string_equal(mr_last_error(), "GPU is not a custom resource: use num_gpus (--num-gpus)");
    assert_int_equal(resources_parse(&resources, "cpu=2"), MR_OK); /* in a bundle */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_sorted_and_never_zero),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(amounts_are_checked),
        cmocka_unit_test(there_are_not_too_many),
        cmocka_unit_test(the_most_comes_back),
        cmocka_unit_test(texts_are_parsed),
        cmocka_unit_test(printed_resources_are_parsed_back),
        cmocka_unit_test(a_text_is_cut_where_there_is_no_room),
        cmocka_unit_test(amounts_add_up),
        cmocka_unit_test(bytes_are_read_back),
        cmocka_unit_test(mutated_bytes_are_refused_or_are_resources),
        cmocka_unit_test(a_cpu_is_no_custom_resource),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
