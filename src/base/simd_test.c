/* simd_test.c — streaming stores copy exactly, for every offset and length. */
#include "base/simd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROOM = 3 * SIMD_PAGES * SIMD_PAGE, MARGIN = 128 };

static void check(const uint8_t *from, uint8_t *to, size_t size) {
    memset(to - MARGIN, 0xee, size + 2 * MARGIN);
    simd_stream(to, from, size);
    simd_stream_end();
    assert_memory_equal(to, from, size);
    for (size_t i = 0; i < MARGIN; i++) assert_true(to[-1 - (long)i] == 0xee && to[size + i] == 0xee);
}

static void all_of_it_is_copied_and_nothing_else(void **state) {
    uint8_t *source = malloc(ROOM + MARGIN), *place = malloc(ROOM + 4 * MARGIN);
    assert_true(source != NULL && place != NULL);
    for (size_t i = 0; i < ROOM + MARGIN; i++) source[i] = (uint8_t)(i * 131 >> 3);
    static const size_t sizes[] = {0,
                                   1,
                                   64,
                                   255,
                                   256,
                                   4096,
                                   SIMD_PAGES * SIMD_PAGE - 1,
                                   SIMD_PAGES * SIMD_PAGE,
                                   SIMD_PAGES * SIMD_PAGE + 63,
                                   2 * SIMD_PAGES * SIMD_PAGE + 64,
                                   2 * SIMD_PAGES * SIMD_PAGE + 4097};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t shift = 0; shift < SIMD_LINE; shift += 7) {
            check(source, place + MARGIN + shift, sizes[i]);
            check(source + shift, place + MARGIN, sizes[i]);
        }
    free(source);
    free(place);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_of_it_is_copied_and_nothing_else)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
