/* table_stats_test.c — table sizes of servers: counted, encoded, and summed over the servers of a cluster map. */
#include "kv/control/table_stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

static void slots_are_added_up(void **state) {
    table_stats *stats = xcalloc(1, sizeof *stats);
    table_stats_add(stats, (table_stats_item){.table = 9, .keys = 1, .bytes = 10});
    table_stats_add(stats, (table_stats_item){.table = 2, .keys = 5, .bytes = 50, .left_out = 1});
    table_stats_add(stats, (table_stats_item){.table = 9, .keys = 2, .bytes = 20, .left_out = 3});
    assert_int_equal(stats->count, 2);
    assert_int_equal(stats->items[0].table, 2);
    const table_stats_item *nine = table_stats_find(stats, 9);
    assert_true(nine->keys == 3 && nine->bytes == 30 && nine->left_out == 3);
    assert_null(table_stats_find(stats, 3));
    for (uint32_t i = 0; i < 2 * TABLE_STATS_TABLES_MAX; i++)
        table_stats_add(stats, (table_stats_item){.table = 100 + i, .keys = 1});
    assert_int_equal(stats->count, TABLE_STATS_TABLES_MAX); /* further tables are left out */
    assert_true(table_stats_find(stats, 9)->keys == 3);
    free(stats);
}

static void bytes_come_back_as_they_went(void **state) {
    table_stats *said = xcalloc(1, sizeof *said), *read = xcalloc(1, sizeof *read);
    uint8_t bytes[TABLE_STATS_SIZE_MAX];
    for (uint32_t i = 1; i <= 3; i++)
        table_stats_add(said, (table_stats_item){.table = i, .keys = i * 7, .bytes = UINT64_MAX, .left_out = i});
    size_t size = table_stats_encode(said, bytes);
    assert_int_equal(size, 4 + 3 * TABLE_STATS_ITEM_SIZE);
    assert_int_equal(table_stats_decode(span_of(bytes, size), read), MR_OK);
    assert_int_equal(read->count, 3);
    assert_memory_equal(read->items, said->items, 3 * sizeof *said->items);
    for (size_t cut = 0; cut < size; cut++) assert_int_equal(table_stats_decode(span_of(bytes, cut), read), MR_CORRUPT);
    assert_int_equal(table_stats_decode(span_of(bytes, size + 1), read), MR_CORRUPT);
    bytes[4] = 0; /* no table has the id 0 */
    assert_int_equal(table_stats_decode(span_of(bytes, size), read), MR_CORRUPT);
    bytes[4] = 2; /* a table is listed once */
    assert_int_equal(table_stats_decode(span_of(bytes, size), read), MR_CORRUPT);
    memset(bytes, 0xff, 4); /* more tables than the limit */
    assert_int_equal(table_stats_decode(span_of(bytes, size), read), MR_CORRUPT);
    free(said);
    free(read);
}

static void servers_of_the_map_count(void **state) {
    table_stats_list list = {0};
    cluster_map map = {.number = 5};
    table_stats *one = xcalloc(1, sizeof *one), *sum = xcalloc(1, sizeof *sum);
    table_stats_add(one, (table_stats_item){.table = 1, .keys = 10});
    for (uint32_t i = 4; i-- > 0;) table_stats_take(&list, i, 7, one);
    assert_int_equal(table_stats_sum(&list, &map, sum), 0);
    cluster_map_put_server(&map, 0, 7, "unix:/a");
    cluster_map_put_server(&map, 1, 7, "unix:/b");
    cluster_map_put_server(&map, 2, 8, "unix:/c"); /* another incarnation, without a report */
    assert_int_equal(table_stats_sum(&list, &map, sum), 2);
    assert_true(sum->count == 1 && table_stats_find(sum, 1)->keys == 20);
    table_stats_add(one, (table_stats_item){.table = 1, .keys = 5});
    table_stats_take(&list, 2, 8, one);
    table_stats_take(&list, 1, 6, one); /* an earlier incarnation */
    assert_int_equal(table_stats_sum(&list, &map, sum), 3);
    assert_int_equal(table_stats_find(sum, 1)->keys, 35);
    cluster_map_fini(&map);
    table_stats_fini(&list);
    free(one);
    free(sum);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_added_up),
        cmocka_unit_test(bytes_come_back_as_they_went),
        cmocka_unit_test(servers_of_the_map_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
