/* alloc_test.c — successful and failed allocations, and injected failures. */
#include "base/alloc.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/support/test_child.h"

/* The sanitizers' allocators end the process on a size that malloc refuses, unless this option is set. */
MR_API const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
MR_API const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

/* A size that no machine has, hidden from the compiler. */
static size_t too_much(void) {
    volatile size_t size = SIZE_MAX / 4;
    return size;
}

static void internal_memory_is_always_had(void **state) {
    volatile size_t none = 0; /* hidden from the compiler, which warns about size 0 */
    char *a = xmalloc(none), *b = xcalloc(none, 7), *c = xcalloc(7, none);
    assert_true(a != NULL && b != NULL && c != NULL);
    a = xrealloc(a, 100);
    memset(a, 'a', 100);
    a = xrealloc(a, 50);
    assert_int_equal(a[49], 'a');
    a = xrealloc(a, 0);
    assert_non_null(a);
    free(a), free(b), free(c);

    int *numbers = xcalloc(1000, sizeof *numbers);
    for (int i = 0; i < 1000; i++) assert_int_equal(numbers[i], 0);
    free(numbers);

    char *text = xstrdup("text"), *printed = xasprintf("%s and %d", text, 5);
    assert_string_equal(text, "text");
    assert_string_equal(printed, "text and 5");
    free(text), free(printed);
}

static int quiet_fd;

static int wants_too_much(void *argument) {
    dup2(quiet_fd, STDERR_FILENO);
    free(xcalloc(3, too_much()));
    return 0;
}

static void without_internal_memory_the_process_ends_and_says_so(void **state) {
    quiet_fd = memfd_create("stderr", MFD_CLOEXEC);
    assert_int_equal(test_child_run(wants_too_much, NULL, 60000), -SIGABRT);
    char text[8192] = "";
    assert_true(pread(quiet_fd, text, sizeof text - 1, 0) > 0);
    close(quiet_fd);
    assert_non_null(strstr(text, "out of memory: 3 ×"));
}

static void tried_memory_is_zeroed_or_aligned(void **state) {
    void *memory;
    assert_int_equal(alloc_try(4096, &memory), MR_OK);
    for (size_t i = 0; i < 4096; i++) assert_int_equal(((char *)memory)[i], 0);
    free(memory);
    for (size_t align = sizeof(void *); align <= 65536; align *= 2) {
        assert_int_equal(alloc_try_aligned(align, 3, &memory), MR_OK);
        assert_int_equal((uintptr_t)memory % align, 0);
        free(memory);
    }
    for (size_t size = 0; size <= 130; size += 65) {
        assert_int_equal(alloc_try_lines(size, &memory), MR_OK);
        assert_int_equal((uintptr_t)memory % 64, 0);
        for (size_t i = 0; i < size; i++) assert_int_equal(((char *)memory)[i], 0);
        free(memory);
    }
    memory = xcalloc_lines(100);
    assert_int_equal((uintptr_t)memory % 64, 0);
    free(memory);
    assert_int_equal(alloc_try(0, &memory), MR_OK);
    assert_non_null(memory);
    assert_int_equal(alloc_try_resize(&memory, 10), MR_OK);
    memset(memory, 1, 10);
    assert_int_equal(alloc_try_resize(&memory, 0), MR_OK);
    assert_non_null(memory);
    free(memory);
}

static void too_much_is_a_status_and_changes_nothing(void **state) {
    void *memory = (void *)state, *before = memory;
    assert_int_equal(alloc_try(too_much(), &memory), MR_NOMEM);
    assert_ptr_equal(memory, before);
    assert_int_equal(alloc_try_aligned(64, too_much(), &memory), MR_NOMEM);
    assert_int_equal(alloc_try_lines(too_much(), &memory), MR_NOMEM);
    assert_int_equal(alloc_try_lines(SIZE_MAX, &memory), MR_NOMEM);
    assert_ptr_equal(memory, before);
    assert_non_null(strstr(mr_last_error(), "out of memory: 18446744073709551615 bytes"));

    assert_int_equal(alloc_try(4, &memory), MR_OK);
    memcpy(memory, "abc", 4);
    before = memory;
    assert_int_equal(alloc_try_resize(&memory, too_much()), MR_NOMEM);
    assert_ptr_equal(memory, before);
    assert_string_equal(memory, "abc");
    free(memory);
}

static int asks_for_odd_alignment(void *argument) {
    dup2(quiet_fd, STDERR_FILENO);
    void *memory;
    return (int)alloc_try_aligned(24, 1, &memory);
}

static void an_alignment_that_is_none_is_a_bug(void **state) {
    quiet_fd = memfd_create("stderr", MFD_CLOEXEC);
    assert_int_equal(test_child_run(asks_for_odd_alignment, NULL, 60000), -SIGABRT);
    close(quiet_fd);
}

static void the_nth_fails_once(void **state) {
    void *memory = NULL;
    alloc_fail_at(3);
    assert_int_equal(alloc_try_resize(&memory, 1), MR_OK);
    assert_int_equal(alloc_try_resize(&memory, 2), MR_OK);
    void *before = memory;
    assert_int_equal(alloc_try_resize(&memory, 3), MR_NOMEM);
    assert_ptr_equal(memory, before);
    assert_int_equal(alloc_try_resize(&memory, 3), MR_OK);
    free(memory);

    alloc_fail_at(1);
    assert_int_equal(alloc_try(1, &memory), MR_NOMEM);
    alloc_fail_at(1);
    assert_int_equal(alloc_try_aligned(8, 1, &memory), MR_NOMEM);
    alloc_fail_at(1);
    alloc_fail_at(0);
    assert_int_equal(alloc_try(1, &memory), MR_OK);
    free(memory);
}

static void an_array_grows_to_what_is_needed_and_at_least_doubles(void **state) {
    uint32_t *items = NULL;
    size_t room = 0;
    for (uint32_t i = 0; i < 100; i++) {
        size_t before = room;
        if (i % 2 == 0)
            xgrow(&items, &room, i + 1, sizeof *items);
        else
            assert_int_equal(alloc_try_grow(&items, &room, i + 1, sizeof *items), MR_OK);
        assert_true(room > i && (room == before || room >= 2 * before));
        items[i] = i;
    }
    xgrow(&items, &room, 5000, sizeof *items);
    assert_int_equal(room, 5000);
    alloc_fail_at(1);
    assert_int_equal(alloc_try_grow(&items, &room, 5001, sizeof *items), MR_NOMEM);
    alloc_fail_at(0);
    assert_int_equal(room, 5000);
    for (uint32_t i = 0; i < 100; i++) assert_int_equal(items[i], i);
    free(items);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_array_grows_to_what_is_needed_and_at_least_doubles),
        cmocka_unit_test(internal_memory_is_always_had),
        cmocka_unit_test(without_internal_memory_the_process_ends_and_says_so),
        cmocka_unit_test(tried_memory_is_zeroed_or_aligned),
        cmocka_unit_test(too_much_is_a_status_and_changes_nothing),
        cmocka_unit_test(an_alignment_that_is_none_is_a_bug),
        cmocka_unit_test(the_nth_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
