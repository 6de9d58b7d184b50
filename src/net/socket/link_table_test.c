/* link_table_test.c — no id is assigned twice. */
#include "net/socket/link_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"

static void an_old_id_is_recognised(void **state) {
    link_table table = {0};
    int a, b;
    link_id first, second;
    assert_null(link_table_get(&table, (link_id){0}));
    assert_int_equal(link_table_add(&table, &a, &first), MR_OK);
    assert_int_not_equal(first.v, 0);
    assert_ptr_equal(link_table_get(&table, first), &a);
    link_table_remove(&table, first);
    assert_null(link_table_get(&table, first));
    assert_int_equal(link_table_add(&table, &b, &second), MR_OK);
    assert_int_not_equal(first.v, second.v);
    assert_null(link_table_get(&table, first));
    assert_ptr_equal(link_table_get(&table, second), &b);
    assert_null(link_table_get(&table, (link_id){UINT32_MAX}));
    link_table_fini(&table);
}

/* Fills one place through three times its generations: every generation is a new id, then the place is never used
 * again. */
static void no_id_is_given_twice(void **state) {
    link_table table = {0};
    int a;
    uint8_t *seen = calloc(1, (size_t)1 << 29); /* a bit for each of the 2^32 */
    assert_non_null(seen);
    for (int i = 0; i < 3 * UINT16_MAX; i++) {
        link_id id;
        assert_int_equal(link_table_add(&table, &a, &id), MR_OK);
        assert_int_not_equal(id.v, 0);
        assert_false(seen[id.v / 8] >> id.v % 8 & 1);
        seen[id.v / 8] |= (uint8_t)(1u << id.v % 8);
        link_table_remove(&table, id);
        assert_null(link_table_get(&table, id));
    }
    assert_int_equal(table.used, 3);
    assert_int_equal(table.first_free, 0);
    free(seen);
    link_table_fini(&table);
}

static void it_can_be_full(void **state) {
    link_table table = {0};
    link_id id, last;
    for (int i = 0; i < LINK_TABLE_PLACES_MAX; i++) assert_int_equal(link_table_add(&table, &id, &last), MR_OK);
    assert_int_equal(link_table_add(&table, &id, &id), MR_NOMEM);
    link_table_remove(&table, last);
    assert_int_equal(link_table_add(&table, &id, &id), MR_OK);
    link_table_fini(&table);
}

static void many_at_once_keep_apart(void **state) {
    link_table table = {0};
    rng rng;
    rng_init(&rng, 7);
    enum { COUNT = 300 };
    static int values[COUNT];
    link_id ids[COUNT] = {{0}};
    for (int round = 0; round < 20000; round++) {
        size_t i = (size_t)rng_below(&rng, COUNT);
        if (ids[i].v == 0) {
            assert_int_equal(link_table_add(&table, &values[i], &ids[i]), MR_OK);
        } else {
            assert_ptr_equal(link_table_get(&table, ids[i]), &values[i]);
            link_table_remove(&table, ids[i]);
            assert_null(link_table_get(&table, ids[i]));
            ids[i].v = 0;
        }
    }
    link_table_fini(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_old_id_is_recognised),
        cmocka_unit_test(no_id_is_given_twice),
        cmocka_unit_test(it_can_be_full),
        cmocka_unit_test(many_at_once_keep_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
