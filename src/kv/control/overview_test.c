/* overview_test.c — encoding of the overview of tables and checkpoints, and rejection of malformed bytes. */
#include "kv/control/overview.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

enum { TABLES = 2, TABLES_AT = 4 * 8 + 2 + 8 + 16 + 6 + 5 + 7 + 4 + 8 };

static mr_ps_table_state tables[TABLES] = {{.name = "rows",
                                            .kind = MR_PS_SPARSE,
                                            .dtype = MR_BF16,
                                            .dim = 64,
                                            .optimizer = "adam",
                                            .compression = "int8+zstd",
                                            .consistency = "ssp:2",
                                            .rows = 1000000007,
                                            .bytes = UINT64_MAX,
                                            .nonfinite = 3},
                                           {.name = "model", .kind = MR_PS_DENSE, .dtype = MR_F32, .arrays = 5}};
static mr_ps_data_reader holders[] = {{0, 2, 77}, {5, 0, 0}};
static const mr_ps_overview said = {.folder = "/state",
                                    .checkpoint = 12,
                                    .checkpoint_us = INT64_MAX,
                                    .every_us = 5000000,
                                    .making = 1,
                                    .checkpoint_error = "ENOSP",
                                    .checkpoint_error_us = 77,
                                    .checkpoint_failed = 1,
                                    .stall = "servers",
                                    .stall_us = 99,
                                    .stall_hint = "help",
                                    .counted = 2,
                                    .servers = 3,
                                    .table_count = TABLES,
                                    .tables = tables,
                                    .data = {.shards = 9,
                                             .shards_done = 3,
                                             .epoch = UINT64_MAX,
                                             .items = 1000,
                                             .items_given = 400,
                                             .items_back = 7,
                                             .workers = 2,
                                             .reader_count = 2,
                                             .readers = holders}};

static void bytes_come_back_as_they_went(void **state) {
    size_t size;
    mr_ps_overview *read;
    uint8_t *bytes = overview_encode(&said, &size);
    assert_int_equal(overview_decode(span_of(bytes, size), &read), MR_OK);
    assert_true(read->checkpoint == 12 && read->checkpoint_us == INT64_MAX && read->every_us == 5000000);
    assert_true(read->making == 1 && read->checkpoint_failed == 1 && read->checkpoint_error_us == 77 &&
                read->stall_us == 99);
    assert_true(read->counted == 2 && read->servers == 3 && read->table_count == TABLES);
    assert_string_equal(read->folder, "/state");
    assert_string_equal(read->checkpoint_error, "ENOSP");
    assert_string_equal(read->stall, "servers");
    assert_string_equal(read->stall_hint, "help");
    assert_true(read->data.shards == 9 && read->data.shards_done == 3 && read->data.epoch == UINT64_MAX);
    assert_true(read->data.items == 1000 && read->data.items_given == 400 && read->data.items_back == 7);
    assert_true(read->data.workers == 2 && read->data.reader_count == 2);
    assert_memory_equal(read->data.readers, holders, sizeof holders);
    const mr_ps_table_state *rows = &read->tables[0], *model = &read->tables[1];
    assert_true(rows->kind == MR_PS_SPARSE && rows->dtype == MR_BF16 && rows->dim == 64 && rows->arrays == 0);
    assert_true(rows->rows == 1000000007 && rows->bytes == UINT64_MAX && rows->nonfinite == 3);
    assert_string_equal(rows->name, "rows");
    assert_string_equal(rows->optimizer, "adam");
    assert_string_equal(rows->compression, "int8+zstd");
    assert_string_equal(rows->consistency, "ssp:2");
    assert_true(model->kind == MR_PS_DENSE && model->dtype == MR_F32 && model->arrays == 5 && model->rows == 0);
    mr_ps_overview_free(read);
    mr_ps_overview_free(NULL);
    free(bytes);
}

static void damage_is_noticed(void **state) {
    size_t size;
    mr_ps_overview *read = NULL;
    uint8_t *bytes = overview_encode(&said, &size);
    uint8_t *copy = xmalloc(size + 1);
    for (size_t cut = 0; cut < size; cut++) assert_int_equal(overview_decode(span_of(bytes, cut), &read), MR_CORRUPT);
    memcpy(copy, bytes, size);
    copy[size] = 0;
    assert_int_equal(overview_decode(span_of(copy, size + 1), &read), MR_CORRUPT);
    static const struct {
        size_t at;
        uint8_t byte;
    } wrong[] = {
        {15, 0xff},            /* a time before 1970 */
        {24, 2},               /* an invalid flag */
        {42, 0xff},            /* a folder longer than the bytes */
        {46, 0},               /* a text with a zero byte */
        {TABLES_AT + 3, 0xff}, /* more tables than bytes */
        {TABLES_AT + 4, 3},    /* an unknown kind */
        {TABLES_AT + 5, 99},   /* an unknown dtype */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(copy, bytes, size);
        assert_true(wrong[i].at < size);
        copy[wrong[i].at] = wrong[i].byte;
        assert_int_equal(overview_decode(span_of(copy, size), &read), MR_CORRUPT);
    }
    assert_null(read);
    free(copy);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_back_as_they_went),
        cmocka_unit_test(damage_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
