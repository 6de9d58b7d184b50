/* report_test.c — trees in several chunks, truncated lists, ids as texts and back. */
#include "runtime/common/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/exact_value.h"

static void a_report_is_one_value(void **state) {
    report report;
    report_init(&report);
    report_list rows = {.limit = 3000};
    for (int i = 0; i < 5000; i++) {
        if (!report_wants(&rows)) continue;
        char name[32];
        snprintf(name, sizeof name, "row %d", i); /* not valid when the report is encoded */
        report_add(&report, &rows,
                   REPORT_MAP(&report, {"name", report_text(&report, "%s", name)}, {"number", mr_int(i)}));
    }
    assert_int_equal(rows.total, 5000);
    mr_arg all = REPORT_MAP(&report, {"rows", report_list_arg(&rows)}, {"total", mr_int(5000)});
    exact_value value;
    assert_int_equal(pack(&all, SIZE_MAX, &value), MR_OK);
    report_fini(&report);

    value_doc doc;
    mr_value root, list, row, field;
    mr_span text;
    assert_int_equal(exact_value_open(&value, &doc, &root), MR_OK);
    assert_int_equal(mr_value_field(&root, "rows", &list), MR_OK);
    assert_int_equal(mr_value_count(&list), 3000);
    assert_int_equal(mr_value_item(&list, 2999, &row), MR_OK);
    assert_int_equal(mr_value_field(&row, "name", &field), MR_OK);
    assert_int_equal(mr_value_str(&field, &text), MR_OK);
    assert_int_equal(text.size, 8);
    assert_memory_equal(text.data, "row 2999", 8);
    value_close(&doc);
    exact_value_fini(&value);
}

static void a_long_text_is_cut_and_an_empty_list_is_one(void **state) {
    report report;
    report_init(&report);
    char *large = malloc(40000);
    memset(large, 'x', 39999);
    large[39999] = '\0';
    assert_int_equal(report_text(&report, "%s", large).bytes.size, 1023);
    assert_int_equal(report_copy(&report, span_of(large, 39999)).bytes.size, 39999);
    assert_int_equal(report_copy(&report, (span){0}).bytes.size, 0);
    report_list none = {0};
    assert_false(report_wants(&none));
    assert_int_equal(report_list_arg(&none).items.count, 0);
    free(large);
    report_fini(&report);
}

static void check_id(const char *text, char letter, uint32_t process, uint64_t serial) {
    report_id id;
    report report;
    report_init(&report);
    assert_true(report_id_parse(text, &id));
    assert_int_equal(id.letter, letter);
    assert_int_equal(id.process, process);
    assert_int_equal(id.serial, serial);
    mr_arg again = report_id_arg(&report, letter, process | UINT64_C(77) << 32, serial);
    assert_string_equal(again.bytes.data, text);
    report_fini(&report);
}

static void ids_come_back(void **state) {
    check_id("p4", 'p', 4, 0);
    check_id("t4:17", 't', 4, UINT64_C(1) << 28 | 17);
    check_id("c1:0", 'c', 1, UINT64_C(1) << 28);
    check_id("o4:17.2", 'o', 4, UINT64_C(2) << 28 | 17);
    check_id("o4:17.0", 'o', 4, 17);
    check_id("o4294967295:268435455.68719476735", 'o', UINT32_MAX, UINT64_MAX);
    check_id("a4294967295:18446744073709551615", 'a', UINT32_MAX, UINT64_MAX);
    check_id("a4:2", 'a', 4, 2);
    const char *const wrong[] = {"",
                                 "p",
                                 "4",
                                 "x4:1",
                                 "t4",
                                 "t4:",
                                 "t:1",
                                 "t4:1 ",
                                 "t 4:1",
                                 "t4:-1",
                                 "t+4:1",
                                 "p4:1",
                                 "t4:268435456",
                                 "o1:1.",
                                 "o1:1.68719476736",
                                 "a4:1.2",
                                 "p4294967296"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        report_id id;
        assert_false(report_id_parse(wrong[i], &id));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_one_value),
        cmocka_unit_test(a_long_text_is_cut_and_an_empty_list_is_one),
        cmocka_unit_test(ids_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
