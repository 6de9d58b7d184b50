#include "runtime/common/saved_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void the_last_state_is_read(void **state) {
    size_t bytes = saved_state_bytes(100);
    void *memory = aligned_alloc(64, bytes);
    span read;
    memset(memory, 0, bytes);
    assert_false(saved_state_read(memory, bytes, &read));
    for (size_t i = 1; i <= 5; i++) {
        char text[100];
        memset(text, (int)('a' + i), sizeof text);
        assert_true(saved_state_write(memory, bytes, span_of(text, 20 * i)));
        assert_true(saved_state_read(memory, bytes, &read));
        assert_int_equal(read.size, 20 * i);
        assert_memory_equal(read.data, text, read.size);
    }
    free(memory);
}

/* A process that is killed while it writes has changed the other half only. */
static void a_state_that_is_being_written_is_not_read(void **state) {
    size_t bytes = saved_state_bytes(100);
    uint64_t *memory = aligned_alloc(64, bytes);
    uint8_t before[4096];
    span read;
    memset(memory, 0, bytes);
    assert_true(saved_state_write(memory, bytes, span_of("first", 5)));
    memcpy(before, memory, 8);
    assert_true(saved_state_write(memory, bytes, span_of("second", 6)));
    memcpy(memory, before, 8); /* as if the last store were missing */
    assert_true(saved_state_read(memory, bytes, &read));
    assert_int_equal(read.size, 5);
    assert_memory_equal(read.data, "first", 5);
    free(memory);
}

static void sizes_are_checked(void **state) {
    static const size_t sizes[] = {0, 1, 63, 64, 65, 2016, 4000, 5000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = saved_state_bytes(sizes[i]);
        uint64_t *memory = aligned_alloc(64, bytes);
        uint8_t *text = calloc(1, bytes);
        span read;
        memset(memory, 0, bytes);
        assert_int_equal(bytes % 4096, 0);
        assert_true(saved_state_write(memory, bytes, span_of(text, sizes[i])));
        assert_false(saved_state_write(memory, bytes, span_of(text, bytes / 2)));
        assert_true(saved_state_read(memory, bytes, &read));
        assert_int_equal(read.size, sizes[i]);
        memory[1] = memory[2] = bytes; /* a process that wrote elsewhere */
        assert_false(saved_state_read(memory, bytes, &read));
        free(text);
        free(memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_state_is_read),
        cmocka_unit_test(a_state_that_is_being_written_is_not_read),
        cmocka_unit_test(sizes_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
