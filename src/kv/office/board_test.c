/* board_test.c — process table: reports are kept, measured and listed in pages; and lists of addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kv/office/board.h"

static standing worker(uint32_t number, uint64_t incarnation) {
    standing standing = {.role = MR_PS_WORKERS, .number = number, .incarnation = incarnation, .step = 10};
    snprintf(standing.address, sizeof standing.address, "unix:/tmp/w%u", number);
    return standing;
}

static void what_is_said_is_read(void **state) {
    standing said = worker(3, 5), read;
    uint8_t bytes[STANDING_SIZE_MAX];
    said.pushes = UINT64_MAX;
    assert_int_equal(standing_report_set(&said, "loss", -0.5), MR_OK);
    assert_int_equal(standing_report_set(&said, "loss", 0.25), MR_OK);
    assert_int_equal(standing_report_set(&said, "", 0), MR_INVALID);
    size_t size = standing_encode(&said, bytes);
    for (size_t cut = 0; cut < size; cut++) assert_int_equal(standing_decode(span_of(bytes, cut), &read), MR_CORRUPT);
    assert_int_equal(standing_decode(span_of(bytes, size), &read), MR_OK);
    assert_true(read.role == said.role && read.pushes == UINT64_MAX && read.step == 10 && read.report_count == 1);
    assert_true(read.reports[0].value == 0.25 && read.reports[0].count == 2);
    assert_string_equal(read.reports[0].key, "loss");
    bytes[0] = 3;
    assert_int_equal(standing_decode(span_of(bytes, size), &read), MR_CORRUPT);
}

static void rates_are_measured(void **state) {
    board board = {0};
    standing now = worker(0, 1);
    assert_int_equal(standing_report_set(&now, "examples", 100), MR_OK);
    for (int64_t us = 0; us <= 4000000; us += 200000, now.step += 4) {
        now.reports[0].value = (double)us;
        board_take(&board, &now, 1000 + us);
    }
    const board_row *row = board_find(&board, MR_PS_WORKERS, 0);
    assert_true(row->rates.step > 19.9 && row->rates.step < 20.1);
    assert_true(row->rates.reports[0] > 999999 && row->rates.reports[0] < 1000001);
    standing again = worker(0, 2); /* another process begins anew */
    board_take(&board, &again, 5000000);
    assert_true(row->rates.step == 0 && row->now.incarnation == 2);
    board_take(&board, &now, 5100000); /* the one before is not heard */
    assert_true(row->now.incarnation == 2 && row->heard_us == 5000000);
    board_fini(&board);
}

static void who_is_silent_is_not_here(void **state) {
    board board = {0};
    standing now = worker(0, 1);
    board_take(&board, &now, 1000);
    const board_row *row = board_find(&board, MR_PS_WORKERS, 0);
    assert_null(board_find(&board, MR_PS_SERVERS, 0));
    assert_true(board_is_here(row, BOARD_SILENT_US));
    assert_false(board_is_here(row, BOARD_SILENT_US + 2000));
    board_broken(&board, "unix:/tmp/other", 2000);
    assert_true(board_is_here(row, BOARD_BROKEN_US + 2000));
    board_broken(&board, now.address, 2000);
    assert_true(board_is_here(row, BOARD_BROKEN_US));
    board_broken(&board, now.address, BOARD_BROKEN_US); /* somebody tries again */
    assert_false(board_is_here(row, BOARD_BROKEN_US + 3000));
    board_take(&board, &now, BOARD_BROKEN_US + 4000); /* it was only the link */
    assert_true(board_is_here(row, BOARD_BROKEN_US + 5000));
    board_fini(&board);
}

static void all_are_shown_page_by_page(void **state) {
    enum { MANY = 700 };
    board board = {0};
    for (uint32_t i = MANY; i-- > 0;) {
        standing now = worker(i, i + 1);
        assert_int_equal(standing_report_set(&now, "number", i), MR_OK);
        board_take(&board, &now, 1000);
    }
    uint32_t seen = 0, pages = 0;
    for (bool more = true; more; pages++) {
        size_t size;
        board_reading reading;
        board_line line;
        mr_status status;
        uint8_t *page = board_page(&board, seen, 2000, &size);
        assert_true(size <= LETTER_VALUE_MAX);
        assert_int_equal(board_read(span_of(page, size), &reading), MR_OK);
        for (; (status = board_next(&reading, &line)) == MR_OK; seen++) {
            assert_true(line.standing.number == seen && line.standing.incarnation == seen + 1 && line.here);
            assert_true(line.silent_us == 1000 && line.standing.reports[0].value == seen);
        }
        assert_int_equal(status, MR_END);
        more = seen < reading.total;
        for (size_t cut = 0; cut < size; cut += 997) { /* no page that is cut is read to its end */
            status = board_read(span_of(page, cut), &reading);
            while (status == MR_OK) status = board_next(&reading, &line);
            assert_int_equal(status, MR_CORRUPT);
        }
        free(page);
    }
    assert_true(seen == MANY && pages > 1);
    board_fini(&board);
}

static void lists_say_who_is_where(void **state) {
    board board = {0};
    standing a = worker(1, 7), b = worker(2, 8);
    board_take(&board, &a, 1000);
    board_take(&board, &b, 1000 + BOARD_SILENT_US);
    size_t size;
    reader reader;
    uint32_t count;
    board_entry entry;
    uint8_t *list = board_list(&board, MR_PS_WORKERS, BOARD_EVERY, 2000 + BOARD_SILENT_US, &size);
    assert_int_equal(board_list_read(span_of(list, size), &reader, &count), MR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(board_list_next(&reader, &entry), MR_OK);
    assert_true(entry.number == 2 && entry.incarnation == 8 && entry.here);
    assert_string_equal(entry.address, b.address);
    assert_int_equal(board_list_next(&reader, &entry), MR_CORRUPT);
    free(list);
    list = board_list(&board, MR_PS_WORKERS, 1, 2000 + BOARD_SILENT_US, &size);
    assert_int_equal(board_list_read(span_of(list, size), &reader, &count), MR_OK);
    assert_int_equal(board_list_next(&reader, &entry), MR_OK);
    assert_true(count == 1 && entry.number == 1 && !entry.here); /* that one, though it is gone */
    free(list);
    board_fini(&board);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_is_read),      cmocka_unit_test(rates_are_measured),
        cmocka_unit_test(who_is_silent_is_not_here), cmocka_unit_test(all_are_shown_page_by_page),
        cmocka_unit_test(lists_say_who_is_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
