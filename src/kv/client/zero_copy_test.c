/* zero_copy_test.c — borrowed memory that is returned while a link holds it is copied first. */
#include "kv/client/zero_copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

typedef struct holder { /* a holder of the borrowed bytes */
    unsigned told;
    const shared_bytes *bytes;
    span from, to;
} holder;

static void moved(void *context, const shared_bytes *bytes, span from, span to) {
    holder *holder = context;
    holder->told++;
    holder->bytes = bytes;
    holder->from = from;
    holder->to = to;
}

static void released_values_are_not_copied(void **state) {
    holder holder = {0};
    char memory[] = "abcdefg";
    zero_copy *zero_copy = zero_copy_make(span_of(memory, sizeof memory), moved, &holder);
    shared_bytes *held = shared_bytes_ref(&zero_copy->shared);
    shared_bytes_unref(held); /* the link has sent it */
    zero_copy_end(zero_copy);
    zero_copy_end(NULL);
    assert_int_equal(holder.told, 0);
}

static void values_held_at_the_end_are_copied(void **state) {
    holder holder = {0};
    char memory[] = "abcdefg";
    zero_copy *zero_copy = zero_copy_make(span_of(memory, sizeof memory), moved, &holder);
    shared_bytes *held = shared_bytes_ref(&zero_copy->shared);
    zero_copy_end(zero_copy);
    memset(memory, 'x', sizeof memory); /* the memory is the caller's again */
    assert_true(holder.told == 1 && holder.bytes == held && holder.from.data == (const uint8_t *)memory);
    assert_int_equal(holder.to.size, sizeof memory);
    assert_memory_equal(holder.to.data, "abcdefg", sizeof memory);
    shared_bytes_unref(held);
}

static void recalled_values_are_copied_once(void **state) {
    holder holder = {0};
    char memory[] = "abcdefg";
    zero_copy *zero_copy = zero_copy_make(span_of(memory, sizeof memory), moved, &holder);
    assert_true(zero_copy_recall(zero_copy) && zero_copy_recall(zero_copy));
    memset(memory, 'x', sizeof memory);
    assert_int_equal(holder.told, 1);
    assert_memory_equal(zero_copy->bytes.data, "abcdefg", sizeof memory);
    shared_bytes *held = shared_bytes_ref(&zero_copy->shared);
    zero_copy_end(zero_copy);
    assert_int_equal(holder.told, 1);
    shared_bytes_unref(held);
}

static void without_memory_it_is_said_so(void **state) {
    holder holder = {0};
    char memory[] = "abcdefg";
    zero_copy *zero_copy = zero_copy_make(span_of(memory, sizeof memory), moved, &holder);
    shared_bytes *held = shared_bytes_ref(&zero_copy->shared);
    alloc_fail_at(1);
    assert_false(zero_copy_recall(zero_copy));
    assert_true(holder.told == 0 && zero_copy->bytes.data == (const uint8_t *)memory); /* unchanged */
    alloc_fail_at(1);
    zero_copy_end(zero_copy);
    alloc_fail_at(0);
    assert_true(holder.told == 1 && holder.to.size == 0);
    shared_bytes_unref(held);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(released_values_are_not_copied),
        cmocka_unit_test(values_held_at_the_end_are_copied),
        cmocka_unit_test(recalled_values_are_copied_once),
        cmocka_unit_test(without_memory_it_is_said_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
