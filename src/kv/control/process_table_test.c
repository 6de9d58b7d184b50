/* process_table_test.c — process table: reports are kept, measured and listed in pages; and lists of addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kv/control/process_table.h"

static process_state worker(uint32_t number, uint64_t incarnation) {
    process_state state = {.role = MR_PS_WORKERS, .number = number, .incarnation = incarnation, .step = 10};
    snprintf(state.address, sizeof state.address, "unix:/tmp/w%u", number);
    return state;
}

static void encoded_states_are_decoded(void **state) {
    process_state said = worker(3, 5), read;
    uint8_t bytes[PROCESS_STATE_SIZE_MAX];
    said.pushes = UINT64_MAX;
    assert_int_equal(process_state_report_set(&said, "loss", -0.5), MR_OK);
    assert_int_equal(process_state_report_set(&said, "loss", 0.25), MR_OK);
    assert_int_equal(process_state_report_set(&said, "", 0), MR_INVALID);
    size_t size = process_state_encode(&said, bytes);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(process_state_decode(span_of(bytes, cut), &read), MR_CORRUPT);
    assert_int_equal(process_state_decode(span_of(bytes, size), &read), MR_OK);
    assert_true(read.role == said.role && read.pushes == UINT64_MAX && read.step == 10 && read.report_count == 1);
    assert_true(read.reports[0].value == 0.25 && read.reports[0].count == 2);
    assert_string_equal(read.reports[0].key, "loss");
    bytes[0] = 3;
    assert_int_equal(process_state_decode(span_of(bytes, size), &read), MR_CORRUPT);
}

static void rates_are_measured(void **state) {
    process_table table = {0};
    process_state now = worker(0, 1);
    assert_int_equal(process_state_report_set(&now, "examples", 100), MR_OK);
    for (int64_t us = 0; us <= 4000000; us += 200000, now.step += 4) {
        now.reports[0].value = (double)us;
        process_table_take(&table, &now, 1000 + us);
    }
    const process_table_row *row = process_table_find(&table, MR_PS_WORKERS, 0);
    assert_true(row->rates.step > 19.9 && row->rates.step < 20.1);
    assert_true(row->rates.reports[0] > 999999 && row->rates.reports[0] < 1000001);
    process_state again = worker(0, 2); /* rates of another process begin at 0 */
    process_table_take(&table, &again, 5000000);
    assert_true(row->rates.step == 0 && row->now.incarnation == 2);
    process_table_take(&table, &now, 5100000); /* the earlier process is ignored */
    assert_true(row->now.incarnation == 2 && row->heard_us == 5000000);
    process_table_fini(&table);
}

static void a_silent_process_counts_as_absent(void **state) {
    process_table table = {0};
    process_state now = worker(0, 1);
    process_table_take(&table, &now, 1000);
    const process_table_row *row = process_table_find(&table, MR_PS_WORKERS, 0);
    assert_null(process_table_find(&table, MR_PS_SERVERS, 0));
    assert_true(process_table_is_here(row, PROCESS_TABLE_SILENT_US));
    assert_false(process_table_is_here(row, PROCESS_TABLE_SILENT_US + 2000));
    process_table_broken(&table, "unix:/tmp/other", 2000);
    assert_true(process_table_is_here(row, PROCESS_TABLE_BROKEN_US + 2000));
    process_table_broken(&table, now.address, 2000);
    assert_true(process_table_is_here(row, PROCESS_TABLE_BROKEN_US));
    process_table_broken(&table, now.address, PROCESS_TABLE_BROKEN_US); /* a sender retried */
    assert_false(process_table_is_here(row, PROCESS_TABLE_BROKEN_US + 3000));
    process_table_take(&table, &now, PROCESS_TABLE_BROKEN_US + 4000); /* only the link was broken */
    assert_true(process_table_is_here(row, PROCESS_TABLE_BROKEN_US + 5000));
    process_table_fini(&table);
}

static void all_are_shown_page_by_page(void **state) {
    enum { MANY = 700 };
    process_table table = {0};
    for (uint32_t i = MANY; i-- > 0;) {
        process_state now = worker(i, i + 1);
        assert_int_equal(process_state_report_set(&now, "number", i), MR_OK);
        process_table_take(&table, &now, 1000);
    }
    uint32_t seen = 0, pages = 0;
    for (bool more = true; more; pages++) {
        size_t size;
        process_table_reading reading;
        process_table_line line;
        mr_status status;
        uint8_t *page = process_table_page(&table, seen, 2000, &size);
        assert_true(size <= CONTROL_MESSAGE_VALUE_MAX);
        assert_int_equal(process_table_read(span_of(page, size), &reading), MR_OK);
        for (; (status = process_table_next(&reading, &line)) == MR_OK; seen++) {
            assert_true(line.state.number == seen && line.state.incarnation == seen + 1 && line.here);
            assert_true(line.silent_us == 1000 && line.state.reports[0].value == seen);
        }
        assert_int_equal(status, MR_END);
        more = seen < reading.total;
        for (size_t cut = 0; cut < size; cut += 997) { /* a truncated page is not read to its end */
            status = process_table_read(span_of(page, cut), &reading);
            while (status == MR_OK) status = process_table_next(&reading, &line);
            assert_int_equal(status, MR_CORRUPT);
        }
        free(page);
    }
    assert_true(seen == MANY && pages > 1);
    process_table_fini(&table);
}

static void lists_say_who_is_where(void **state) {
    process_table table = {0};
    process_state a = worker(1, 7), b = worker(2, 8);
    process_table_take(&table, &a, 1000);
    process_table_take(&table, &b, 1000 + PROCESS_TABLE_SILENT_US);
    size_t size;
    reader reader;
    uint32_t count;
    process_table_entry entry;
    uint8_t *list =
        process_table_list(&table, MR_PS_WORKERS, PROCESS_TABLE_EVERY, 2000 + PROCESS_TABLE_SILENT_US, &size);
    assert_int_equal(process_table_list_read(span_of(list, size), &reader, &count), MR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(process_table_list_next(&reader, &entry), MR_OK);
    assert_true(entry.number == 2 && entry.incarnation == 8 && entry.here);
    assert_string_equal(entry.address, b.address);
    assert_int_equal(process_table_list_next(&reader, &entry), MR_CORRUPT);
    free(list);
    list = process_table_list(&table, MR_PS_WORKERS, 1, 2000 + PROCESS_TABLE_SILENT_US, &size);
    assert_int_equal(process_table_list_read(span_of(list, size), &reader, &count), MR_OK);
    assert_int_equal(process_table_list_next(&reader, &entry), MR_OK);
    assert_true(count == 1 && entry.number == 1 && !entry.here); /* the named process, though it is gone */
    free(list);
    process_table_fini(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoded_states_are_decoded),
        cmocka_unit_test(rates_are_measured),
        cmocka_unit_test(a_silent_process_counts_as_absent),
        cmocka_unit_test(all_are_shown_page_by_page),
        cmocka_unit_test(lists_say_who_is_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
