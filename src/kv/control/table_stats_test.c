/* table_stats_test.c — table sizes of servers: counted, encoded, and summed over the servers of a cluster map. */
#include "kv/control/table_stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void slots_are_added_up(void **state) {
    table_stats stats = {0};
    table_stats_add(&stats, (table_stats_item){.table = 9, .keys = 1, .bytes = 10});
    table_stats_add(&stats, (table_stats_item){.table = 2, .keys = 5, .bytes = 50, .left_out = 1});
    table_stats_add(&stats, (table_stats_item){.table = 9, .keys = 2, .bytes = 20, .left_out = 3});
    table_stats_finish(&stats);
    assert_true(stats.count == 2 && stats.to == UINT32_MAX);
    assert_int_equal(stats.items[0].table, 2);
    assert_true(stats.items[1].keys == 3 && stats.items[1].bytes == 30 && stats.items[1].left_out == 3);
    table_stats_fini(&stats);
}

/* Reports about ranges add up to a report about all tables. */
static void many_tables_are_reported_in_ranges(void **state) {
    enum { TABLES = 5000 };
    uint32_t from = 0, reports = 0;
    table_stats_list list = {0};
    cluster_map map = {.number = 5};
    cluster_map_put_server(&map, 0, 7, "unix:/a");
    do {
        table_stats stats = {.from = from}, read;
        uint8_t bytes[TABLE_STATS_SIZE_MAX];
        for (uint32_t slot = 0; slot < 2; slot++) /* the second slot stops early */
            for (uint32_t id = from == 0 ? 1 : from; id <= TABLES && (slot == 0 || id < from + 3000); id++)
                table_stats_add(&stats, (table_stats_item){.table = id, .keys = slot == 0 ? id : 1});
        if (from + 3000 <= TABLES) table_stats_limit(&stats, from + 3000);
        table_stats_finish(&stats);
        assert_true(stats.count <= TABLE_STATS_TABLES_MAX && stats.to > from);
        size_t size = table_stats_encode(&stats, bytes);
        assert_int_equal(table_stats_decode(span_of(bytes, size), &read), MR_OK);
        table_stats_take(&list, 0, 7, &read);
        from = stats.to == UINT32_MAX ? 0 : stats.to;
        table_stats_fini(&stats);
        table_stats_fini(&read);
    } while (from != 0 && ++reports < 10);
    assert_in_range(reports, 1, 3);
    for (uint32_t id = 1; id <= TABLES; id++) assert_int_equal(table_stats_sum(&list, &map, id).keys, id + 1);
    cluster_map_fini(&map);
    table_stats_list_fini(&list);
}

/* A dropped table is not reported any more. */
static void a_report_replaces_its_range(void **state) {
    table_stats_list list = {0};
    cluster_map map = {.number = 5};
    table_stats stats = {0};
    cluster_map_put_server(&map, 0, 7, "unix:/a");
    for (uint32_t id = 1; id <= 9; id++) table_stats_add(&stats, (table_stats_item){.table = id, .keys = 1});
    table_stats_finish(&stats);
    table_stats_take(&list, 0, 7, &stats);
    stats = (table_stats){.from = 3, .to = 6, .items = stats.items, .room = stats.room};
    table_stats_add(&stats, (table_stats_item){.table = 4, .keys = 2});
    table_stats_finish(&stats);
    table_stats_take(&list, 0, 7, &stats);
    static const uint64_t expected[] = {0, 1, 1, 0, 2, 0, 1, 1, 1, 1};
    for (uint32_t id = 0; id <= 9; id++) assert_int_equal(table_stats_sum(&list, &map, id).keys, expected[id]);
    table_stats_fini(&stats);
    cluster_map_fini(&map);
    table_stats_list_fini(&list);
}

static void bytes_come_back_as_they_went(void **state) {
    table_stats said = {0}, read;
    uint8_t bytes[TABLE_STATS_SIZE_MAX];
    for (uint32_t i = 1; i <= 3; i++)
        table_stats_add(&said, (table_stats_item){.table = i, .keys = i * 7, .bytes = UINT64_MAX, .left_out = i});
    table_stats_finish(&said);
    size_t size = table_stats_encode(&said, bytes);
    assert_int_equal(size, 12 + 3 * TABLE_STATS_ITEM_SIZE);
    assert_int_equal(table_stats_decode(span_of(bytes, size), &read), MR_OK);
    assert_int_equal(read.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(read.items[i].table, i + 1);
        assert_int_equal(read.items[i].keys, (i + 1) * 7);
        assert_true(read.items[i].bytes == UINT64_MAX);
        assert_int_equal(read.items[i].left_out, i + 1);
    }
    table_stats_fini(&read);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(table_stats_decode(span_of(bytes, cut), &read), MR_CORRUPT);
    assert_int_equal(table_stats_decode(span_of(bytes, size + 1), &read), MR_CORRUPT);
    bytes[12] = 0; /* no table has the id 0 */
    assert_int_equal(table_stats_decode(span_of(bytes, size), &read), MR_CORRUPT);
    bytes[12] = 2; /* a table is listed once */
    assert_int_equal(table_stats_decode(span_of(bytes, size), &read), MR_CORRUPT);
    bytes[12] = 1;
    memset(bytes + 4, 0, 4); /* the range is empty */
    assert_int_equal(table_stats_decode(span_of(bytes, size), &read), MR_CORRUPT);
    memset(bytes + 4, 0xff, 8); /* more tables than the limit */
    assert_int_equal(table_stats_decode(span_of(bytes, size), &read), MR_CORRUPT);
    table_stats_fini(&said);
}

static void servers_of_the_map_count(void **state) {
    table_stats_list list = {0};
    cluster_map map = {.number = 5};
    table_stats one = {0};
    table_stats_add(&one, (table_stats_item){.table = 1, .keys = 10});
    table_stats_finish(&one);
    for (uint32_t i = 4; i-- > 0;) table_stats_take(&list, i, 7, &one);
    assert_int_equal(table_stats_reported(&list, &map), 0);
    cluster_map_put_server(&map, 0, 7, "unix:/a");
    cluster_map_put_server(&map, 1, 7, "unix:/b");
    cluster_map_put_server(&map, 2, 8, "unix:/c"); /* another incarnation, without a report */
    assert_int_equal(table_stats_reported(&list, &map), 2);
    assert_int_equal(table_stats_sum(&list, &map, 1).keys, 20);
    one.items[0].keys = 15;
    table_stats_take(&list, 2, 8, &one);
    table_stats_take(&list, 1, 6, &one); /* an earlier incarnation */
    assert_int_equal(table_stats_reported(&list, &map), 3);
    assert_int_equal(table_stats_sum(&list, &map, 1).keys, 35);
    cluster_map_fini(&map);
    table_stats_list_fini(&list);
    table_stats_fini(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_added_up),          cmocka_unit_test(many_tables_are_reported_in_ranges),
        cmocka_unit_test(a_report_replaces_its_range), cmocka_unit_test(bytes_come_back_as_they_went),
        cmocka_unit_test(servers_of_the_map_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
