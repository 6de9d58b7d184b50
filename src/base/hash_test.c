/* hash_test.c — the published values of FNV-1a, for whole and split input. */
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void known_values(void **state) {
    assert_true(hash_on(HASH_BEGIN, "", 0) == UINT64_C(0xcbf29ce484222325));
    assert_true(hash_on(HASH_BEGIN, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(hash_on(HASH_BEGIN, "foobar", 6) == UINT64_C(0x85944171f73967e8));
}

static void pieces_are_one_text(void **state) {
    uint64_t hash = hash_on(HASH_BEGIN, "foo", 3);
    assert_true(hash_on(hash, "bar", 3) == hash_on(HASH_BEGIN, "foobar", 6));
    assert_true(hash_byte(hash, 0) != hash);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_values), cmocka_unit_test(pieces_are_one_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
