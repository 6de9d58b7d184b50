/* compress_test.c — round trips, determinism, and malformed messages. */
#include "kv/codec/compress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"

enum { SIZE = 50000 };

static compressor *open_or_skip(compressor_id id) {
    compressor *compressor;
    mr_status status = compressor_open(id, &compressor);
    if (status == MR_NOT_FOUND) skip(); /* the library is not available on this machine */
    assert_int_equal(status, MR_OK);
    return compressor;
}

static void there_and_back(compressor_id id) {
    compressor *compressor = open_or_skip(id);
    uint8_t *bytes = calloc(1, SIZE), *message = malloc(compressor_bound(SIZE)), *back = malloc(SIZE + 1);
    rng rng;
    rng_init(&rng, 1);
    for (int kind = 0; kind < 3; kind++) { /* zeros, text-like, random */
        for (size_t i = 0; i < SIZE; i++) bytes[i] = kind == 0 ? 0 : (uint8_t)rng_below(&rng, kind == 1 ? 4 : 256);
        for (size_t size = 0; size <= SIZE; size = size * 3 + 1) {
            size_t packed = compressor_pack(compressor, span_of(bytes, size), message), found;
            assert_true(packed <= compressor_bound(size));
            if (kind < 2 && size > 1000 && id != COMPRESSOR_STORED) assert_true(packed < (kind == 0 ? size / 2 : size));
            assert_int_equal(compressor_size(span_of(message, packed), SIZE, &found), MR_OK);
            assert_int_equal(found, size);
            assert_int_equal(compressor_unpack(compressor, span_of(message, packed), back, size), MR_OK);
            assert_memory_equal(bytes, back, size);
            assert_int_equal(compressor_unpack(compressor, span_of(message, packed), back, size + 1), MR_CORRUPT);
        }
    }
    free(bytes);
    free(message);
    free(back);
    compressor_close(compressor);
}

static void stored_there_and_back(void **state) { there_and_back(COMPRESSOR_STORED); }
static void lz4_there_and_back(void **state) { there_and_back(COMPRESSOR_LZ4); }
static void zstd_there_and_back(void **state) { there_and_back(COMPRESSOR_ZSTD); }

static void damaged(compressor_id id) {
    compressor *compressor = open_or_skip(id);
    uint8_t bytes[2000] = {0}, message[2008], back[2000];
    rng rng;
    rng_init(&rng, 2);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)rng_below(&rng, 3);
    size_t packed = compressor_pack(compressor, span_of(bytes, sizeof bytes), message), size;
    for (size_t cut = 0; cut < packed; cut += 3) {
        uint8_t *exact = malloc(cut + 1);
        memcpy(exact, message, cut);
        assert_int_not_equal(compressor_unpack(compressor, span_of(exact, cut), back, sizeof back), MR_OK);
        free(exact);
    }
    assert_int_equal(compressor_size(span_of(message, packed), 1999, &size), MR_TOO_LARGE);
    assert_int_equal(compressor_size(span_of(message, 7), 5000, &size), MR_CORRUPT);
    message[0] = id == COMPRESSOR_LZ4 ? COMPRESSOR_ZSTD : COMPRESSOR_LZ4;
    assert_int_equal(compressor_unpack(compressor, span_of(message, packed), back, sizeof back), MR_INVALID);
    message[1] = 1;
    assert_int_equal(compressor_unpack(compressor, span_of(message, packed), back, sizeof back), MR_CORRUPT);
    compressor_close(compressor);
}

static void damaged_lz4_is_refused(void **state) { damaged(COMPRESSOR_LZ4); }
static void damaged_zstd_is_refused(void **state) { damaged(COMPRESSOR_ZSTD); }

/* A replayed step sends the same bytes, regardless of what its compressor has packed before. */
static void what_was_packed_before_does_not_show(compressor_id id) {
    enum { TURNS = 300 };
    compressor *used = open_or_skip(id);
    uint8_t *bytes = malloc(SIZE), *one = malloc(compressor_bound(SIZE)), *other = malloc(compressor_bound(SIZE));
    rng rng;
    rng_init(&rng, 3);
    for (int i = 0; i < TURNS; i++) {
        compressor *fresh = open_or_skip(id);
        size_t size = 1 + rng_below(&rng, i % 7 == 0 ? SIZE : 2000), kinds = 2 + rng_below(&rng, 254);
        for (size_t k = 0; k < size; k++) bytes[k] = (uint8_t)rng_below(&rng, kinds);
        size_t packed = compressor_pack(used, span_of(bytes, size), one);
        assert_int_equal(compressor_pack(fresh, span_of(bytes, size), other), packed);
        assert_memory_equal(one, other, packed);
        compressor_close(fresh);
    }
    free(bytes);
    free(one);
    free(other);
    compressor_close(used);
}

static void lz4_packs_the_same(void **state) { what_was_packed_before_does_not_show(COMPRESSOR_LZ4); }
static void zstd_packs_the_same(void **state) { what_was_packed_before_does_not_show(COMPRESSOR_ZSTD); }

/* One compressor unpacks messages of all sizes, some malformed; each result is as with a new compressor. */
static void what_was_unpacked_before_does_not_show(compressor_id id) {
    enum { TURNS = 300 };
    compressor *used = open_or_skip(id);
    uint8_t *bytes = malloc(SIZE), *message = malloc(compressor_bound(SIZE)), *back = malloc(SIZE);
    size_t refused = 0;
    rng rng;
    rng_init(&rng, 4);
    for (int i = 0; i < TURNS; i++) {
        size_t size = 100 + rng_below(&rng, i % 7 == 0 ? SIZE - 100 : 2000), kinds = 2 + rng_below(&rng, 100);
        for (size_t k = 0; k < size; k++) bytes[k] = (uint8_t)rng_below(&rng, kinds);
        size_t packed = compressor_pack(used, span_of(bytes, size), message);
        refused += compressor_unpack(used, span_of(message, packed - 1), back, size) != MR_OK;
        assert_int_equal(compressor_unpack(used, span_of(message, packed), back, size), MR_OK);
        assert_memory_equal(bytes, back, size);
    }
    assert_int_equal(refused, TURNS);
    free(bytes);
    free(message);
    free(back);
    compressor_close(used);
}

static void lz4_unpacks_the_same(void **state) { what_was_unpacked_before_does_not_show(COMPRESSOR_LZ4); }
static void zstd_unpacks_the_same(void **state) { what_was_unpacked_before_does_not_show(COMPRESSOR_ZSTD); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_there_and_back),   cmocka_unit_test(lz4_there_and_back),
        cmocka_unit_test(zstd_there_and_back),     cmocka_unit_test(damaged_lz4_is_refused),
        cmocka_unit_test(damaged_zstd_is_refused), cmocka_unit_test(lz4_packs_the_same),
        cmocka_unit_test(zstd_packs_the_same),     cmocka_unit_test(lz4_unpacks_the_same),
        cmocka_unit_test(zstd_unpacks_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
