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
#include "tests/support/snapshot_fixture.h"

static const mr_ps_array arrays[] = {{.name = "w", .dims = 2, .shape = {3, 4}}, {.name = "b"}};

static table_catalog_table table_of(const char *name, mr_ps_table_options options) {
    table_catalog_table table;
    assert_int_equal(table_catalog_table_init(&table, name, &options), MR_OK);
    return table;
}

static void add(table_catalog *catalog, const char *name, mr_ps_table_options options) {
    table_catalog_table table = table_of(name, options);
    snapshot_fixture_add(catalog, &table);
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

static void assert_refused(const char *name, mr_ps_table_options options, const char *words) {
    table_catalog_table table;
    assert_int_equal(table_catalog_table_init(&table, name, &options), MR_INVALID);
    if (strstr(mr_last_error(), words) == NULL) fprintf(stderr, "'%s' is not in: %s\n", words, mr_last_error());
    assert_non_null(strstr(mr_last_error(), words));
}

static void bytes_come_back_as_they_went(void **state) {
    table_catalog catalog = some_tables();
    for (size_t i = 0; i < catalog.count; i++) {
        const table_catalog_entry *entry = catalog.entries[i];
        table_catalog_table read, cut_off;
        size_t size;
        assert_int_equal(table_catalog_table_decode(span_of(entry->bytes, entry->size), &read), MR_OK);
        uint8_t *again = table_catalog_table_encode(&read, &size);
        assert_int_equal(size, entry->size);
        assert_memory_equal(again, entry->bytes, size);
        assert_string_equal(read.name, entry->table.name);
        assert_string_equal(read.schedule, i == 0 ? "cosine:100" : "constant");
        assert_string_equal(read.consistency, i == 0 ? "ssp:4" : "");
        assert_int_equal(read.schema.id, i + 1);
        assert_int_equal(entry->items, i == 2 ? 13 : 0);
        table_catalog_table_fini(&read);
        for (size_t cut = 0; cut < size; cut++)
            assert_int_equal(table_catalog_table_decode(span_of(again, cut), &cut_off), MR_CORRUPT);
        free(again);
    }
    table_catalog_fini(&catalog);
}

static void an_id_is_given_once(void **state) {
    table_catalog catalog = some_tables();
    assert_true(table_catalog_remove(&catalog, 3));
    assert_false(table_catalog_remove(&catalog, 3));
    assert_null(table_catalog_find(&catalog, "dense"));
    assert_null(table_catalog_by_id(&catalog, 3));
    add(&catalog, "dense", (mr_ps_table_options){0});
    assert_int_equal(table_catalog_find(&catalog, "dense")->table.schema.id, 4);
    const table_catalog_entry *rows = table_catalog_find(&catalog, "rows");
    assert_int_equal(table_catalog_put(&catalog, span_of(rows->bytes, rows->size)), MR_CORRUPT); /* known id and name */
    assert_int_equal(catalog.count, 3);
    table_catalog_fini(&catalog);
}

/* 5,000 tables are found by name and by id, and removed. */
static void many_tables_are_found(void **state) {
    enum { TABLES = 5000 };
    table_catalog catalog = {0};
    char name[MR_PS_NAME_MAX];
    for (int i = 0; i < TABLES; i++) {
        snprintf(name, sizeof name, "layer.%d", i);
        add(&catalog, name, (mr_ps_table_options){.dim = 4});
    }
    for (uint32_t i = 0; i < TABLES; i += 2) assert_true(table_catalog_remove(&catalog, i + 1));
    for (uint32_t i = 0; i < TABLES; i++) {
        snprintf(name, sizeof name, "layer.%u", i);
        const table_catalog_entry *entry = table_catalog_find(&catalog, name);
        assert_true((entry != NULL) == (i % 2 == 1) && table_catalog_by_id(&catalog, i + 1) == entry);
        assert_true(entry == NULL || entry->table.schema.id == i + 1);
    }
    assert_int_equal(catalog.count, TABLES / 2);
    table_catalog_fini(&catalog);
}

/* A table of many arrays; then the names of two of them are equal; then there are more than a table may have. */
static void a_table_has_many_arrays(void **state) {
    enum { ARRAYS = 100 * 1000 };
    mr_ps_array *many = xcalloc(ARRAYS, sizeof *many);
    char(*names)[24] = xcalloc(ARRAYS, sizeof *names);
    for (int i = 0; i < ARRAYS; i++) {
        snprintf(names[i], sizeof *names, "layer.%d", i);
        many[i].name = names[i];
    }
    mr_ps_table_options options = {.kind = MR_PS_DENSE, .arrays = many, .array_count = ARRAYS};
    table_catalog_table table = table_of("deep", options), read;
    size_t size;
    uint8_t *bytes = table_catalog_table_encode(&table, &size);
    assert_int_equal(table_catalog_table_decode(span_of(bytes, size), &read), MR_OK);
    assert_null(table_catalog_table_differs(&table, &read));
    many[ARRAYS - 1].name = names[77];
    assert_refused("deep", options, "two arrays of table 'deep' have the name 'layer.77'");
    options.array_count = MR_PS_ARRAYS_MAX + 1; /* they are not read */
    assert_refused("deep", options, "has 1000001 arrays; expected 1 to 1000000");
    table_catalog_table_fini(&table);
    table_catalog_table_fini(&read);
    free(bytes);
    free(many);
    free(names);
}

/* The value of release 0.2.0: the tables one after the other, behind a head. */
static void the_value_of_the_release_before_is_read(void **state) {
    table_catalog catalog = some_tables(), read;
    assert_true(table_catalog_remove(&catalog, 2));
    size_t size = 12 + catalog.bytes;
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    writer_u32(&writer, TABLE_CATALOG_MAGIC_BEFORE);
    writer_u32(&writer, 9);
    writer_u32(&writer, 2);
    for (size_t i = 0; i < 2; i++) writer_bytes(&writer, catalog.entries[i]->bytes, catalog.entries[i]->size);
    assert_int_equal(table_catalog_import(span_of(bytes, size), &read), MR_OK);
    assert_true(read.count == 2 && table_catalog_next(&read) == 9);
    assert_int_equal(table_catalog_find(&read, "dense")->table.schema.id, 3);
    table_catalog_fini(&read);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(table_catalog_import(span_of(bytes, cut), &read), MR_CORRUPT);
    bytes[4] = 3; /* the next id is in use */
    assert_int_equal(table_catalog_import(span_of(bytes, size), &read), MR_CORRUPT);
    free(bytes);
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
    assert_refused("a", (mr_ps_table_options){.kind = MR_PS_DENSE}, "'a' has 0 arrays; expected 1 to 1000000");
    assert_refused("a", (mr_ps_table_options){.kind = MR_PS_DENSE, .arrays = twice, .array_count = 2},
                   "two arrays of table");
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
    table_catalog catalog = {.count = TABLE_CATALOG_TABLES_MAX}; /* without its entries, which are not looked at */
    assert_int_equal(table_catalog_check_room(&catalog, "x", 100), MR_TOO_LARGE);
    assert_non_null(strstr(mr_last_error(), "table 'x': there are 100000 tables"));
    catalog = (table_catalog){.count = 7, .bytes = TABLE_CATALOG_BYTES_MAX - 100};
    assert_int_equal(table_catalog_check_room(&catalog, "x", 100), MR_OK);
    assert_int_equal(table_catalog_check_room(&catalog, "x", 101), MR_TOO_LARGE);
    assert_non_null(strstr(mr_last_error(), "table 'x' of 101 bytes"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_back_as_they_went),
        cmocka_unit_test(an_id_is_given_once),
        cmocka_unit_test(many_tables_are_found),
        cmocka_unit_test(a_table_has_many_arrays),
        cmocka_unit_test(the_value_of_the_release_before_is_read),
        cmocka_unit_test(an_error_names_the_difference),
        cmocka_unit_test(options_that_cannot_be_are_named),
        cmocka_unit_test(a_table_has_the_consistency_of_its_map_or_its_own),
        cmocka_unit_test(there_is_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
