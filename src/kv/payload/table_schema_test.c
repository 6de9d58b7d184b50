/* table_schema_test.c — schemas from texts and numbers, their encoding, and invalid options. */
#include "kv/payload/table_schema.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tests/support/payload_builder.h"

static table_schema make(definition_options options) {
    table_schema made;
    if (definition_of(options, &made) != MR_OK) fail_msg("%s", mr_last_error());
    return made;
}

static void assert_refused(definition_options options, const char *why) {
    table_schema made;
    assert_int_equal(definition_of(options, &made), MR_INVALID);
    if (strstr(mr_last_error(), why) == NULL) fail_msg("'%s' does not say '%s'", mr_last_error(), why);
}

static void zero_is_the_default(void **state) {
    table_schema made = make((definition_options){.id = 5});
    assert_int_equal(made.id, 5);
    assert_int_equal(made.kind, TABLE_SCHEMA_SPARSE);
    assert_int_equal(made.dtype, MR_F32);
    assert_int_equal(made.dim, 1);
    assert_string_equal(made.optimizer, "add");
    assert_int_equal(made.schedule.kind, LR_SCHEDULE_CONSTANT);
    assert_int_equal(made.init.kind, INITIALIZER_ZEROS);
    assert_int_equal(made.codec.id, CODEC_NONE);
    assert_int_equal(made.press, COMPRESSOR_STORED);
    assert_true(make((definition_options){.kind = TABLE_SCHEMA_DENSE}).block > 1000);
}

static void settings_have_the_defaults_of_their_optimizer(void **state) {
    table_schema adam = make((definition_options){.optimizer = "adam", .dim = 4, .beta2 = 0.99});
    assert_true(adam.settings.beta1 == 0.9f && adam.settings.beta2 == 0.99f && adam.schedule.rate == (double)0.001f);
    table_schema rms = make((definition_options){.optimizer = "rmsprop", .rate = 0.5});
    assert_true(rms.settings.beta2 == 0.99f && rms.schedule.rate == 0.5);
    assert_true(make((definition_options){.optimizer = "momentum", .momentum = -1}).settings.momentum == 0);
    assert_true(make((definition_options){.optimizer = "momentum"}).settings.momentum == 0.9f);
    assert_string_equal(make((definition_options){.optimizer = "own:mine"}).optimizer, "own:mine");
}

static void schedules_are_texts(void **state) {
    lr_schedule s = make((definition_options){.optimizer = "sgd", .schedule = "cosine:1000", .rate = 2}).schedule;
    assert_true(s.kind == LR_SCHEDULE_COSINE && s.steps == 1000 && s.end == 0 && s.rate == 2);
    s = make((definition_options){.optimizer = "sgd", .schedule = "polynomial:1e3:0.5:0.001+warmup:10"}).schedule;
    assert_true(s.kind == LR_SCHEDULE_POLYNOMIAL && s.steps == 1000 && s.power == 0.5 && s.end == 0.001 &&
                s.warmup == 10);
    s = make((definition_options){.optimizer = "adam", .schedule = "step:30:0.1"}).schedule;
    assert_true(s.kind == LR_SCHEDULE_STEP && s.every == 30 && s.factor == 0.1);
    assert_int_equal(make((definition_options){.optimizer = "own:x", .schedule = "constant+warmup:5"}).schedule.warmup,
                     5);
}

static void initializers_and_codecs_are_texts(void **state) {
    initializer init = make((definition_options){.initializer = "normal:0:0.01", .seed = 9}).init;
    assert_true(init.kind == INITIALIZER_NORMAL && init.a == 0 && init.b == 0.01f && init.seed == 9);
    init = make((definition_options){.initializer = "uniform:-0.5:0.5"}).init;
    assert_true(init.kind == INITIALIZER_UNIFORM && init.a == -0.5f && init.b == 0.5f);
    assert_true(make((definition_options){.initializer = "constant:-2e-3"}).init.a == -2e-3f);
    table_schema coded = make((definition_options){.codec = "topk:0.05+zstd", .seed = 4});
    assert_true(coded.codec.id == CODEC_TOPK && coded.codec.part == 0.05 && coded.press == COMPRESSOR_ZSTD);
    assert_int_equal(coded.codec.seed, 4);
    coded = make((definition_options){.codec = "lz4"});
    assert_true(coded.codec.id == CODEC_NONE && coded.press == COMPRESSOR_LZ4);
}

static void an_error_names_the_invalid_option(void **state) {
    assert_refused((definition_options){.optimizer = "adm"}, "; did you mean adam?");
    assert_refused((definition_options){.optimizer = "own:"}, "unknown optimizer 'own:'");
    assert_refused((definition_options){.optimizer = "own:a name that is far too long"},
                   "the name is longer than 23 bytes");
    assert_refused((definition_options){.optimizer = "adam", .beta1 = 1}, "beta1");
    assert_refused((definition_options){.optimizer = "sgd", .rate = -1}, "rate");
    assert_refused((definition_options){.optimizer = "sgd", .decay = NAN}, "decay");
    assert_refused((definition_options){.clip_norm = -1}, "clip_norm is -1");
    assert_refused((definition_options){.clip_norm = (double)NAN}, "clip_norm");
    assert_refused((definition_options){.clip_norm = 1e40}, "clip_norm is inf");
    assert_refused((definition_options){.clip_norm = 1, .dtype = MR_I64}, "int64 tables cannot be clipped");
    assert_refused((definition_options){.kind = TABLE_SCHEMA_VECTORS, .optimizer = "sgd"}, "can only use 'add'");
    assert_refused((definition_options){.kind = TABLE_SCHEMA_VECTORS, .initializer = "constant:1"},
                   "must be 'zeros' for vectors");
    assert_refused((definition_options){.kind = TABLE_SCHEMA_VECTORS, .dim = 3}, "must be 0 for vectors");
    assert_refused((definition_options){.kind = TABLE_SCHEMA_DENSE, .admit = 3}, "sparse tables");
    assert_refused((definition_options){.kind = TABLE_SCHEMA_DENSE, .dim = 3}, "must be 0 for a dense table");
    assert_refused((definition_options){.kind = (table_schema_kind)9}, "kind");
    assert_refused((definition_options){.dtype = MR_F64}, "float64");
    assert_refused((definition_options){.dtype = MR_I64, .optimizer = "sgd"}, "counters");
    assert_refused((definition_options){.dtype = MR_I64, .codec = "fp16"}, "codec 'fp16': int64 tables");
    assert_refused((definition_options){.dtype = MR_I64, .average = true}, "average");
    assert_refused((definition_options){.dtype = MR_I64, .initializer = "constant:0.5"}, "whole number");
    assert_refused((definition_options){.dim = 1 << 20}, "dim is");
    assert_refused((definition_options){.block = 3}, "block");
    assert_refused((definition_options){.admit = 1000}, "admit is");
    assert_refused((definition_options){.age_max = UINT64_MAX}, "age_max");
    assert_refused((definition_options){.first_key = 3}, "ordered");
    assert_refused((definition_options){.ordered = true, .first_key = 3, .last_key = 2},
                   "first_key is 3, above last_key (2)");
}

static void settings_that_the_optimizer_has_not_are_said(void **state) {
    assert_refused((definition_options){.optimizer = "sgd", .momentum = 0.9},
                   "momentum = 0.9: optimizer 'sgd' has no momentum; these have: momentum, nesterov");
    assert_refused((definition_options){.rate = 0.01}, "rate = 0.01: optimizer 'add' has no rate; these have: sgd, ");
    assert_refused((definition_options){.optimizer = "add", .decay = 0.1}, "decay");
    assert_refused((definition_options){.schedule = "cosine:9"}, "schedule 'cosine:9': optimizer 'add' has no rate");
    assert_refused((definition_options){.optimizer = "adam", .l1 = 1}, "l1 = 1: optimizer 'adam' has no l1; ");
    assert_refused((definition_options){.optimizer = "ftrl", .beta2 = 0.5}, "beta2");
    assert_refused((definition_options){.optimizer = "adagrad", .beta1 = 0.5}, "beta1");
    assert_refused((definition_options){.optimizer = "sgd", .epsilon = 1}, "epsilon");
    make((definition_options){.rate = 1, .schedule = "constant"}); /* equal to mr_ps_table_options_get */
    assert_true(make((definition_options){.optimizer = "sgd"}).settings.momentum == 0);
    make((definition_options){.optimizer = "adagrad", .momentum = -1}); /* none, and adagrad has no momentum */
    make((definition_options){.optimizer = "own:x", .momentum = 0.5, .l1 = 1, .schedule = "cosine:9"});
}

static void texts_that_mean_nothing_are_said(void **state) {
    static const char *const schedules[] = {"",
                                            "cosin:5",
                                            "cosine",
                                            "cosine:x",
                                            "cosine:1.5",
                                            "cosine:0",
                                            "cosine:5:1:2:3",
                                            "step:1:2:3",
                                            "step:5:2",
                                            "constant:1",
                                            "constant+",
                                            "constant+warmup",
                                            "constant+warmup:0",
                                            "cosine:5+warmup:5"};
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        assert_refused((definition_options){.optimizer = "sgd", .schedule = schedules[i]}, "schedule '");
    static const char *const initializers[] = {"",
                                               "zero",
                                               "zeros:1",
                                               "constant",
                                               "constant:",
                                               "constant:nan",
                                               "constant:0x1",
                                               "uniform:1:0",
                                               "normal:0:-1",
                                               "normal:0:1:2",
                                               "constant:1e99"};
    for (size_t i = 0; i < sizeof initializers / sizeof *initializers; i++)
        assert_refused((definition_options){.initializer = initializers[i]}, "initializer '");
    static const char *const codecs[] = {"",         "fp8",   "topk:0",   "topk:2",
                                         "lz4+fp16", "fp16+", "fp16+lz5", "fp16+lz4+lz4"};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        assert_refused((definition_options){.codec = codecs[i]}, "codec");
    assert_refused((definition_options){.codec = "int4"}, "; did you mean int8?");
    assert_refused((definition_options){.codec = "top:0.1+zstd"}, "; did you mean topk?");
    assert_refused((definition_options){.codec = "int8+zst"}, "; did you mean zstd?");
    assert_refused((definition_options){.optimizer = "sgd", .rate = 0.1, .schedule = "cosin:100"},
                   "; did you mean cosine?");
    assert_refused((definition_options){.initializer = "gaussian:0:1"}, "normal:MEAN:DEVIATION");
    assert_refused((definition_options){.codec = "gzip"}, "unknown codec 'gzip'; expected none, fp16");
    assert_refused((definition_options){.codec = "int8+gzip"}, "unknown codec 'int8+gzip'; expected none, fp16");
    assert_refused((definition_options){.codec = "lz4+zstd"}, "lz4 and zstd; or one of the former");
}

static table_schema some(void) {
    return make((definition_options){.id = 77,
                                     .dim = 16,
                                     .optimizer = "adamw",
                                     .schedule = "cosine:100:0.0001+warmup:7",
                                     .initializer = "uniform:-1:1",
                                     .codec = "int8+lz4",
                                     .seed = 12345,
                                     .decay = 0.01,
                                     .average = true,
                                     .refuse_nan = true,
                                     .admit = 3,
                                     .rows_max = 1000,
                                     .age_max = 50,
                                     .precision = "bf16"});
}

static void a_precision_is_that_of_the_dtype_or_of_fp32(void **state) {
    table_schema plain = make((definition_options){.precision = "fp32"}),
                 half = make((definition_options){.precision = "fp16"}),
                 own = make((definition_options){.dtype = MR_BF16, .precision = "bf16"});
    assert_int_equal(plain.precision, 0); /* one encoding for each meaning */
    assert_int_equal(own.precision, 0);
    assert_int_equal(table_schema_precision(&plain), MR_F32);
    assert_int_equal(table_schema_precision(&half), MR_F16);
    assert_int_equal(table_schema_precision(&own), MR_BF16);
    assert_string_equal(table_schema_precision_name(&half), "fp16");
    assert_string_equal(table_schema_precision_name(&own), "bf16");
    table_schema counters = make((definition_options){.dtype = MR_I64});
    assert_null(table_schema_precision_name(&counters));
    assert_refused((definition_options){.precision = "fp61"}, "unknown precision 'fp61'; expected fp32, bf16 or fp16");
    assert_refused((definition_options){.precision = "fp16", .dtype = MR_BF16}, "a table of bfloat16 cannot have it");
    assert_refused((definition_options){.precision = "fp32", .dtype = MR_I64}, "a table of int64 cannot have it");
    for (mr_dtype dtype = 1; dtype < 20; dtype++) { /* as decoded */
        half.precision = dtype;
        assert_int_equal(table_schema_check(&half), dtype == MR_F16 || dtype == MR_BF16 ? MR_OK : MR_INVALID);
    }
}

static void bytes_come_back(void **state) {
    table_schema before = some(), after;
    uint8_t bytes[TABLE_SCHEMA_SIZE], again[TABLE_SCHEMA_SIZE];
    table_schema_encode(&before, bytes);
    assert_int_equal(table_schema_decode(span_of(bytes, sizeof bytes), &after), MR_OK);
    assert_null(table_schema_differs(&before, &after));
    assert_int_equal(after.id, 77);
    assert_int_equal(after.codec.seed, 12345);
    table_schema_encode(&after, again);
    assert_memory_equal(bytes, again, sizeof bytes);
    assert_true(sizeof bytes < 300);
}

static void wrong_bytes_are_no_schema(void **state) {
    table_schema before = some(), after;
    uint8_t bytes[TABLE_SCHEMA_SIZE + 1] = {0};
    table_schema_encode(&before, bytes);
    const size_t first =
        TABLE_SCHEMA_SIZE - TABLE_SCHEMA_SIZE_LATER; /* as written by a release without the later fields */
    for (size_t size = 0; size <= sizeof bytes; size++)
        if (size < first || size > TABLE_SCHEMA_SIZE)
            assert_int_equal(table_schema_decode(span_of(bytes, size), &after), MR_CORRUPT);
    assert_int_equal(table_schema_decode(span_of(bytes, first), &after), MR_OK);
    assert_int_equal(after.precision, 0);
    assert_int_equal(table_schema_precision(&after), MR_F32);
    after.precision = before.precision;
    assert_null(table_schema_differs(&before, &after));
    rng rng;
    rng_init(&rng, 1);
    for (int turn = 0; turn < 20000; turn++) { /* a decoded schema is valid, and is encoded to the same bytes */
        uint8_t wrong[TABLE_SCHEMA_SIZE], again[TABLE_SCHEMA_SIZE];
        memcpy(wrong, bytes, sizeof wrong);
        wrong[rng_below(&rng, sizeof wrong)] = (uint8_t)rng_next(&rng);
        if (table_schema_decode(span_of(wrong, sizeof wrong), &after) != MR_OK) continue;
        table_schema_encode(&after, again);
        assert_memory_equal(wrong, again, sizeof again);
    }
}

static void differences_have_names(void **state) {
    table_schema a = some(), b = some();
    b.id = 3;
    assert_null(table_schema_differs(&a, &b));
    b.schedule.warmup = 8;
    assert_string_equal(table_schema_differs(&a, &b), "schedule");
    b = some();
    b.settings.decay = 0.02f;
    assert_string_equal(table_schema_differs(&a, &b), "decay");
    b = some();
    b.press = COMPRESSOR_STORED;
    assert_string_equal(table_schema_differs(&a, &b), "codec");
    b = some();
    b.precision = MR_F16;
    assert_string_equal(table_schema_differs(&a, &b), "precision");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_is_the_default),
        cmocka_unit_test(settings_have_the_defaults_of_their_optimizer),
        cmocka_unit_test(schedules_are_texts),
        cmocka_unit_test(initializers_and_codecs_are_texts),
        cmocka_unit_test(an_error_names_the_invalid_option),
        cmocka_unit_test(settings_that_the_optimizer_has_not_are_said),
        cmocka_unit_test(texts_that_mean_nothing_are_said),
        cmocka_unit_test(a_precision_is_that_of_the_dtype_or_of_fp32),
        cmocka_unit_test(bytes_come_back),
        cmocka_unit_test(wrong_bytes_are_no_schema),
        cmocka_unit_test(differences_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
