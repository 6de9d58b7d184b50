/* memory_budget_test.c — the memory budget of a server, and its exhaustion. */
#include "kv/engine/memory_budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

static void the_whole_is_shared_out(void **state) {
    memory_budget budget;
    memory_budget_init(&budget, UINT64_C(1) << 30);
    assert_int_equal(memory_budget_of_ranks(&budget), 256 << 20);
    assert_int_equal(memory_budget_of_links(&budget), 128 << 20);
    memory_budget_init(&budget, 1);
    assert_int_equal(budget.bytes, MEMORY_BUDGET_LEAST);
    memory_budget_init(&budget, 0);
    assert_true(budget.bytes >= MEMORY_BUDGET_LEAST);
}

static void a_slot_with_the_whole_budget_is_full(void **state) {
    memory_budget budget = {0};
    size_t size = (size_t)64 << 20;
    uint64_t before = memory_budget_resident(&budget);
    assert_true(before > 0);
    memory_budget_init(&budget, before + size / 2 + MEMORY_BUDGET_LEAST);
    assert_false(memory_budget_is_full(&budget, 0));
    uint8_t *memory = xmalloc(2 * size);
    for (size_t at = 0; at < 2 * size; at += 1024) ((volatile uint8_t *)memory)[at] = 1;
    assert_true(memory_budget_resident(&budget) >= before + size);
    assert_false(memory_budget_is_full(&budget, MEMORY_BUDGET_LOOK_US - 1)); /* the memory use is not read every time */
    assert_true(memory_budget_is_full(&budget, MEMORY_BUDGET_LOOK_US));
    assert_true(memory_budget_is_full(&budget, MEMORY_BUDGET_LOOK_US + 1));
    free(memory);
    budget.bytes *= 2; /* a sanitizer may keep freed memory */
    assert_false(memory_budget_is_full(&budget, 2 * MEMORY_BUDGET_LOOK_US));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_whole_is_shared_out),
        cmocka_unit_test(a_slot_with_the_whole_budget_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
