/* stock_test.c — table sizes of servers: counted, sent, added up for the servers of a cluster map. */
#include "kv/office/stock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

static void slots_are_added_up(void **state) {
    stock *stock = xcalloc(1, sizeof *stock);
    stock_add(stock, (stock_item){.table = 9, .keys = 1, .bytes = 10});
    stock_add(stock, (stock_item){.table = 2, .keys = 5, .bytes = 50, .left_out = 1});
    stock_add(stock, (stock_item){.table = 9, .keys = 2, .bytes = 20, .left_out = 3});
    assert_int_equal(stock->count, 2);
    assert_int_equal(stock->items[0].table, 2);
    const stock_item *nine = stock_find(stock, 9);
    assert_true(nine->keys == 3 && nine->bytes == 30 && nine->left_out == 3);
    assert_null(stock_find(stock, 3));
    for (uint32_t i = 0; i < 2 * STOCK_TABLES_MAX; i++) stock_add(stock, (stock_item){.table = 100 + i, .keys = 1});
    assert_int_equal(stock->count, STOCK_TABLES_MAX); /* and no more */
    assert_true(stock_find(stock, 9)->keys == 3);
    free(stock);
}

static void bytes_come_back_as_they_went(void **state) {
    stock *said = xcalloc(1, sizeof *said), *read = xcalloc(1, sizeof *read);
    uint8_t bytes[STOCK_SIZE_MAX];
    for (uint32_t i = 1; i <= 3; i++)
        stock_add(said, (stock_item){.table = i, .keys = i * 7, .bytes = UINT64_MAX, .left_out = i});
    size_t size = stock_encode(said, bytes);
    assert_int_equal(size, 4 + 3 * STOCK_ITEM_SIZE);
    assert_int_equal(stock_decode(span_of(bytes, size), read), MR_OK);
    assert_int_equal(read->count, 3);
    assert_memory_equal(read->items, said->items, 3 * sizeof *said->items);
    for (size_t cut = 0; cut < size; cut++) assert_int_equal(stock_decode(span_of(bytes, cut), read), MR_CORRUPT);
    assert_int_equal(stock_decode(span_of(bytes, size + 1), read), MR_CORRUPT);
    bytes[4] = 0; /* no table has the id 0 */
    assert_int_equal(stock_decode(span_of(bytes, size), read), MR_CORRUPT);
    bytes[4] = 2; /* and no table is there twice */
    assert_int_equal(stock_decode(span_of(bytes, size), read), MR_CORRUPT);
    memset(bytes, 0xff, 4); /* more than there can be */
    assert_int_equal(stock_decode(span_of(bytes, size), read), MR_CORRUPT);
    free(said);
    free(read);
}

static void servers_of_the_chart_count(void **state) {
    stocks stocks = {0};
    chart chart = {.number = 5};
    stock *one = xcalloc(1, sizeof *one), *sum = xcalloc(1, sizeof *sum);
    stock_add(one, (stock_item){.table = 1, .keys = 10});
    for (uint32_t i = 4; i-- > 0;) stocks_take(&stocks, i, 7, one);
    assert_int_equal(stocks_sum(&stocks, &chart, sum), 0);
    chart_put_server(&chart, 0, 7, "unix:/a");
    chart_put_server(&chart, 1, 7, "unix:/b");
    chart_put_server(&chart, 2, 8, "unix:/c"); /* another process, that has said nothing */
    assert_int_equal(stocks_sum(&stocks, &chart, sum), 2);
    assert_true(sum->count == 1 && stock_find(sum, 1)->keys == 20);
    stock_add(one, (stock_item){.table = 1, .keys = 5});
    stocks_take(&stocks, 2, 8, one);
    stocks_take(&stocks, 1, 6, one); /* a process from before */
    assert_int_equal(stocks_sum(&stocks, &chart, sum), 3);
    assert_int_equal(stock_find(sum, 1)->keys, 35);
    chart_fini(&chart);
    stocks_fini(&stocks);
    free(one);
    free(sum);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_added_up),
        cmocka_unit_test(bytes_come_back_as_they_went),
        cmocka_unit_test(servers_of_the_chart_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
