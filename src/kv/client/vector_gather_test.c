/* vector_gather_test.c — answers with vectors arrive in any parts and order, and are put together in key order. */
#include "kv/client/vector_gather.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"

enum { KEYS = 5 };

static const uint64_t keys[KEYS] = {3, 20, 21, 300, 4000};
static const uint32_t lengths[KEYS] = {2, 0, 3, 1, 0};

static vector_gather *begin(mr_ps_vectors **result) {
    vector_gather *gather;
    *result = NULL;
    assert_int_equal(vector_gather_create(keys, KEYS, MR_F32, MR_F32, result, &gather), MR_OK);
    return gather;
}

static float value_of(uint32_t place, uint32_t i) { return (float)(place * 10 + i); }

/* The answer for these places; `more`: values more than the lengths say. */
static mr_status take(vector_gather *gather, const uint32_t *places, uint32_t count, size_t more) {
    uint32_t own[KEYS];
    float values[16];
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        own[i] = lengths[places[i]];
        for (uint32_t k = 0; k < own[i]; k++) values[at++] = value_of(places[i], k);
    }
    const payload_section answer = {.op = PAYLOAD_VECTORS,
                                    .dtype = MR_F32,
                                    .count = count,
                                    .lengths = own,
                                    .values = span_of(values, (at + more) * sizeof(float))};
    return vector_gather_take(gather, places, count, &answer);
}

static void check(const mr_ps_vectors *result) {
    const float *values = result->values;
    assert_int_equal(result->count, KEYS);
    assert_int_equal(result->value_count, 6);
    assert_memory_equal(result->lengths, lengths, sizeof lengths);
    for (uint32_t i = 0; i < KEYS; i++)
        for (uint32_t k = 0; k < lengths[i]; k++) assert_true(*values++ == value_of(i, k));
}

static void parts_come_in_any_order(void **state) {
    static const uint32_t parts[][3] = {{4, 0}, {2}, {1, 3}};
    static const uint32_t counts[] = {2, 1, 2}, orders[][3] = {{0, 1, 2}, {2, 0, 1}, {1, 2, 0}};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        mr_ps_vectors *result;
        vector_gather *gather = begin(&result);
        for (int k = 0; k < 3; k++) {
            assert_null(result); /* nothing is written before all answers have arrived */
            assert_int_equal(take(gather, parts[orders[i][k]], counts[orders[i][k]], 0), MR_OK);
        }
        vector_gather_destroy(gather);
        check(result); /* the result does not need the gather */
        mr_ps_vectors_free(result);
    }
}

static void answers_of_a_repeated_pull_replace_all(void **state) {
    static const uint32_t all[KEYS] = {0, 1, 2, 3, 4}, some[] = {1, 3};
    mr_ps_vectors *result;
    vector_gather *gather = begin(&result);
    assert_int_equal(take(gather, all, KEYS, 0), MR_OK);
    assert_non_null(result);
    vector_gather_renew(gather);
    assert_null(result);
    assert_int_equal(take(gather, some, 2, 0), MR_OK);
    vector_gather_renew(gather);
    assert_int_equal(take(gather, all, KEYS, 0), MR_OK);
    vector_gather_destroy(gather);
    check(result);
    mr_ps_vectors_free(result);
}

static void malformed_answers_are_rejected(void **state) {
    mr_ps_vectors *result;
    vector_gather *gather = begin(&result);
    const uint32_t all[KEYS] = {0, 1, 2, 3, 4};
    const payload_section other = {.op = PAYLOAD_ROWS, .count = KEYS};
    assert_int_equal(take(gather, all, KEYS, 1), MR_CORRUPT);
    assert_int_equal(vector_gather_take(gather, all, KEYS, &other), MR_CORRUPT);
    assert_null(result);
    assert_int_equal(take(gather, all, KEYS, 0), MR_OK);
    check(result);
    mr_ps_vectors_free(result);
    vector_gather_destroy(gather);
}

static void halves_are_widened_and_narrowed(void **state) {
    static const uint64_t key = 7;
    static const uint32_t place = 0, length = 3;
    const uint16_t sent[] = {half_to_bf16(1), half_to_bf16(-2.5f), half_to_bf16(1e30f)};
    const payload_section answer = {
        .op = PAYLOAD_VECTORS, .dtype = MR_BF16, .count = 1, .lengths = &length, .values = span_of(sent, sizeof sent)};
    mr_ps_vectors *result;
    vector_gather *gather;
    assert_int_equal(vector_gather_create(&key, 1, MR_BF16, MR_F32, &result, &gather), MR_OK);
    assert_int_equal(vector_gather_take(gather, &place, 1, &answer), MR_OK);
    assert_memory_equal(result->values, ((const float[]){1, -2.5f, half_from_bf16(sent[2])}), 3 * sizeof(float));
    vector_gather_destroy(gather);
    mr_ps_vectors_free(result);
    assert_int_equal(vector_gather_create(&key, 1, MR_BF16, MR_F16, &result, &gather), MR_OK);
    assert_int_equal(vector_gather_take(gather, &place, 1, &answer), MR_OK);
    assert_memory_equal(result->values, ((const uint16_t[]){0x3c00, 0xc100, 0x7c00}), 3 * sizeof(uint16_t));
    assert_int_equal(result->lengths[0], 3);
    vector_gather_destroy(gather);
    mr_ps_vectors_free(result);
    assert_int_equal(vector_gather_create(&key, 1, MR_F16, MR_F16, &result, &gather), MR_OK);
    assert_int_equal(vector_gather_take(gather, &place, 1, &answer), MR_CORRUPT); /* not the dtype that was asked for */
    vector_gather_destroy(gather);
}

static void no_keys_have_a_result_at_once(void **state) {
    mr_ps_vectors *result = NULL;
    vector_gather *gather;
    assert_int_equal(vector_gather_create(NULL, 0, MR_I64, MR_I64, &result, &gather), MR_OK);
    assert_true(result != NULL && result->count == 0 && result->value_count == 0);
    mr_ps_vectors_free(result);
    vector_gather_destroy(gather);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_come_in_any_order),        cmocka_unit_test(answers_of_a_repeated_pull_replace_all),
        cmocka_unit_test(malformed_answers_are_rejected), cmocka_unit_test(halves_are_widened_and_narrowed),
        cmocka_unit_test(no_keys_have_a_result_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
