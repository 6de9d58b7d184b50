/* table_catalog_test.c — tables are listed, ids are not reused, encoding is reversible, malformed bytes are
 * rejected. */
#include "kv/control/table_catalog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

static const mr_ps_array arrays[] = {{.name = "w", .dims = 2, .shape = {3, 4}}, {.name = "b"}};

static table_catalog_table table_of(const char *name, mr_ps_table_options options) {
    table_catalog_table table;
    assert_int_equal(table_catalog_table_init(&table, name, &options), MR_OK);
    return table;
}

static void add(table_catalog *catalog, const char *name, mr_ps_table_options options) {
    table_catalog_table table = table_of(name, options);
    assert_int_equal(table_catalog_add(catalog, &table), MR_OK);
    table_catalog_table_fini(&table);
}

static table_catalog some_tables(void) {
    table_catalog catalog = {0};
    add(&catalog, "rows",
        (mr_ps_table_options){.dim = 7, .optimizer = "adam", .schedule = "cosine:100", .consistency = "ssp:4"});
    add(&catalog, "vectors", (mr_ps_table_options){.kind = MR_PS_VECTORS});
    add(&catalog, "dense", (mr_ps_table_options){.kind = MR_PS_DENSE, .arrays = arrays, .array_count = 2});
    return catalog;
}

static uint8_t *bytes_of(const table_catalog *catalog, size_t *size) {
    *size = table_catalog_size(catalog);
    uint8_t *bytes = xmalloc(*size);
    writer writer = writer_of(bytes, *size);
    table_catalog_encode(catalog, &writer);
    assert_false(writer.failed);
    assert_int_equal(writer_size(&writer), *size);
    return bytes;
}

static void bytes_come_back_as_they_went(void **state) {
    table_catalog catalog = some_tables(), read;
    size_t size;
    uint8_t *bytes = bytes_of(&catalog, &size);
    assert_int_equal(table_catalog_decode(span_of(bytes, size), &read), MR_OK);
    assert_int_equal(read.count, 3);
    assert_int_equal(read.next, 4);
    for (uint32_t i = 0; i < read.count; i++) {
        assert_string_equal(read.tables[i].name, catalog.tables[i].name);
        assert_int_equal(read.tables[i].schema.id, i + 1);
        assert_null(table_catalog_table_differs(&read.tables[i], &catalog.tables[i]));
        assert_string_equal(read.tables[i].schedule, catalog.tables[i].schedule);
        assert_string_equal(read.tables[i].consistency, i == 0 ? "ssp:4" : "");
    }
    table_catalog_fini(&read);
    for (size_t cut = 1; cut < size; cut++)
        assert_int_equal(table_catalog_decode(span_of(bytes, cut), &read), MR_CORRUPT);
    assert_int_equal(table_catalog_decode((span){0}, &read), MR_OK);
    assert_int_equal(read.count, 0);
    free(bytes);
    table_catalog_fini(&catalog);
}

static void an_id_is_given_once(void **state) {
    table_catalog catalog = some_tables();
    assert_true(table_catalog_remove(&catalog, 3));
    assert_false(table_catalog_remove(&catalog, 3));
    assert_null(table_catalog_find(&catalog, "dense"));
    add(&catalog, "dense", (mr_ps_table_options){0});
    assert_int_equal(table_catalog_find(&catalog, "dense")->schema.id, 4);
    table_catalog_fini(&catalog);
}

static void an_error_names_the_difference(void **state) {
    const mr_ps_table_options plain = {.dim = 2}, dense = {.kind = MR_PS_DENSE, .arrays = arrays, .array_count = 1};
    mr_ps_table_options other = dense;
    table_catalog_table a = table_of("a", plain), b = table_of("a", plain);
    assert_null(table_catalog_table_differs(&a, &b));
    table_catalog_table_fini(&b);
    b = table_of("a", (mr_ps_table_options){.dim = 3});
    assert_string_equal(table_catalog_table_differs(&a, &b), "dim");
    table_catalog_table_fini(&b);
    b = table_of("a", (mr_ps_table_options){.dim = 2, .dtype = MR_F16});
    assert_string_equal(table_catalog_table_differs(&a, &b), "dtype");
    table_catalog_table_fini(&b);
    b = table_of("a", (mr_ps_table_options){.dim = 2, .consistency = "asp"});
    assert_string_equal(table_catalog_table_differs(&a, &b), "consistency");
    table_catalog_table_fini(&a);
    table_catalog_table_fini(&b);
    other.array_count = 2;
    a = table_of("a", dense);
    b = table_of("a", other);
    assert_string_equal(table_catalog_table_differs(&a, &b), "arrays");
    table_catalog_table_fini(&a);
    table_catalog_table_fini(&b);
}

static void assert_refused(const char *name, mr_ps_table_options options, const char *words) {
    table_catalog_table table;
    assert_int_equal(table_catalog_table_init(&table, name, &options), MR_INVALID);
    if (strstr(mr_last_error(), words) == NULL) fprintf(stderr, "'%s' is not in: %s\n", words, mr_last_error());
    assert_non_null(strstr(mr_last_error(), words));
}

static void options_that_cannot_be_are_named(void **state) {
    static const mr_ps_array twice[] = {{.name = "w"}, {.name = "w"}}, bad[] = {{.name = "w", .dims = 9}};
    char name[MR_PS_NAME_MAX + 1] = {0};
    memset(name, 'x', MR_PS_NAME_MAX);
    assert_refused("", (mr_ps_table_options){0}, "needs a name");
    assert_refused(name, (mr_ps_table_options){0}, "longer than 63 bytes");
    assert_refused("a", (mr_ps_table_options){.optimizer = "magic"}, "magic");
    assert_refused("a", (mr_ps_table_options){.dtype = MR_U8}, "uint8");
    assert_refused("a", (mr_ps_table_options){.consistency = "ssp:x"}, "ssp:x");
    assert_refused("a", (mr_ps_table_options){.arrays = arrays, .array_count = 1}, "dense");
    assert_refused("a", (mr_ps_table_options){.kind = MR_PS_DENSE}, "'a' has 0 arrays; expected 1 to 1024");
    assert_refused("a", (mr_ps_table_options){.kind = MR_PS_DENSE, .arrays = twice, .array_count = 2}, "two arrays");
    assert_refused("a", (mr_ps_table_options){.kind = MR_PS_DENSE, .arrays = bad, .array_count = 1}, "dimensions");
}

static mr_status consistency_in(consistency_kind kind, bool mixed, const char *text, consistency *out) {
    const cluster_map map = {.consistency = {kind, 7}, .mixed = mixed, .slot_count = 5};
    table_catalog_table table = table_of("a", (mr_ps_table_options){.consistency = text});
    mr_status status = table_catalog_table_consistency(&table, &map, out);
    table_catalog_table_fini(&table);
    return status;
}

static void a_table_has_the_consistency_of_its_map_or_its_own(void **state) {
    consistency found;
    assert_int_equal(consistency_in(CONSISTENCY_SSP, false, NULL, &found), MR_OK);
    assert_true(found.kind == CONSISTENCY_SSP && found.bound == 7);
    assert_int_equal(consistency_in(CONSISTENCY_SSP, false, "ssp:2", &found), MR_OK);
    assert_true(found.kind == CONSISTENCY_SSP && found.bound == 2);
    assert_int_equal(consistency_in(CONSISTENCY_ASP, false, "bsp", &found), MR_INVALID);
    assert_int_equal(consistency_in(CONSISTENCY_BSP, false, "asp", &found), MR_INVALID);
    assert_int_equal(consistency_in(CONSISTENCY_BSP, true, "asp", &found), MR_OK);
    assert_int_equal(consistency_in(CONSISTENCY_ASP, true, "bsp", &found), MR_OK);
    assert_int_equal(found.kind, CONSISTENCY_BSP);
}

static void there_is_a_bound(void **state) {
    table_catalog catalog = {0};
    table_catalog_table table = table_of("x", (mr_ps_table_options){0});
    mr_status status = MR_OK;
    while (status == MR_OK) {
        snprintf(table.name, sizeof table.name, "table %u", catalog.count);
        status = table_catalog_add(&catalog, &table);
    }
    assert_int_equal(status, MR_TOO_LARGE);
    assert_true(catalog.count > 100 && table_catalog_size(&catalog) <= TABLE_CATALOG_BYTES_MAX);
    table_catalog_table_fini(&table);
    table_catalog_fini(&catalog);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_back_as_they_went),
        cmocka_unit_test(an_id_is_given_once),
        cmocka_unit_test(an_error_names_the_difference),
        cmocka_unit_test(options_that_cannot_be_are_named),
        cmocka_unit_test(a_table_has_the_consistency_of_its_map_or_its_own),
        cmocka_unit_test(there_is_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
