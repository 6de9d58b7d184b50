/* server_admission_test.c — which registering servers can hold the tables of a deployment. */
#include "kv/scheduler/server_admission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "kv/codec/compress.h"
#include "kv/control/table_catalog.h"
#include "tests/support/snapshot_fixture.h"

enum { STORED = 1 << COMPRESSOR_STORED, LZ4 = 1 << COMPRESSOR_LZ4, ZSTD = 1 << COMPRESSOR_ZSTD };

static void add(table_catalog *catalog, const char *name, const char *compression) {
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .compression = compression);
    table_catalog_table table;
    assert_int_equal(table_catalog_table_init(&table, name, &options), MR_OK);
    snapshot_fixture_add(catalog, &table);
    table_catalog_table_fini(&table);
}

/* The status for a server with these compressors. */
static mr_status check(const table_catalog *catalog, uint32_t available) {
    return server_admission_check(catalog, span_of(&available, sizeof available));
}

static void a_server_without_a_library_is_not_admitted(void **state) {
    table_catalog catalog = {0};
    assert_int_equal(server_admission_check(&catalog, (span){0}), MR_OK); /* no tables yet */
    add(&catalog, "plain", "int8");
    assert_int_equal(check(&catalog, STORED), MR_OK);
    add(&catalog, "packed", "int8+zstd");
    assert_int_equal(check(&catalog, STORED | ZSTD), MR_OK);
    assert_int_equal(check(&catalog, STORED | LZ4), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "'packed' is compressed with zstd, and libzstd.so.1 cannot be loaded"));
    add(&catalog, "quick", "lz4");
    assert_int_equal(check(&catalog, STORED | ZSTD), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "'quick'"));
    assert_int_equal(check(&catalog, STORED | ZSTD | LZ4), MR_OK);
    table_catalog_fini(&catalog);
}

/* A table is decided after a server has registered, and before its creator has seen that server: the scheduler checks
 * the servers of that moment. */
static void a_new_table_needs_its_library_on_all_servers(void **state) {
    const uint32_t with[] = {0, STORED | ZSTD, 0, STORED | ZSTD | LZ4}, without[] = {0, STORED | ZSTD, 0, STORED | LZ4};
    table_catalog catalog = {0};
    add(&catalog, "packed", "zstd");
    const table_catalog_table *packed = &table_catalog_find(&catalog, "packed")->table;
    assert_int_equal(server_admission_check_table(packed, with, 4), MR_OK);
    assert_int_equal(server_admission_check_table(packed, without, 4), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "table 'packed': server 3 cannot load libzstd.so.1"));
    assert_int_equal(server_admission_check_table(packed, without, 3), MR_OK); /* without server 3 */
    table_catalog_fini(&catalog);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_server_without_a_library_is_not_admitted),
                                       cmocka_unit_test(a_new_table_needs_its_library_on_all_servers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
