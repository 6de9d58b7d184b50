/* codec_test.c — round trips of the codecs, their sizes, and malformed messages. */
#include "kv/codec/codec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/rng.h"
#include "kv/codec/residual.h"
#include "kv/codec/sparsify.h"

enum { COUNT = 3001 };

static codec parsed(const char *text) {
    codec codec;
    assert_int_equal(codec_parse(text, &codec), MR_OK);
    return codec;
}

static const char *const all[] = {"none", "fp16", "bf16", "int8", "sign", "topk:0.02", "randk:0.02"};

typedef struct scene {
    float values[COUNT], back[COUNT];
    uint8_t message[COUNT * 8 + 64];
    size_t size;
} scene;

static void draw(scene *scene, uint64_t seed) {
    rng rng;
    rng_init(&rng, seed);
    for (size_t i = 0; i < COUNT; i++) scene->values[i] = (float)((rng_unit(&rng) - 0.5) * (rng_unit(&rng) + 0.1));
}

static void there_and_back(scene *scene, const codec *codec, size_t count) {
    assert_int_equal(
        codec_encode(codec, 5, scene->values, count, scene->message, codec_bound(codec, count), &scene->size), MR_OK);
    assert_true(scene->size <= codec_bound(codec, count));
    assert_int_equal(codec_decode(span_of(scene->message, scene->size), scene->back, count), MR_OK);
}

static void names_are_read(void **state) {
    codec codec;
    assert_true(parsed("topk:0.25").part == 0.25 && parsed("randk:1").part == 1 && parsed("topk").part == 0.01);
    const char *wrong[] = {"fp16:1", "topk:", "topk:0", "topk:2", "topk:x", "topk:0.1x", "topk:nan"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(codec_parse(wrong[i], &codec), MR_INVALID);
    const char *unknown[] = {"", "fp", "gzip"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_int_equal(codec_parse(unknown[i], &codec), MR_NOT_FOUND);
    assert_string_equal(codec_name(CODEC_SIGN), "sign");
}

static void decoded_values_are_within_the_stated_error(void **state) {
    static scene scene;
    for (size_t c = 0; c < 5; c++) {
        codec codec = parsed(all[c]);
        draw(&scene, c);
        there_and_back(&scene, &codec, COUNT);
        for (size_t from = 0; from < COUNT; from += 1024) {
            double sum = 0;
            size_t size = COUNT - from < 1024 ? COUNT - from : 1024;
            for (size_t i = from; i < from + size; i++) sum += (double)fabsf(scene.values[i]);
            for (size_t i = from; i < from + size; i++) {
                float x = scene.values[i], y = scene.back[i];
                if (codec.id == CODEC_NONE) assert_true(x == y);
                if (codec.id == CODEC_FP16) assert_true(y == half_from_fp16(half_to_fp16(x)));
                if (codec.id == CODEC_BF16) assert_true(y == half_from_bf16(half_to_bf16(x)));
                if (codec.id == CODEC_INT8) assert_true(fabsf(x - y) <= 0.55f / 127 / 2 * 1.01f);
                if (codec.id == CODEC_SIGN) assert_true(y == copysignf((float)(sum / (double)size), x));
            }
        }
    }
}

static int by_magnitude(const void *a, const void *b) {
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return x > y ? -1 : x < y;
}

static void the_largest_are_picked(void **state) {
    static scene scene;
    for (uint64_t seed = 0; seed < 5; seed++) {
        codec codec = parsed("topk:0.02");
        draw(&scene, seed);
        if (seed == 3) /* few different values, some tiny */
            for (size_t i = 0; i < COUNT; i++)
                scene.values[i] = (i % 40 == 7 ? 1e-42f : 0) * (i % 80 == 7 ? -1.0f : 1.0f);
        there_and_back(&scene, &codec, COUNT);
        float sorted[COUNT];
        memcpy(sorted, scene.values, sizeof sorted);
        qsort(sorted, COUNT, sizeof *sorted, by_magnitude);
        size_t picked = 0;
        for (size_t i = 0; i < COUNT; i++) {
            bool is = scene.back[i] != 0;
            picked += is;
            if (is) assert_true(scene.back[i] == scene.values[i] && fabsf(scene.values[i]) >= fabsf(sorted[59]));
        }
        assert_int_equal(picked, 60);
        /* of equal values the first is sent */
        if (seed == 3) assert_true(scene.back[7] != 0 && scene.back[60 * 40 + 7] == 0);
    }
}

static void one_of_each_stretch_is_drawn(void **state) {
    for (size_t k = 1; k <= 100; k++)
        for (size_t i = 0, least = 0; i < k; i++) {
            size_t place = sparsify_one(k, 100, k, i);
            assert_true(place >= least && place < 100);
            least = place + 1;
        }
    static scene scene;
    codec codec = parsed("randk:0.02");
    draw(&scene, 1);
    there_and_back(&scene, &codec, COUNT);
    size_t same = 0;
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(scene.back[i] == 0 || scene.back[i] == scene.values[i]);
        same += scene.back[i] != 0;
    }
    assert_int_equal(same, 60);
}

/* With error feedback the sums of the sent values stay near the sums of the pushed values. */
static void nothing_is_lost_for_ever(void **state) {
    static scene scene;
    static float sent[COUNT], wanted[COUNT];
    for (size_t c = 1; c < 7; c++) {
        codec codec = parsed(all[c]);
        static float rest[COUNT], scratch[COUNT];
        memset(rest, 0, sizeof rest);
        memset(sent, 0, sizeof sent);
        memset(wanted, 0, sizeof wanted);
        draw(&scene, 3);
        for (uint64_t step = 0; step < 300; step++) {
            assert_int_equal(residual_encode(&codec, step, scene.values, rest, scratch, COUNT, scene.message,
                                             sizeof scene.message, &scene.size),
                             MR_OK);
            assert_int_equal(codec_decode(span_of(scene.message, scene.size), scene.back, COUNT), MR_OK);
            for (size_t i = 0; i < COUNT; i++) {
                sent[i] += scene.back[i];
                wanted[i] += scene.values[i];
            }
        }
        double off = 0, length = 0;
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(fabsf(wanted[i] - sent[i] - rest[i]) < 1e-2f + 1e-4f * fabsf(wanted[i]));
            off += pow((double)wanted[i] - (double)sent[i], 2);
            length += pow((double)wanted[i], 2);
        }
        if (sqrt(off / length) > 0.25) fail_msg("%s is off by %g", all[c], sqrt(off / length));
    }
}

/* A value above the fp16 range is sent in parts, with the next pushes. */
static void clipped_values_are_carried_to_the_next_push(void **state) {
    codec codec = parsed("fp16");
    uint8_t message[64];
    size_t size;
    float rest[3] = {0, 0, 3}, scratch[3], back[3];
    float values[3] = {100000, -1e6f, INFINITY};
    assert_int_equal(residual_encode(&codec, 0, values, rest, scratch, 3, message, sizeof message, &size), MR_OK);
    assert_int_equal(codec_decode(span_of(message, size), back, 3), MR_OK);
    assert_true(back[0] == 65504 && back[1] == -65504 && isinf(back[2]));
    assert_true(rest[0] == 100000 - 65504 && rest[1] == -1e6f + 65504 && rest[2] == 0);
    values[0] = values[1] = values[2] = 0;
    assert_int_equal(residual_encode(&codec, 1, values, rest, scratch, 3, message, sizeof message, &size), MR_OK);
    assert_int_equal(codec_decode(span_of(message, size), back, 3), MR_OK);
    assert_true(back[0] == 34496 && rest[0] == 0 && back[1] == -65504 && back[2] == 0);
}

/* A residual whose sum with a value would overflow is dropped. */
static void a_rest_that_would_overflow_is_forgotten(void **state) {
    codec codec = parsed("int8");
    uint8_t message[64];
    size_t size;
    float rest[2] = {3e38f, 1}, scratch[2], values[2] = {3e38f, 0};
    assert_int_equal(residual_encode(&codec, 0, values, rest, scratch, 2, message, sizeof message, &size), MR_OK);
    assert_true(isfinite(rest[0]) && fabsf(rest[0]) < 1e37f && rest[1] == 1);
    const float kept[2] = {rest[0], rest[1]};
    values[1] = NAN;
    assert_int_equal(residual_encode(&codec, 0, values, rest, scratch, 2, message, sizeof message, &size), MR_INVALID);
    assert_memory_equal(rest, kept, sizeof rest);
}

static void values_that_are_not_finite_are_refused(void **state) {
    float values[3] = {1, NAN, 2};
    uint8_t message[64];
    size_t size;
    for (size_t c = 3; c < 6; c++) {
        codec codec = parsed(all[c]);
        assert_int_equal(codec_encode(&codec, 0, values, 3, message, sizeof message, &size), MR_INVALID);
    }
    codec none = parsed("none");
    assert_int_equal(codec_encode(&none, 0, values, 3, message, sizeof message, &size), MR_OK);
}

static void every_length_is_checked(void **state) {
    static scene scene;
    for (size_t c = 0; c < 7; c++) {
        codec codec = parsed(all[c]);
        draw(&scene, c);
        for (size_t count = 0; count < 12; count++) {
            there_and_back(&scene, &codec, count);
            uint8_t *copy = malloc(scene.size + 1); /* of the exact size, for the sanitizer */
            for (size_t cut = 0; cut < scene.size; cut++) {
                uint8_t *exact = malloc(cut + 1);
                memcpy(exact, scene.message, cut);
                assert_int_equal(codec_decode(span_of(exact, cut), scene.back, count), MR_CORRUPT);
                free(exact);
            }
            memcpy(copy, scene.message, scene.size);
            copy[scene.size] = 0;
            assert_int_equal(codec_decode(span_of(copy, scene.size + 1), scene.back, count), MR_CORRUPT);
            assert_int_equal(codec_decode(span_of(copy, scene.size), scene.back, count + 1), MR_CORRUPT);
            copy[0] = CODEC_IDS;
            assert_int_equal(codec_decode(span_of(copy, scene.size), scene.back, count), MR_CORRUPT);
            free(copy);
        }
    }
}

static void costs(void **state) {
    const struct {
        const char *text;
        size_t size;
    } known[] = {{"none", 4008}, {"fp16", 2008}, {"int8", 1024}, {"sign", 137}, {"topk:0.01", 92}, {"randk:0.01", 60}};
    for (size_t i = 0; i < 6; i++) {
        codec codec = parsed(known[i].text);
        assert_int_equal(codec_bound(&codec, 1000), known[i].size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read),
        cmocka_unit_test(decoded_values_are_within_the_stated_error),
        cmocka_unit_test(the_largest_are_picked),
        cmocka_unit_test(one_of_each_stretch_is_drawn),
        cmocka_unit_test(nothing_is_lost_for_ever),
        cmocka_unit_test(clipped_values_are_carried_to_the_next_push),
        cmocka_unit_test(a_rest_that_would_overflow_is_forgotten),
        cmocka_unit_test(values_that_are_not_finite_are_refused),
        cmocka_unit_test(every_length_is_checked),
        cmocka_unit_test(costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
